// The CPU kernels, one thread, against the plainest Eigen expression or memcpy for the same work:
// aim 0.9 of it for each. Two sizes: arrays that stay in the second-level cache, and main memory.

#include <cstdio>
#include <exception>

#include "detail/bench.hpp"
#include "detail/kernel_cases.hpp"
#include "detail/kernel_math.hpp"
#include "detail/kernel_updates.hpp"

namespace {

constexpr double sample_s = 4e-3;

/// Calls of `f` that fill a sample.
std::size_t calls_for(const std::function<void()>& f, double seconds) {
  std::size_t calls = 1;
  for (;;) {
    const auto start = bench::steady::now();
    for (std::size_t i = 0; i < calls; ++i)
      f();
    if (const double took = bench::seconds_since(start); took > seconds / 4 || calls > (1u << 24))
      return std::max<std::size_t>(
        1, static_cast<std::size_t>(seconds / took * static_cast<double>(calls)));
    calls *= 2;
  }
}

std::function<double()> microseconds_of(std::function<void()> f, double seconds) {
  return [calls = calls_for(f, seconds), f = std::move(f)] {
    const auto start = bench::steady::now();
    for (std::size_t i = 0; i < calls; ++i)
      f();
    return 1e6 * bench::seconds_since(start) / static_cast<double>(calls);
  };
}

/// False, and said, when the two sides don't compute the same.
bool measure(bench::report& out, const bench::kernel_case& what) {
  what.ours();
  what.bound();
  if (const double off = what.apart(); !(off < 1e-3)) {
    std::fprintf(stderr, "kernels: %s and its bound are %g apart\n", what.name.c_str(), off);
    return false;
  }
  const double seconds = out.quick() ? sample_s / 10 : sample_s;
  auto samples =
    out.interleave({microseconds_of(what.ours, seconds), microseconds_of(what.bound, seconds)});
  bench::row r{.name = what.name, .unit = "us"};
  r.params = {{"elements", std::to_string(what.elements)}};
  if (what.bytes > 0)
    r.params.push_back({"bytes", std::to_string(what.bytes)});
  r.ours = std::move(samples[0]);
  r.peer = what.peer;
  r.peers = std::move(samples[1]);
  if (bench::ratio(r) < 0.9)
    r.note = "below 0.9";
  out.add(std::move(r));
  return true;
}

} // namespace

int main(int argc, char** argv) try {
  bench::report out{"kernels", argc, argv};
  std::vector<bench::kernel_case> cases;
  for (const bool large : {false, true}) {
    const std::size_t n = large ? std::size_t{1} << 23 : std::size_t{1} << 14;
    const std::string at = large ? "_32M" : "_64K";
    bench::add_elementwise(cases, n, at);
    bench::add_reductions(cases, n, at);
    bench::add_casts(cases, n, at);
    bench::add_updates(cases, n, at);
  }
  bench::add_rows(cases);
  bench::add_layers(cases);
  bool same = true;
  for (const auto& what : cases)
    if (out.wants(what.name))
      same &= measure(out, what);
  return out.finish() != 0 || !same ? 1 : 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "kernels: %s\n", e.what());
  return 1;
}
