#include <troupe/actors/coordinator/function_times.hpp>

#include <algorithm>

namespace troupe {

namespace {
constexpr std::uint64_t ahead_ns = 4'000'000;
constexpr std::size_t credits_max = 256;
} // namespace

void function_times::add(function_index function, std::uint64_t run_ns) {
  auto& r = records_[function];
  r.runs[r.next] = run_ns;
  r.next = (r.next + 1) % window;
  r.count = std::min(r.count + 1, window);
  if (r.count > 8
      && r.next % 8
           != 0) // sorting 32 numbers for every microsecond closure would cost more than it
    return;
  auto sorted = r.runs;
  auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(r.count / 2);
  std::nth_element(sorted.begin(), middle, sorted.begin() + static_cast<std::ptrdiff_t>(r.count));
  r.median_ns = *middle;
}

std::uint64_t function_times::median_ns(function_index function) const {
  auto at = records_.find(function);
  return at == records_.end() ? 0 : at->second.median_ns;
}

std::size_t prefetch_credits(std::uint64_t median_ns) {
  if (median_ns == 0)
    return 1;
  return std::clamp<std::size_t>(ahead_ns / median_ns, 1, credits_max);
}

} // namespace troupe
