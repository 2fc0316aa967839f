// Goal: a worker gets work once it is a member and its own link is up, whatever came first and
// whatever came and went in between. Method: each rule alone, then all short histories of two
// incarnations against a model.
#include <troupe/actors/coordinator/link_rendezvous.hpp>

#include <string>
#include <vector>

#include <doctest/doctest.h>

namespace {

using namespace troupe;

constexpr incarnation first{.counter = 1, .nonce = 11};
constexpr incarnation second{.counter = 2, .nonce = 22};

using rendezvous = link_rendezvous<std::string, std::string>;

} // namespace

TEST_CASE("rendezvous: a worker and its link meet in either order, once") {
  for (bool link_first : {false, true}) {
    rendezvous r;
    if (link_first)
      r.link_came(4, first, "link");
    else
      r.member_came(4, first, "member");
    CHECK_FALSE(r.meet(4).has_value());
    CHECK(r.waiting_members().contains(4) == !link_first);
    if (link_first)
      r.member_came(4, first, "member");
    else
      r.link_came(4, first, "link");
    const auto met = r.meet(4);
    REQUIRE(met.has_value());
    CHECK(met->member == "member");
    CHECK(met->link == "link");
    CHECK(r.waiting_members().empty());
    CHECK_FALSE(r.meet(4).has_value());
  }
}

TEST_CASE("rendezvous: the link of another worker, or of another session, is not its own") {
  rendezvous r;
  r.member_came(0, second, "member");
  r.link_came(1, second, "another worker's");
  REQUIRE_FALSE(r.meet(0).has_value());
  r.link_came(0, first, "another session's");
  REQUIRE_FALSE(r.meet(0).has_value());
  r.link_came(0, second, "its own");
  CHECK(r.meet(0)->link == "its own");
}

TEST_CASE("rendezvous: news of an earlier session does not send the later one away") {
  rendezvous r;
  r.member_came(0, second, "member");
  r.member_left(0, first);
  CHECK(r.waiting_members() == std::set<std::uint32_t>{0});
  r.link_came(0, second, "link");
  r.link_ended(0, first);
  CHECK(r.meet(0).has_value());
}

TEST_CASE("rendezvous: all histories of two incarnations follow the model") {
  // Moves: member came, left, link came, ended, each of the first or the second session. After each
  // move they are asked to meet.
  const incarnation incarnations[] = {first, second};
  for (unsigned code = 0; code < 8u * 8 * 8 * 8 * 8; ++code) {
    CAPTURE(code);
    rendezvous r;
    int member = 0, link = 0; // the session that waits; 0: none
    unsigned rest = code;
    for (int i = 0; i < 5; ++i, rest /= 8) {
      const int which = static_cast<int>(rest % 2) + 1;
      const auto& inc = incarnations[which - 1];
      switch (rest % 8 / 2) {
        case 0:
          r.member_came(0, inc, std::to_string(which));
          member = which;
          break;
        case 1:
          r.member_left(0, inc);
          member = member == which ? 0 : member;
          break;
        case 2:
          r.link_came(0, inc, std::to_string(which));
          link = which;
          break;
        default:
          r.link_ended(0, inc);
          link = link == which ? 0 : link;
          break;
      }
      const auto met = r.meet(0);
      REQUIRE(met.has_value() == (member != 0 && member == link));
      if (met) {
        CHECK(met->member == std::to_string(member));
        CHECK(met->link == met->member);
        member = link = 0;
      }
      CHECK(r.waiting_members().contains(0) == (member != 0));
    }
  }
}

TEST_CASE("awaited losses: a loss waits until it is taken, and its timer finds it until then") {
  awaited_losses<std::string> losses;
  const auto timer = losses.await(3, first, "gone");
  CHECK(losses.waits(3));
  CHECK_FALSE(losses.waits(4));
  CHECK(losses.timed_out(timer) == 3);
  CHECK_FALSE(losses.take(4).has_value());
  CHECK(losses.take(3) == "gone");
  CHECK_FALSE(losses.waits(3));
  CHECK_FALSE(losses.take(3).has_value());
  CHECK_FALSE(losses.timed_out(timer).has_value());
}

TEST_CASE(
  "awaited losses: the timer of an earlier session is nobody's, and so is another worker's") {
  awaited_losses<std::string> losses;
  const auto old = losses.await(3, first, "first");
  losses.take(3);
  const auto now = losses.await(3, second, "second");
  CHECK_FALSE(losses.timed_out(old).has_value());
  CHECK(losses.timed_out(now) == 3);
  awaited_losses<std::string> others;
  others.await(2, second, "another");
  CHECK_FALSE(others.timed_out(now).has_value());
}

TEST_CASE("awaited losses: workers and incarnations with large numbers are told apart") {
  awaited_losses<int> losses;
  const std::uint32_t last = 0xffff'ffff;
  const auto timer = losses.await(last, {.counter = last, .nonce = 1}, 1);
  const auto other = losses.await(0, {.counter = last, .nonce = 1}, 2);
  CHECK(timer != other);
  CHECK(losses.timed_out(timer) == last);
  CHECK(losses.timed_out(other) == 0);
}
