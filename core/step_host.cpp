#include <troupe/core/step_host.hpp>

namespace troupe {

tensor variable_value::to_tensor() const {
  if (blocks.size() == 1)
    return blocks.front().values;
  std::vector<tensor> parts;
  parts.reserve(blocks.size());
  for (const auto& block : blocks)
    parts.push_back(block.values);
  return concatenate(parts);
}

} // namespace troupe
