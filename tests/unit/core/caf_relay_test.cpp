// Relays, and actors that run on the thread that brings a message.
#include <troupe/core/caf_relay.hpp>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/exit_reason.hpp>
#include <caf/send.hpp>

#include <doctest/doctest.h>

#include <troupe/messages/registration.hpp>

using namespace troupe;

namespace {

struct seen {
  std::mutex mutex{};
  std::condition_variable changed{};
  std::vector<std::uint64_t> numbers{};
  std::vector<std::thread::id> on{};
  std::size_t errors = 0;
  bool wait(std::size_t n) {
    std::unique_lock lock{mutex};
    return changed.wait_for(lock, std::chrono::seconds{20}, [&] { return numbers.size() >= n; });
  }
  void add(std::uint64_t x) {
    std::lock_guard lock{mutex};
    numbers.push_back(x);
    on.push_back(std::this_thread::get_id());
    changed.notify_all();
  }
};

caf::behavior note(caf::event_based_actor*, seen* to) {
  return {[to](std::uint64_t x) { to->add(x); }};
}

struct ours {
  ours() {
    configure_system(config, init_messages);
    system.emplace(config);
  }
  caf::actor_system_config config{};
  std::optional<caf::actor_system> system{};
};

void bring(const caf::actor& to, std::uint64_t x) {
  deliver_here(caf::actor_cast<caf::strong_actor_ptr>(to), nullptr, 0, caf::make_message(x));
}

/// Remembers; takes nothing once it is shut.
class notebook final : public relay_way {
public:
  bool take(std::uint64_t number, caf::message& what) override {
    std::lock_guard lock{mutex};
    if (shut)
      return false;
    numbers.push_back(number);
    texts.push_back(caf::to_string(what));
    return true;
  }
  std::mutex mutex{};
  bool shut = false;
  std::vector<std::uint64_t> numbers{};
  std::vector<std::string> texts{};
};

} // namespace

TEST_CASE("relay: an idle actor handles a message on the thread that brings it") {
  ours o;
  seen s;
  auto to = o.system->spawn(note, &s);
  std::uint64_t brought = 0;
  auto brought_here = [&] {
    bring(to, brought++);
    REQUIRE(s.wait(brought));
    return s.on.back() == std::this_thread::get_id();
  };
  // The first ones may find it on its way to the scheduler, or its thread not yet gone from it.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{20};
  bool here = false;
  while (!here && std::chrono::steady_clock::now() < deadline)
    here = brought_here();
  REQUIRE(here);
  for (int i = 0; i < 50; ++i) // who brought the one before has let go of it
    CHECK(brought_here());
}

TEST_CASE("relay: a system that is not ours is left to its scheduler") {
  caf::actor_system_config config;
  caf::actor_system system{config};
  CHECK_FALSE(is_ours(system));
  seen s;
  auto to = system.spawn(note, &s);
  for (std::uint64_t i = 0; i < 20; ++i)
    bring(to, i);
  REQUIRE(s.wait(20));
  for (auto id : s.on)
    CHECK(id != std::this_thread::get_id());
}

TEST_CASE("relay: threads that bring messages at once lose none and keep each one's order") {
  ours o;
  CHECK(is_ours(*o.system));
  seen s;
  auto to = o.system->spawn(note, &s);
  constexpr std::uint64_t each = 5'000, threads = 4;
  std::vector<std::thread> all;
  for (std::uint64_t t = 0; t < threads; ++t)
    all.emplace_back([&, t] {
      for (std::uint64_t i = 0; i < each; ++i)
        if (t % 2 == 0)
          bring(to, t << 32 | i);
        else
          caf::anon_send(to, t << 32 | i);
    });
  for (auto& t : all)
    t.join();
  REQUIRE(s.wait(each * threads));
  std::vector<std::uint64_t> next(threads, 0);
  for (auto x : s.numbers)
    CHECK_MESSAGE((x & 0xffffffff) == next[x >> 32]++, "thread ", x >> 32);
}

TEST_CASE("relay: what is sent to it takes its way, in order, with the number of its request") {
  ours o;
  auto way = std::make_shared<notebook>();
  auto relay = caf::actor_cast<caf::actor>(make_relay(*o.system, way));
  CHECK(relay->node() != o.system->node());
  for (int i = 0; i < 3; ++i)
    caf::anon_send(relay, std::uint64_t(i));
  CHECK(way->texts == std::vector<std::string>{"(0)", "(1)", "(2)"});
  CHECK(way->numbers == std::vector<std::uint64_t>{0, 0, 0});
  CHECK_FALSE(is_request_number(0));
  CHECK_FALSE(is_answer_number(0));
  CHECK_FALSE(is_request_number(0x2000000000000001)); // a stream's
}

TEST_CASE("relay: an answer finds the request, and a request that can't go fails at once") {
  ours o;
  auto way = std::make_shared<notebook>();
  auto relay = make_relay(*o.system, way);
  seen s;
  auto behaviour = [&](caf::event_based_actor* self, seen* to) -> caf::behavior {
    return {[&relay, to, self](std::int32_t) {
      self->request(caf::actor_cast<caf::actor>(relay), std::chrono::seconds{20}, std::uint64_t{1})
        .then([to](std::uint64_t x) { to->add(x); }, [to](caf::error&) { to->add(404); });
    }};
  };
  // CAF 0.17 binds a null reference when a function has no argument but the actor itself.
  auto asker = o.system->spawn(behaviour, &s);
  auto ask = [&] { caf::anon_send(asker, std::int32_t{1}); };
  ask();
  std::uint64_t number = 0;
  while (number == 0) {
    std::lock_guard lock{way->mutex};
    if (!way->numbers.empty())
      number = way->numbers.front();
  }
  CHECK(is_request_number(number));
  auto answer = caf::make_message_id(number).response_id().integer_value();
  CHECK(is_answer_number(answer));
  CHECK_FALSE(is_request_number(answer));
  deliver_here(caf::actor_cast<caf::strong_actor_ptr>(asker), relay, answer,
               caf::make_message(std::uint64_t{17}));
  REQUIRE(s.wait(1));
  CHECK(s.numbers[0] == 17);
  {
    std::lock_guard lock{way->mutex};
    way->shut = true;
  }
  ask();
  REQUIRE(s.wait(2));
  CHECK(s.numbers[1] == 404);
  caf::anon_send_exit(asker, caf::exit_reason::user_shutdown); // its time-outs would keep it
}
