#include <troupe/actors/worker/report_coalescer.hpp>

#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

namespace {

using namespace troupe;

using queue_state = report_coalescer::queue_state;

constexpr function_index train{3};
constexpr function_index evaluate{4};
constexpr std::uint64_t very_short_ns = 5'000;
constexpr std::uint64_t short_ns = 500'000;
constexpr std::uint64_t long_ns = 5'000'000;

const queue_state no_queue{};
const queue_state long_queue{.length = 8, .next = train};

attempt_ended end_of(std::uint64_t seq, std::uint64_t run_ns = short_ns,
                     attempt_outcome outcome = attempt_outcome::finished) {
  return {.id = {term_no{1}, seq}, .attempt = attempt_no{1}, .outcome = outcome, .run_ns = run_ns};
}

std::vector<std::uint64_t> seqs(const worker_outbox& out) {
  std::vector<std::uint64_t> all;
  for (const auto& each : out.ended)
    all.push_back(each.id.seq);
  return all;
}

} // namespace

TEST_CASE("report_coalescer: without limits the first addition wakes the reporter, who takes all") {
  report_coalescer reports{{}};
  CHECK_FALSE(reports.has_ends());
  CHECK(reports.add_step_end(end_of(1), long_queue));
  CHECK(reports.has_ends());
  CHECK_FALSE(reports.waits_for_more(long_queue));
  CHECK_FALSE(reports.add_step_end(end_of(2), long_queue)); // it was woken already
  CHECK(seqs(reports.take()) == std::vector<std::uint64_t>{1, 2});
  CHECK(reports.take().empty());
  CHECK(reports.add_step_end(end_of(3), long_queue));
}

TEST_CASE("report_coalescer: short steps wait for others while many closures are queued") {
  report_coalescer reports{{.report_batch = 3, .report_queue_min = 8}};
  CHECK(reports.add_step_end(end_of(1), long_queue));
  CHECK(reports.waits_for_more(long_queue));
  CHECK_FALSE(reports.add_step_end(end_of(2), long_queue));
  CHECK(reports.add_step_end(end_of(3), long_queue)); // enough for a report
  CHECK_FALSE(reports.add_step_end(end_of(4), long_queue));
  CHECK_FALSE(reports.waits_for_more(long_queue));
  CHECK(seqs(reports.take()) == std::vector<std::uint64_t>{1, 2, 3, 4});
}

TEST_CASE("report_coalescer: the reporter that waits is woken when the queue runs short") {
  report_coalescer reports{{.report_batch = 100, .report_queue_min = 8}};
  CHECK(reports.add_step_end(end_of(1), long_queue));
  CHECK(reports.waits_for_more(long_queue));
  CHECK_FALSE(reports.add_step_end(end_of(2), long_queue));
  CHECK(reports.add_step_end(end_of(3), {.length = 7, .next = train}));
}

TEST_CASE("report_coalescer: a short queue does when the next step is very short as well") {
  const queue_state alike{.length = 1, .next = train};
  const queue_state other{.length = 1, .next = evaluate};
  report_coalescer reports{{.report_batch = 100}};
  reports.note_function(train);
  CHECK(reports.add_step_end(end_of(1, very_short_ns), alike));
  CHECK(reports.waits_for_more(alike));
  CHECK_FALSE(reports.waits_for_more(other));
  CHECK_FALSE(reports.waits_for_more(no_queue));
  CHECK_FALSE(reports.waits_for_more({.length = 1, .next = {}})); // a resource
  (void)reports.take();
  (void)reports.add_step_end(end_of(2, short_ns), alike);
  CHECK_FALSE(reports.waits_for_more(alike)); // the next may take as long as that
}

TEST_CASE("report_coalescer: what others wait for is not held back") {
  report_coalescer reports{{.report_batch = 100}};
  const auto waits_with = [&](auto add) {
    (void)reports.take();
    (void)reports.add_step_end(end_of(1), long_queue);
    CHECK(reports.waits_for_more(long_queue));
    CHECK(add()); // wakes the reporter
    return reports.waits_for_more(long_queue);
  };
  CHECK_FALSE(waits_with([&] { return reports.add_step_end(end_of(2, long_ns), long_queue); }));
  CHECK_FALSE(waits_with([&] {
    return reports.add_step_end(end_of(2, short_ns, attempt_outcome::failed), long_queue);
  }));
  CHECK_FALSE(waits_with(
    [&] { return reports.add_ends({end_of(2, 0, attempt_outcome::recalled)}, long_queue); }));
  CHECK_FALSE(waits_with([&] { return reports.add_resource({}, long_queue); }));
  CHECK_FALSE(waits_with([&] { return reports.add_begun({}, long_queue); }));
}

TEST_CASE("report_coalescer: a thread with more to do leaves short ends to the next report") {
  const queue_state two{.length = 2, .next = train};
  report_coalescer reports{{.quiet_batch = 3}};
  CHECK_FALSE(reports.add_step_end(end_of(1), two));
  CHECK_FALSE(reports.add_step_end(end_of(2), two));
  CHECK(reports.add_step_end(end_of(3), two)); // enough
  CHECK(reports.take().ended.size() == 3);
  CHECK_FALSE(reports.add_step_end(end_of(4), two));
  CHECK(reports.add_step_end(end_of(5), {.length = 1, .next = train})); // which may be long
  (void)reports.take();
  CHECK(reports.add_step_end(end_of(6, long_ns), two));
  (void)reports.take();
  CHECK(reports.add_step_end(end_of(7, short_ns, attempt_outcome::failed), two));
}

TEST_CASE("report_coalescer: the reporter hears of what was left out with the next addition") {
  const queue_state two{.length = 2, .next = train};
  report_coalescer reports{{.quiet_batch = 8}};
  CHECK_FALSE(reports.add_step_end(end_of(1), two));
  CHECK(reports.add_begun({}, two)); // the outbox was not empty, and yet nobody knew
  CHECK_FALSE(reports.add_begun({}, two));
  (void)reports.take();
  CHECK_FALSE(reports.add_step_end(end_of(2), two));
  CHECK(seqs(reports.take()) == std::vector<std::uint64_t>{2}); // it looked by itself
  CHECK_FALSE(reports.add_step_end(end_of(3), two));
}

TEST_CASE("report_coalescer: what is dropped is not reported") {
  report_coalescer reports{{}};
  (void)reports.add_step_end(end_of(1), no_queue);
  reports.add_given_up(end_of(2, 0, attempt_outcome::given_up));
  reports.add_given_up(resource_made{});
  reports.drop();
  CHECK_FALSE(reports.has_ends());
  CHECK(reports.add_step_end(end_of(3), no_queue));
  CHECK(seqs(reports.take()) == std::vector<std::uint64_t>{3});
}

TEST_CASE("report_coalescer: attempts and resources that were given up are in the outbox") {
  report_coalescer reports{{}};
  reports.add_given_up(end_of(1, 0, attempt_outcome::given_up));
  reports.add_given_up(resource_made{.id = resource_id{4}, .why = {}});
  const auto out = reports.take();
  CHECK(seqs(out) == std::vector<std::uint64_t>{1});
  REQUIRE(out.resources.size() == 1);
  CHECK(out.resources[0].id == resource_id{4});
}
