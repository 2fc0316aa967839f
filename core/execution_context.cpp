#include <troupe/core/execution_context.hpp>

#include <atomic>

#include <troupe/core/error.hpp>

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

std::size_t detail::new_context_place() {
  static std::atomic<std::size_t> count{0};
  const auto mine = count.fetch_add(1);
  TROUPE_ASSERT(mine < context_places_max, "context_local is used with too many types");
  return mine;
}

std::size_t detail::new_context_kept_place() {
  static std::atomic<std::size_t> count{0};
  const auto mine = count.fetch_add(1);
  TROUPE_ASSERT(mine < context_kept_places_max, "context_kept is used with too many types");
  return mine;
}

execution_context& current_context() {
  auto& s = this_thread();
  return s.current ? *s.current : s.own;
}

bool has_lent_context() { return this_thread().current != nullptr; }

execution_context* exchange_context(execution_context* to) {
  return std::exchange(this_thread().current, to);
}

} // namespace troupe
