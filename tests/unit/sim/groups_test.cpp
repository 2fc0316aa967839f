// Goal: collective groups on simulated channels, where their waits must let time pass.

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include <troupe/sim/world.hpp>
#include <troupe/transport/collective_group.hpp>

using namespace troupe;
using namespace troupe::sim;
using namespace std::chrono_literals;

namespace {

std::vector<collective_member> three() {
  return {{.id = 0, .address = "worker0:20000"},
          {.id = 1, .address = "worker1:20000"},
          {.id = 2, .address = "worker2:20000"}};
}

struct member {
  explicit member(process& p) : env{p.env()} {
    auto made = collective_group::make(
      env, p.name().task.index,
      {.name = "three", .listen = to_string(p.name()) + ":20000", .network_is_private = true});
    REQUIRE(made);
    group = std::move(*made);
  }
  environment env;
  std::unique_ptr<collective_group> group{};
};

} // namespace

TEST_CASE("groups: forming does not spin on a member that was there and is lost") {
  result<void> formed;
  std::vector<std::uint64_t> missing;
  duration ended{};
  world_options options;
  options.steps_max = 20'000; // it took all that there are, and no time passed
  world w{std::move(options)};
  for (std::uint32_t i = 0; i < 3; i += 2) // member 1 never comes
    w.node(worker{i}, [&, i](process& p) {
      member me{p};
      auto done = me.group->form(group_epoch{1}, three(), 3s);
      if (i == 0)
        return;
      formed = std::move(done);
      missing = me.group->missing();
      ended = w.now();
    });
  w.at(1s).crash(worker{0});
  CHECK(w.run().ok());
  REQUIRE_FALSE(formed);
  CHECK(formed.error().code == errc::deadline);
  CHECK(ended >= 3s);
  CHECK(ended < 3100ms);
  CHECK(missing == std::vector<std::uint64_t>{1});
}

TEST_CASE("groups: the deadline is that of all buckets together") {
  std::vector<duration> took;
  world_options options;
  options.channel_bytes = 256;
  world w{std::move(options)};
  for (std::uint32_t i = 0; i < 3; ++i)
    w.node(worker{i}, [&](process& p) {
      member me{p};
      REQUIRE(me.group->form(group_epoch{1}, three(), 3s));
      std::vector<tensor> xs;
      for (int bucket = 0; bucket < 6; ++bucket)
        xs.push_back(tensor::zeros(dtype::f32, {400}));
      auto begin = w.now();
      // each bucket alone is done in time
      auto done = me.group->all_reduce(xs, reduce_op::sum, {.deadline = 2s, .bucket_bytes = 1});
      CHECK_FALSE(done);
      took.push_back(w.now() - begin);
    });
  for (std::uint32_t i = 0; i < 3; ++i)
    for (std::uint32_t j = 0; j < 3; ++j)
      if (i != j)
        w.at(0s).delay(worker{i}, worker{j}, 60ms);
  CHECK(w.run().ok());
  REQUIRE(took.size() == 3);
  for (duration t : took)
    CHECK(t < 2500ms);
}

TEST_CASE("groups: without a deadline an operation goes on for as long as something moves") {
  for (const bool stops : {false, true}) {
    CAPTURE(stops);
    std::vector<duration> took;
    std::vector<result<void>> how;
    world_options options;
    options.channel_bytes = 256;
    world w{std::move(options)};
    for (std::uint32_t i = 0; i < 3; ++i)
      w.node(worker{i}, [&](process& p) {
        member me{p};
        REQUIRE(me.group->form(group_epoch{1}, three(), 3s));
        auto x = tensor::zeros(dtype::f32, {80'000});
        auto begin = w.now();
        how.push_back(me.group->all_reduce(x, reduce_op::sum));
        took.push_back(w.now() - begin);
      });
    for (std::uint32_t i = 0; i < 3; ++i)
      for (std::uint32_t j = 0; j < 3; ++j)
        if (i != j)
          w.at(0s).delay(worker{i}, worker{j}, 60ms);
    if (stops)
      w.at(5s).pause(worker{1}, 2min);
    CHECK(w.run().ok());
    REQUIRE(took.size() == 3);
    for (std::size_t i = 0; i < 3; ++i) {
      CHECK(bool{how[i]} == !stops);
      if (stops)
        CHECK((how[i].error().code == errc::deadline
               // whoever was stopped comes back to peers that have left
               || (i == 2 && how[i].error().code == errc::peer_lost)));
      CHECK(took[i] > 30s); // what a bare group has without progress
    }
  }
}
