#include <troupe/strategies/sharding/sparse_ids.hpp>

#include <algorithm>
#include <string>
#include <vector>

#include <troupe/core/error.hpp>

namespace troupe {

result<combiner> combiner_from_name(std::string_view name) {
  if (name == "sum")
    return combiner::sum;
  if (name == "mean")
    return combiner::mean;
  if (name == "sqrtn")
    return combiner::sqrtn;
  return make_failure(errc::invalid_argument,
                      "combiner \"" + std::string{name} + "\" is not one of sum, mean, sqrtn");
}

sparse_ids sparse_ids::from_row_splits(std::span<const std::int64_t> splits,
                                       std::span<const std::int64_t> values) {
  const auto n = static_cast<std::int64_t>(values.size());
  if (splits.empty() || splits.front() != 0 || splits.back() != n
      || !std::is_sorted(splits.begin(), splits.end()))
    throw_failure(errc::invalid_argument,
                  "row splits " + to_string(shape_t{splits.begin(), splits.end()})
                    + " must ascend from 0 to the number of values " + std::to_string(n));
  const auto bags = static_cast<std::int64_t>(splits.size()) - 1;
  std::int64_t longest = 0;
  std::vector<std::int64_t> indices;
  for (std::size_t bag = 0; bag + 1 < splits.size(); ++bag) {
    const auto length = splits[bag + 1] - splits[bag];
    longest = std::max(longest, length);
    for (std::int64_t i = 0; i < length; ++i)
      indices.insert(indices.end(), {static_cast<std::int64_t>(bag), i});
  }
  return {tensor::of<std::int64_t>({n, 2}, indices),
          tensor::of<std::int64_t>({n}, values),
          {bags, longest}};
}

} // namespace troupe
