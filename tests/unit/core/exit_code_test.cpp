// Goal: whoever starts processes again reads from the code what ended one. Method: every code of an
// error, and what `run_main` makes of each kind of end.
#include <stdexcept>

#include <doctest/doctest.h>

#include <troupe/core/exit_code.hpp>

using namespace troupe;

TEST_CASE("every end was 0 or 1: the code tells usage, loss, refusal and the rest apart") {
  const auto of = [](errc code) { return static_cast<int>(exit_code_of(make_failure(code, "x"))); };
  CHECK(of(errc::none) == 0);
  for (auto code : {errc::bad_config, errc::invalid_argument})
    CHECK(of(code) == 64);
  for (auto code : {errc::unavailable, errc::deadline, errc::connection_lost, errc::connect_failed,
                    errc::peer_lost, errc::revoked, errc::address_in_use})
    CHECK(of(code) == 69);
  for (auto code : {errc::wrong_peer, errc::task_taken, errc::fenced, errc::superseded})
    CHECK(of(code) == 77);
  for (auto code : {errc::user_code, errc::poisoned, errc::io_failed, errc::corrupt,
                    errc::not_found, errc::no_space, errc::device_lost})
    CHECK(of(code) == 1);
  CHECK(static_cast<int>(exit_code::step_deadline) == 75);
}

TEST_CASE("run_main: what leaves a program becomes its code") {
  CHECK(run_main([] { return 3; }) == 3);
  CHECK(run_main([]() -> int { throw_failure(errc::unavailable, "ps:0 is gone"); }) == 69);
  CHECK(run_main([]() -> int { throw_failure(errc::wrong_peer, "another token"); }) == 77);
  CHECK(run_main([]() -> int { throw std::runtime_error{"of the program"}; }) == 1);
}
