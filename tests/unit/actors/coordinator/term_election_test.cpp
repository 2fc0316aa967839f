// Goal: a coordinator starts only with one term that every server has granted, and gives up to
// another coordinator once it has sent work. Method: each rule alone, then random histories with
// servers that keep the highest term they have seen.
#include <troupe/actors/coordinator/term_election.hpp>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include <doctest/doctest.h>

namespace {

using namespace troupe;
using outcome = term_election::outcome;

constexpr incarnation current{.counter = 1, .nonce = 11};
constexpr incarnation next_session{.counter = 2, .nonce = 22};

outcome grant(term_election& e, std::uint32_t server, const incarnation& inc = current) {
  return e.answered(server, inc, e.term(), errc::none, e.term(), false);
}

bool all_granted(const term_election& e, std::vector<std::uint32_t> servers) {
  return e.have_granted(servers);
}

} // namespace

TEST_CASE("election: a term is won once every server that must be there has granted it") {
  term_election e;
  CHECK(e.term() == term_no{1});
  e.server_joined(0, current);
  e.server_joined(2, current);
  CHECK_FALSE(all_granted(e, {0, 2}));
  CHECK(grant(e, 0) == outcome::granted);
  CHECK(e.has_granted(0));
  CHECK_FALSE(e.has_granted(2));
  CHECK_FALSE(all_granted(e, {0, 2}));
  CHECK(grant(e, 2) == outcome::granted);
  CHECK(all_granted(e, {0, 2}));
  CHECK_FALSE(all_granted(e, {0, 1, 2})); // one that is not there
  CHECK(all_granted(e, {}));
}

TEST_CASE("election: a refusal before anything is sent raises the term, for all servers") {
  term_election e;
  e.server_joined(0, current);
  e.server_joined(1, current);
  grant(e, 0);
  CHECK(e.answered(1, current, term_no{1}, errc::superseded, term_no{7}, false) == outcome::raised);
  CHECK(e.term() == term_no{8});
  CHECK_FALSE(e.has_granted(0)); // it granted another one
  CHECK(e.answered(0, current, term_no{1}, errc::none, term_no{1}, false) == outcome::late);
  CHECK(e.answered(0, current, term_no{1}, errc::superseded, term_no{90}, false) == outcome::late);
  CHECK_FALSE(e.has_granted(0));
  CHECK(e.term() == term_no{8});
  grant(e, 0);
  grant(e, 1);
  CHECK(all_granted(e, {0, 1}));
}

TEST_CASE("election: a refusal after work was sent is another coordinator's victory") {
  term_election e;
  e.server_joined(0, current);
  CHECK(e.answered(0, current, term_no{1}, errc::superseded, term_no{7}, true)
        == outcome::superseded);
  CHECK(e.term() == term_no{1});
}

TEST_CASE("election: a server that fails otherwise ends it, dispatched or not") {
  for (bool dispatched : {false, true}) {
    term_election e;
    e.server_joined(0, current);
    CHECK(e.answered(0, current, term_no{1}, errc::unavailable, term_no{}, dispatched)
          == outcome::superseded);
    CHECK_FALSE(e.has_granted(0));
  }
}

TEST_CASE("election: the answer of a session that has gone counts for nothing") {
  term_election e;
  CHECK(grant(e, 0) == outcome::stale); // never there
  e.server_joined(0, current);
  grant(e, 0);
  e.server_joined(0, next_session);
  CHECK_FALSE(e.has_granted(0)); // the new one has not been heard
  CHECK(grant(e, 0, current) == outcome::stale);
  CHECK(e.answered(0, current, term_no{1}, errc::superseded, term_no{5}, false) == outcome::stale);
  CHECK(e.term() == term_no{1});
  CHECK(grant(e, 0, next_session) == outcome::granted);
  e.server_lost(0);
  CHECK_FALSE(e.has_granted(0));
  CHECK(grant(e, 0, next_session) == outcome::stale);
}

TEST_CASE("election: a silent server is asked again while it is there, for the present term only") {
  term_election e;
  e.server_joined(0, current);
  e.server_joined(1, current);
  CHECK(e.is_open(0, current, term_no{1}));
  CHECK_FALSE(e.is_open(0, next_session, term_no{1}));
  CHECK_FALSE(e.is_open(2, current, term_no{1}));
  e.answered(1, current, term_no{1}, errc::superseded, term_no{1}, false);
  CHECK(e.term() == term_no{2});
  CHECK_FALSE(e.is_open(0, current, term_no{1})); // it has been asked for the new one
  CHECK(e.is_open(0, current, term_no{2}));
  e.server_lost(0);
  CHECK_FALSE(e.is_open(0, current, term_no{2}));
}

TEST_CASE("election: random orders of answers end with one term that all have granted") {
  for (unsigned seed = 0; seed < 500; ++seed) {
    CAPTURE(seed);
    std::mt19937 random{seed};
    term_election e;
    struct question {
      std::uint32_t server = 0;
      term_no asked{};
    };
    std::map<std::uint32_t, std::uint32_t> seen; // by server: the highest term
    std::vector<question> open;
    std::uint32_t highest = 1;
    for (std::uint32_t server = 0; server < 4; ++server) {
      seen[server] = random() % 9;
      highest = std::max(highest, seen[server] + 1);
      e.server_joined(server, current);
      open.push_back({server, e.term()});
    }
    auto before = e.term();
    while (!open.empty()) { // each server answers by what it has seen, in any order
      std::swap(open[random() % open.size()], open.back());
      const auto [server, asked] = open.back();
      open.pop_back();
      const bool refuses = seen[server] >= value_of(asked);
      if (!refuses)
        seen[server] = value_of(asked) - 1; // this coordinator may ask again
      const auto what = e.answered(server, current, asked, refuses ? errc::superseded : errc::none,
                                   term_no{seen[server]}, false);
      CHECK(e.term() >= before);
      CHECK((what == outcome::raised) == (e.term() > before));
      before = e.term();
      if (what == outcome::raised)
        for (std::uint32_t other = 0; other < 4; ++other)
          open.push_back({other, e.term()});
    }
    CHECK(all_granted(e, {0, 1, 2, 3}));
    CHECK(value_of(e.term()) >= highest);
  }
}
