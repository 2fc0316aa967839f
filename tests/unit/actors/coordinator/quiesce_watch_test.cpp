// Goal: a snapshot waits for what shows progress, however long, and for nothing else. Method: every
// combination of silence, limit and waiting time against the rule in words.
#include <doctest/doctest.h>

#include <vector>

#include <troupe/actors/coordinator/quiesce_watch.hpp>

using namespace troupe;

namespace {

constexpr time_point begun{std::chrono::seconds{100}};

time_point later(std::uint64_t ms) { return begun + std::chrono::milliseconds{ms}; }

std::vector<std::uint64_t> overdue(const quiesce_watch& w, std::uint64_t ms,
                                   const std::vector<running_closure>& running) {
  std::vector<std::uint64_t> out;
  for (const auto& c : w.look(later(ms), running).overdue)
    out.push_back(c.seq);
  return out;
}

} // namespace

TEST_CASE("quiesce: a step that calls Troupe is waited for, far beyond the limit") {
  quiesce_watch w{1000};
  w.begin(begun);
  for (std::uint64_t ms = 0; ms < 3'600'000; ms += 777)
    CHECK(overdue(w, ms, {{.seq = 1, .worker = 0, .silent_ms = 999, .median_ms = 0}}).empty());
}

TEST_CASE("quiesce: silence before the save is not held against a step") {
  quiesce_watch w{1000};
  w.begin(begun);
  const std::vector<running_closure> silent{
    {.seq = 1, .worker = 0, .silent_ms = 50'000, .median_ms = 0}};
  const auto seen = w.look(later(400), silent);
  CHECK(seen.overdue.empty());
  CHECK(seen.look_again_ms == 600);
  CHECK(overdue(w, 1000, silent) == std::vector<std::uint64_t>{1});
}

TEST_CASE("quiesce: each silent step is named, and only those, whatever others do") {
  for (std::uint64_t silent_ms : {0u, 10u, 99u, 100u, 101u, 5000u})
    for (std::uint64_t median_ms : {0u, 1u, 5u, 6u, 100u})
      for (std::uint64_t waited_ms : {0u, 99u, 100u, 119u, 120u, 4000u}) {
        quiesce_watch w{100};
        w.begin(begun);
        const auto limit_ms = std::max<std::uint64_t>(100, 20 * median_ms);
        const bool late = std::min(silent_ms, waited_ms) >= limit_ms;
        CAPTURE(silent_ms);
        CAPTURE(median_ms);
        CAPTURE(waited_ms);
        const auto named =
          overdue(w, waited_ms,
                  {{.seq = 1, .worker = 0, .silent_ms = 0, .median_ms = 0},
                   {.seq = 2, .worker = 1, .silent_ms = silent_ms, .median_ms = median_ms}});
        CHECK(named == (late ? std::vector<std::uint64_t>{2} : std::vector<std::uint64_t>{}));
      }
}

TEST_CASE("quiesce: what waits for a thread is as late as the least silent step of its worker") {
  quiesce_watch w{100};
  w.begin(begun);
  const running_closure queued{.seq = 9, .worker = 0, .silent_ms = {}, .median_ms = 0};
  const running_closure at_work{.seq = 1, .worker = 0, .silent_ms = 5, .median_ms = 0};
  const running_closure stuck{.seq = 2, .worker = 0, .silent_ms = 5000, .median_ms = 0};
  CHECK(overdue(w, 5000, {queued, at_work, stuck}) == std::vector<std::uint64_t>{2});
  CHECK(overdue(w, 5000, {queued, stuck}) == std::vector<std::uint64_t>{9, 2});
  CHECK(overdue(w, 99, {queued}).empty());
  CHECK(overdue(w, 100, {queued}) == std::vector<std::uint64_t>{9});
}

TEST_CASE("quiesce: with nothing running it is somebody else's turn, for as long") {
  quiesce_watch w{100};
  w.begin(begun);
  CHECK(w.look(later(30), {}).look_again_ms == 70);
  CHECK(w.look(later(100), {}).look_again_ms == 0);
  CHECK(w.look(later(100), {}).overdue.empty());
}
