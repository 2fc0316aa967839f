// Goal: admission, contest, loss and views, case by case. Method: inputs with times of the test's
// own.
#include <doctest/doctest.h>

#include "membership_support.hpp"

using namespace troupe;
using namespace troupe::test;
namespace act = troupe::membership_action;

namespace {

/// The failure of the only refusal among the actions.
failure refusal(const membership_actions& to) {
  REQUIRE(count_of<act::refuse>(to) == 1);
  return first_of<act::refuse>(to)->why;
}

} // namespace

TEST_CASE("membership: a hello is welcomed as incarnation 1 and makes a view") {
  judge j;
  auto to = j.say_hello(worker(1), 77);
  REQUIRE(to.size() == 3);
  auto answer = std::get<act::welcome>(to[0]);
  CHECK(answer.to == j.last_request());
  CHECK(answer.inc == incarnation{1, 77});
  CHECK(std::get<act::joined>(to[1]).who.task == worker(1));
  CHECK(std::holds_alternative<act::new_view>(to[2]));
  const view& v = j.core.current();
  CHECK(v.term == term_no{4});
  CHECK(v.epoch == epoch_no{1});
  REQUIRE(v.members.size() == 1);
  CHECK(v.members[0].data_address == "data-77");
  CHECK(j.core.control_address(worker(1)) == "control-77");
  CHECK(j.core.is_live(worker(1), {1, 77}));
}

TEST_CASE(
  "membership: the same hello again, after a lost answer, gives the same incarnation and no new "
  "view") {
  judge j;
  j.say_hello(worker(0), 5);
  auto to = j.say_hello(worker(0), 5);
  REQUIRE(to.size() == 1);
  CHECK(std::get<act::welcome>(to[0]).inc == incarnation{1, 5});
  CHECK(j.core.current().epoch == epoch_no{1});
}

TEST_CASE(
  "membership: another version, cluster, token or nonce 0 is a wrong peer, and the text tells "
  "which") {
  membership_options o = judge::options();
  o.token_holds = [](const hello& x) { return x.token_mac == "right"; };
  judge j{o};
  auto say = [&](auto change) {
    hello x = judge::hello_of(worker(0), 9);
    x.token_mac = "right";
    change(x);
    return refusal(j.core.on_hello(x, hello_no{1}, j.now));
  };
  for (auto [why, part] :
       {std::pair{say([](hello& x) { x.version = 9; }), "version 9, expected 3"},
        {say([](hello& x) { x.cluster = "other"; }), "cluster \"other\", expected \"c\""},
        {say([](hello& x) { x.token_mac = "wrong"; }), "token"},
        {say([](hello& x) { x.nonce = 0; }), "nonce 0"}}) {
    CHECK(why.code == errc::wrong_peer);
    CHECK(why.text.find(part) != std::string::npos);
    CHECK(why.text.find("worker:0") != std::string::npos);
    CHECK(why.text.find("right") == std::string::npos); // nothing of the secret
  }
  CHECK(j.core.current().members.empty());
}

TEST_CASE(
  "membership: another function table is a wrong peer, naming the first function that differs") {
  judge j;
  hello x = judge::hello_of(worker(0), 9);
  x.functions_hash = 1;
  x.functions = {{"alpha", "f(int)"}, {"beta", "g(double)"}};
  auto why = refusal(j.core.on_hello(x, hello_no{1}, j.now));
  CHECK(why.code == errc::wrong_peer);
  CHECK(why.text.find("beta") != std::string::npos);
  CHECK(why.text.find("alpha") == std::string::npos);
  CHECK(why.text.find("the builds differ") != std::string::npos);
  CHECK(why.text.find("worker:0's") != std::string::npos); // whose, and not "there"
  x.functions.clear(); // too long for a message: the numbers at least
  why = refusal(j.core.on_hello(x, hello_no{1}, j.now));
  CHECK(why.text.find("function table 1, the coordinator's 42") != std::string::npos);
  CHECK(why.text.find("the builds differ") != std::string::npos);
}

TEST_CASE(
  "membership: tasks without a place are refused: index, second chief, evaluator, unknown job") {
  judge j;
  auto say = [&](task_id task) { return refusal(j.say_hello(task, 9)); };
  CHECK(say(worker(3)).code == errc::bad_config);
  CHECK(say(worker(3)).text == "hello of worker:3: the cluster has 3 workers");
  CHECK(say(worker(0xffffffff)).code == errc::bad_config);
  CHECK(say({job_kind::ps, 2}).text == "hello of ps:2: the cluster has 2 servers");
  CHECK(say({job_kind::chief, 0}).code == errc::task_taken);
  CHECK(say({job_kind::chief, 1}).code == errc::task_taken);
  CHECK(say({job_kind::evaluator, 0}).code == errc::bad_config);
  CHECK(say({static_cast<job_kind>(9), 0}).text.find("unknown job") != std::string::npos);
  CHECK(j.core.current().epoch == epoch_no{});
}

TEST_CASE("membership: an open cluster takes more workers, up to its highest index") {
  membership_options o = judge::options();
  o.worker_index_max = 5;
  judge j{o};
  CHECK(count_of<act::welcome>(j.say_hello(worker(5), 1)) == 1);
  CHECK(count_of<act::refuse>(j.say_hello(worker(6), 1)) == 1);
  CHECK(j.core.live_count(job_kind::worker) == 1);
  CHECK(j.core.statuses(j.now).size() == 6); // 3 workers, 2 servers, the one more
}

TEST_CASE(
  "membership: a lost socket acts at once: fenced, out of the view, and its next session is one "
  "higher") {
  judge j;
  j.say_hello(worker(0), 5);
  auto to = j.core.on_lost_socket(worker(0), {1, 5}, j.now);
  REQUIRE(count_of<act::lost>(to) == 1);
  CHECK(!first_of<act::lost>(to)->clean);
  CHECK(count_of<act::new_view>(to) == 1);
  CHECK(j.core.current().members.empty());
  REQUIRE(j.core.current().fences.size() == 1);
  CHECK(j.core.current().fences[0].counter == 1);
  CHECK(first_of<act::welcome>(j.say_hello(worker(0), 6))->inc == incarnation{2, 6});
  CHECK(j.core.current().epoch == epoch_no{3});
  CHECK(j.core.on_lost_socket(worker(0), {1, 5}, j.now).empty()); // of the session before
  CHECK(j.core.is_live(worker(0), {2, 6}));
}

TEST_CASE("membership: leaving is clean, and a launcher's word or the coordinator's fence is not") {
  judge j;
  j.say_hello(worker(0), 5);
  auto left = j.core.on_left(worker(0), {1, 5}, j.now);
  CHECK(first_of<act::lost>(left)->clean);
  j.say_hello(worker(0), 6);
  auto dead = j.core.on_launcher_says_dead(worker(0), j.now);
  CHECK(!first_of<act::lost>(dead)->clean);
  j.say_hello(worker(0), 7);
  auto fenced = j.core.on_fence(worker(0), {3, 7}, "its step hangs", j.now);
  CHECK(first_of<act::fence>(fenced)->inc == incarnation{3, 7});
  CHECK(first_of<act::lost>(fenced)->reason == "its step hangs");
  CHECK(j.core.on_fence(worker(0), {3, 7}, "", j.now).empty());
  CHECK(j.core.on_left(worker(9), {1, 1}, j.now).empty());
  CHECK(j.core.on_launcher_says_dead(worker(2), j.now).empty());
}

TEST_CASE(
  "membership: a heartbeat from a fenced or unknown incarnation is answered by a fence, a "
  "stranger's not") {
  judge j;
  j.say_hello(worker(0), 5);
  CHECK(j.core.on_heartbeat(worker(0), {1, 5}, j.now).empty());
  j.core.on_lost_socket(worker(0), {1, 5}, j.now);
  for (incarnation from : {incarnation{1, 5}, {7, 5}, {1, 6}}) {
    auto to = j.core.on_heartbeat(worker(0), from, j.now);
    REQUIRE(to.size() == 1);
    CHECK(std::get<act::fence>(to[0]).inc == from);
  }
  CHECK(j.core.on_heartbeat({job_kind::evaluator, 0}, {1, 5}, j.now).empty());
  CHECK(j.core.on_heartbeat(worker(50), {1, 5}, j.now).empty());
}

TEST_CASE(
  "membership: a fenced process that says hello with its old nonce is told to draw another") {
  judge j;
  j.say_hello(worker(0), 5);
  j.core.on_lost_socket(worker(0), {1, 5}, j.now);
  CHECK(refusal(j.say_hello(worker(0), 5)).code == errc::fenced);
  CHECK(j.core.current().members.empty());
  j.say_hello(worker(0), 6);
  CHECK(refusal(j.say_hello(worker(0), 5)).code == errc::fenced); // and no contest
}

// -- two processes, one task ---------------------------------------------------------------------

TEST_CASE(
  "membership: a second process for a live task: the first is probed, alive, the newcomer gets "
  "task_taken") {
  judge j;
  j.say_hello(worker(0), 5);
  j.beat(worker(0), {1, 5});
  auto to = j.say_hello(worker(0), 6);
  REQUIRE(to.size() == 1);
  CHECK(std::get<act::probe>(to[0]).inc == incarnation{1, 5});
  CHECK(j.beat(worker(0), {1, 5}).empty()); // may have been on its way before
  CHECK(count_of<act::probe>(j.run(ms(600))) == 1);
  to = j.beat(worker(0), {1, 5});
  CHECK(refusal(to).code == errc::task_taken);
  CHECK(j.core.is_live(worker(0), {1, 5}));
  j.run(ms(900));
  CHECK(j.core.is_live(worker(0), {1, 5}));
}

TEST_CASE("membership: a silent holder is fenced after the probe and the newcomer gets its task") {
  judge j;
  j.say_hello(worker(0), 5);
  j.beat(worker(0), {1, 5});
  j.say_hello(worker(0), 6);
  j.beat(worker(0), {1, 5}); // its last one, still on the way when it died
  CHECK(count_of<act::lost>(j.run(ms(900))) == 0);
  auto to = j.run(ms(300));
  CHECK(first_of<act::fence>(to)->inc == incarnation{1, 5});
  CHECK(first_of<act::lost>(to)->who.inc == incarnation{1, 5});
  CHECK(first_of<act::welcome>(to)->inc == incarnation{2, 6});
  CHECK(first_of<act::welcome>(to)->to == j.last_request());
  CHECK(count_of<act::new_view>(to) == 1); // one for both
}

TEST_CASE(
  "membership: when the holder's socket is lost during the probe the newcomer gets in at once") {
  judge j;
  j.say_hello(worker(0), 5);
  j.say_hello(worker(0), 6);
  auto to = j.core.on_lost_socket(worker(0), {1, 5}, j.now);
  CHECK(first_of<act::welcome>(to)->inc == incarnation{2, 6});
}

TEST_CASE(
  "membership: a third process waits for the decision; an asker's repetition takes its place "
  "over") {
  judge j;
  j.say_hello(worker(0), 5);
  j.say_hello(worker(0), 6);
  const hello_no first = j.last_request();
  CHECK(refusal(j.say_hello(worker(0), 7)).code == errc::try_again);
  auto again = j.say_hello(worker(0), 6);
  CHECK(refusal(again).code == errc::try_again);
  CHECK(first_of<act::refuse>(again)->to == first);
  auto to = j.core.on_lost_socket(worker(0), {1, 5}, j.now);
  CHECK(first_of<act::welcome>(to)->to == j.last_request());
}

TEST_CASE("membership: a newcomer that went away is not admitted, and the holder stays") {
  judge j;
  j.say_hello(worker(0), 5);
  j.beat(worker(0), {1, 5});
  j.say_hello(worker(0), 6);
  j.core.on_hello_gone(j.last_request(), j.now);
  j.run(ms(500));
  j.beat(worker(0), {1, 5});
  CHECK(count_of<act::lost>(j.run(ms(900))) == 0);
}

// -- silence -------------------------------------------------------------------------------------

TEST_CASE("membership: silence past the detector's patience fences, and not before 1 s") {
  judge j;
  j.say_hello(worker(0), 5);
  for (int i = 0; i < 50; ++i) {
    j.beat(worker(0), {1, 5});
    CHECK(j.run(ms(100)).empty());
  }
  CHECK(j.run(ms(800)).empty());
  auto to = j.run(ms(200));
  CHECK(first_of<act::fence>(to)->inc == incarnation{1, 5});
  CHECK(first_of<act::lost>(to)->reason.find("silent for 1") != std::string::npos);
}

TEST_CASE("membership: a judge that slept condemns nobody, whether heartbeat or tick comes first") {
  for (bool tick_first : {false, true}) {
    judge j;
    j.say_hello(worker(0), 5);
    j.say_hello(worker(1), 6);
    for (int i = 0; i < 20; ++i) {
      j.beat(worker(0), {1, 5});
      j.beat(worker(1), {1, 6});
      j.run(ms(100));
    }
    j.now += std::chrono::seconds{60};
    if (tick_first)
      CHECK(j.core.on_tick(j.now).empty());
    j.beat(worker(0), {1, 5});
    CHECK(j.run(ms(700)).empty());
    // worker:1 died meanwhile: it is found out as late as if the judge had woken up with it.
    j.beat(worker(0), {1, 5});
    auto to = j.run(ms(500));
    REQUIRE(count_of<act::lost>(to) == 1);
    CHECK(first_of<act::lost>(to)->who.task == worker(1));
  }
}

TEST_CASE("membership: a late judge gives the probed holder its second too") {
  judge j;
  j.say_hello(worker(0), 5);
  j.beat(worker(0), {1, 5});
  j.say_hello(worker(0), 6);
  j.now += std::chrono::seconds{5};
  CHECK(count_of<act::lost>(j.core.on_tick(j.now)) == 0);
  j.beat(worker(0), {1, 5});
  CHECK(count_of<act::probe>(j.run(ms(500))) == 1);
  CHECK(refusal(j.beat(worker(0), {1, 5})).code == errc::task_taken);
}

TEST_CASE("membership: statuses name every expected task") {
  judge j;
  j.say_hello(worker(1), 5);
  j.now += ms(50);
  auto all = j.core.statuses(j.now);
  REQUIRE(all.size() == 5);
  CHECK(to_string(all[0].task) == "worker:0");
  CHECK(!all[0].live);
  CHECK(all[0].inc.counter == 0);
  CHECK(all[1].live);
  CHECK(all[1].silent_ms == 50);
  CHECK(to_string(all[4].task) == "ps:1");
}

TEST_CASE(
  "membership: a token that one side lacks, or another one, was told alike: each names "
  "TROUPE_TOKEN") {
  membership_options closed = judge::options();
  closed.token_holds = [](const hello& x) { return x.token_mac == "right"; };
  judge with{closed};
  auto hello_with = [](std::string mac) {
    hello x = judge::hello_of(worker(0), 9);
    x.token_mac = std::move(mac);
    return x;
  };
  const auto none = refusal(with.core.on_hello(hello_with(""), hello_no{1}, with.now));
  CHECK(none.text.find("it has no token, but the coordinator requires one") != std::string::npos);
  const auto other = refusal(with.core.on_hello(hello_with("wrong"), hello_no{1}, with.now));
  CHECK(other.text.find("its token is not the coordinator's") != std::string::npos);
  judge without;
  const auto only_it =
    refusal(without.core.on_hello(hello_with("right"), hello_no{1}, without.now));
  CHECK(only_it.text.find("it has a token, but the coordinator has none") != std::string::npos);
  for (const auto& why : {none, other, only_it}) {
    CHECK(why.code == errc::wrong_peer);
    CHECK(why.text.find("TROUPE_TOKEN") != std::string::npos);
    CHECK(why.text.find("worker:0") != std::string::npos);
  }
  CHECK(count_of<act::welcome>(without.core.on_hello(hello_with(""), hello_no{2}, without.now))
        == 1);
}
