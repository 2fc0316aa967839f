#include <troupe/strategies/replicas/detail/context_stack.hpp>

#include <utility>

namespace troupe::detail {

void drop_frame(context_frame& frame) {
  auto* at = innermost_frame();
  if (at == &frame)
    return pop_frame(frame);
  while (at && at->outer != &frame)
    at = at->outer;
  if (at)
    at->outer = frame.outer;
}

std::pair<std::string, const context_frame*> own_names() {
  std::string own;
  auto* at = innermost_frame();
  for (; at && at->kind != context_kind::replica && at->kind != context_kind::cross_replica;
       at = at->outer)
    if (at->kind == context_kind::names)
      own = at->text + "/" + own;
  return {std::move(own), at};
}

std::string name_prefix() {
  auto [own, around] = own_names();
  return (around ? around->text : std::string{}) + own;
}

} // namespace troupe::detail
