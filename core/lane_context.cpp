#include <troupe/core/lane_context.hpp>

namespace troupe {

namespace {

struct slot {
  execution_context own{};
  execution_context* current = nullptr;
};

slot& this_thread() {
  static thread_local slot s;
  return s;
}

} // namespace

execution_context& current_context() {
  auto& s = this_thread();
  return s.current ? *s.current : s.own;
}

bool has_lent_context() { return this_thread().current != nullptr; }

execution_context* exchange_context(execution_context* to) {
  return std::exchange(this_thread().current, to);
}

} // namespace troupe
