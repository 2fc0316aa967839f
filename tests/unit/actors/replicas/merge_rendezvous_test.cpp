#include <troupe/actors/replicas/merge_rendezvous.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <utility>

#include <doctest/doctest.h>

namespace {

using namespace troupe;

std::shared_ptr<void> value(int x) { return std::make_shared<int>(x); }
int of(const std::shared_ptr<void>& x) { return *static_cast<int*>(x.get()); }

/// Gives each the sum of all, and ten times its own place.
merge_values sum(const merge_values& arguments) {
  int all = 0;
  for (const auto& each : arguments)
    all += of(each);
  merge_values out;
  for (std::size_t i = 0; i < arguments.size(); ++i)
    out.push_back(value(all + 10 * static_cast<int>(i)));
  return out;
}

merge_values fail(const merge_values&) { throw std::runtime_error{"no merge"}; }

} // namespace

TEST_CASE("merge_rendezvous: the call is ready once all have come, whoever is first") {
  merge_rendezvous calls{2};
  CHECK_FALSE(calls.ready(1));
  const auto meeting = calls.arrive(1, 1, value(5), fail);
  CHECK(meeting->waits_for_others());
  CHECK_FALSE(calls.ready(1));
  CHECK(calls.arrive(1, 0, value(2), sum) == meeting);
  CHECK_FALSE(meeting->waits_for_others());
  CHECK(calls.ready(1) == meeting);
  CHECK_FALSE(calls.ready(2));
}

TEST_CASE(
  "merge_rendezvous: it runs once, with the first replica's function, and each has its part") {
  merge_rendezvous calls{2};
  const auto meeting = calls.arrive(1, 1, value(5), fail); // of replica 1: never called
  (void)calls.arrive(1, 0, value(2), sum);
  meeting->begin();
  CHECK_FALSE(calls.ready(1)); // somebody runs it
  CHECK_FALSE(meeting->done());
  meeting->finish(meeting->run());
  CHECK(meeting->done());
  CHECK(of(calls.leave(1, *meeting, 1)) == 17);
  CHECK(of(calls.leave(1, *meeting, 0)) == 7);
  CHECK(calls.take_all().empty()); // the last one ended the meeting
}

TEST_CASE(
  "merge_rendezvous: one replica may be at its next call while another is to leave the last") {
  merge_rendezvous calls{2};
  const auto first = calls.arrive(1, 0, value(1), sum);
  (void)calls.arrive(1, 1, value(1), sum);
  first->begin();
  first->finish(first->run());
  CHECK(of(calls.leave(1, *first, 0)) == 2);
  const auto second = calls.arrive(2, 0, value(3), sum);
  CHECK(second != first);
  CHECK(second->waits_for_others());
  CHECK(of(calls.leave(1, *first, 1)) == 12);
  (void)calls.arrive(2, 1, value(4), sum);
  CHECK(calls.ready(2) == second);
}

TEST_CASE("merge_rendezvous: a function without results leaves nobody anything") {
  merge_rendezvous calls{1};
  const auto meeting = calls.arrive(1, 0, value(1), sum);
  meeting->begin();
  meeting->finish({});
  CHECK(calls.leave(1, *meeting, 0) == nullptr);
}

TEST_CASE(
  "merge_rendezvous: a function that throws leaves the meeting undone; it can be taken away") {
  merge_rendezvous calls{1};
  auto argument = value(1);
  const std::weak_ptr<void> seen = argument;
  const auto number = std::uint64_t{7};
  {
    const auto meeting = calls.arrive(number, 0, std::move(argument), fail);
    meeting->begin();
    CHECK_THROWS_AS((void)meeting->run(), std::runtime_error);
    CHECK_FALSE(meeting->done());
    CHECK_FALSE(calls.ready(number));
  }
  CHECK_FALSE(seen.expired());
  CHECK(calls.take_all().size() == 1);
  CHECK(seen.expired());
}

TEST_CASE("merge_rendezvous: whoever comes late still gets its part of a meeting that is gone") {
  merge_rendezvous calls{1};
  const auto meeting = calls.arrive(1, 0, value(3), sum);
  meeting->begin();
  meeting->finish(meeting->run());
  (void)calls.take_all();
  CHECK(of(calls.leave(1, *meeting, 0)) == 3);
}
