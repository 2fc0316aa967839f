#include <troupe/actors/support/failure_classifier.hpp>

#include <doctest/doctest.h>

namespace {

using namespace troupe;
using namespace std::chrono_literals;

constexpr task_id worker{.job = job_kind::worker, .index = 2};
constexpr task_id other_worker{.job = job_kind::worker, .index = 1};
constexpr task_id server{.job = job_kind::ps, .index = 0};
constexpr task_id other_server{.job = job_kind::ps, .index = 1};

failure from(task_id task, errc code) {
  auto why = make_failure(code, "worker:7 and ps:9 stand here to mislead whoever reads texts");
  why.where.task = task;
  return why;
}

time_point at(duration d) { return time_point{1h + d}; }

} // namespace

TEST_CASE(
  "PS-CLS1, PS-W20, PS-W21 a server's transient failures are put back below the threshold, by "
  "server") {
  failure_classifier c{{.server_faults_max = 3, .window = 10s}};
  auto seen = [&](task_id task, duration when) {
    return c.classify(from(task, errc::connection_lost), worker, false, false, at(when));
  };
  CHECK(seen(server, 0s) == verdict::put_back);
  CHECK(seen(server, 1s) == verdict::put_back);
  CHECK(seen(other_server, 2s) == verdict::put_back); // each counts for itself
  CHECK(seen(other_server, 2s) == verdict::put_back);
  CHECK(seen(server, 2s) == verdict::fatal); // the third
}

TEST_CASE("PS-W20 the count is of a sliding window: a long run is not ended by its hiccups") {
  failure_classifier c{{.server_faults_max = 2, .window = 10s}};
  for (int i = 0; i < 50; ++i)
    CHECK(c.classify(from(server, errc::unavailable), worker, false, false, at(i * 10001ms))
          == verdict::put_back);
  CHECK(c.classify(from(server, errc::unavailable), worker, false, false, at(49 * 10001ms + 10s))
        == verdict::fatal);
}

TEST_CASE("PS-W20 all channels to a living server that end at once are one hiccup of it") {
  failure_classifier c{{.server_faults_max = 3, .window = 10s, .hiccup = 500ms}};
  auto seen = [&](duration when) {
    return c.classify(from(server, errc::connection_lost), worker, false, false, at(when));
  };
  for (int thread = 0; thread < 64; ++thread) // of all workers
    CHECK(seen(thread * 5ms) == verdict::put_back);
  for (int thread = 0; thread < 64; ++thread)
    CHECK(seen(2s + thread * 5ms) == verdict::put_back);
  CHECK(seen(4s) == verdict::fatal); // the third hiccup
}

TEST_CASE("PS-W20 a server that is never reached is told after some hiccups' time, not never") {
  failure_classifier c{{.server_faults_max = 3, .window = 10s, .hiccup = 500ms}};
  int tries = 0;
  for (duration when = 0s; tries < 1'000; when += 10ms, ++tries)
    if (c.classify(from(server, errc::connect_failed), worker, false, false, at(when))
        == verdict::fatal)
      break;
  CHECK(tries == 100); // 0, 500 and 1,000 ms
}

TEST_CASE("PS-CLS2 deadlines that pass together on many threads are one hiccup") {
  failure_classifier c{{.deadline_faults_max = 2, .window = 10s, .hiccup = 500ms}};
  for (int thread = 0; thread < 8; ++thread)
    CHECK(c.classify(from(worker, errc::deadline), worker, false, false, at(thread * 1ms))
          == verdict::put_back);
  CHECK(c.classify(from(other_worker, errc::deadline), worker, false, false, at(1s))
        == verdict::fatal);
}

TEST_CASE("PS-W20 a threshold of one makes the first failure fatal") {
  failure_classifier c{{.server_faults_max = 1}};
  CHECK(c.classify(from(server, errc::aborted), worker, false, false, at(0s)) == verdict::fatal);
}

TEST_CASE("PS-CLS1 which of a server's errors are transient") {
  for (errc code : {errc::unavailable, errc::aborted, errc::connection_lost, errc::connect_failed,
                    errc::try_again, errc::wrong_shard_view}) {
    CAPTURE(to_string(code));
    failure_classifier c;
    CHECK(c.classify(from(server, code), worker, false, false, at(0s)) == verdict::put_back);
  }
  for (errc code :
       {errc::shape_mismatch, errc::unknown_variable, errc::mismatch, errc::superseded}) {
    CAPTURE(to_string(code));
    failure_classifier c;
    CHECK(c.classify(from(server, code), worker, false, false, at(0s)) == verdict::fatal);
  }
}

TEST_CASE("PS-P5 a failure of a server that is known to be gone is fatal at once") {
  failure_classifier c;
  CHECK(c.classify(from(server, errc::connection_lost), worker, false, true, at(0s))
        == verdict::fatal);
}

TEST_CASE("PS-CLS2, PS-W22 deadlines are put back below their own threshold, in a sliding window") {
  failure_classifier c{{.deadline_faults_max = 3, .window = 10s}};
  auto seen = [&](task_id task, duration when) {
    return c.classify(from(task, errc::deadline), worker, false, false, at(when));
  };
  CHECK(seen(worker, 0s) == verdict::put_back);
  CHECK(seen(other_worker, 1s) == verdict::put_back);
  CHECK(seen(worker, 10s) == verdict::fatal);
  CHECK(seen(worker, 25s) == verdict::put_back);
}

TEST_CASE(
  "PS-CLS3 a cancellation that nobody asked for and that stems from elsewhere is put back") {
  failure_classifier c;
  CHECK(c.classify(from(other_worker, errc::cancelled), worker, false, false, at(0s))
        == verdict::put_back);
  CHECK(c.classify(from(server, errc::cancelled), worker, false, false, at(0s))
        == verdict::put_back);
}

TEST_CASE("PS-CLS4 the worker's own failure loses the worker, by typed origin and not by text") {
  for (errc code :
       {errc::unavailable, errc::aborted, errc::connection_lost, errc::fenced, errc::cancelled}) {
    CAPTURE(to_string(code));
    failure_classifier c;
    CHECK(c.classify(from(worker, code), worker, false, false, at(0s)) == verdict::worker_lost);
  }
  failure_classifier c;
  CHECK(c.classify(from(other_worker, errc::unavailable), worker, false, false, at(0s))
        == verdict::fatal);
}

TEST_CASE("PS-CLS4, PS-E13 during a cancellation nothing is retried") {
  for (errc code :
       {errc::cancelled, errc::fenced, errc::unavailable, errc::aborted, errc::connection_lost}) {
    CAPTURE(to_string(code));
    failure_classifier c;
    CHECK(c.classify(from(worker, code), worker, true, false, at(0s)) == verdict::cancelled);
  }
  failure_classifier c;
  CHECK(c.classify(from(server, errc::unavailable), worker, true, false, at(0s))
        == verdict::cancelled);
}

TEST_CASE("PS-CLS5 anything else fails the closure") {
  for (errc code : {errc::user_code, errc::invalid_argument, errc::end_of_data, errc::input_failed,
                    errc::not_registered, errc::poisoned}) {
    CAPTURE(to_string(code));
    failure_classifier c;
    for (bool cancelling : {false, true})
      CHECK(c.classify(from(worker, code), worker, cancelling, false, at(0s)) == verdict::fatal);
  }
}
