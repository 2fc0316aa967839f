// Steps that a thread makes ahead of the program. Goal: rows SYNC-INP-8 and OPT-I: as many steps as
// asked for, and nothing else shows of it: order, errors, ends and positions are those of a program
// that makes each step itself. Method: datasets whose function counts its calls, waits or throws.
// In the simulator: tests/sim/input_sim.cpp.

#include "../replicas/workers_support.hpp"

namespace {

using namespace replicas_test;

distribute_options ahead(std::uint32_t steps) {
  distribute_options out;
  out.input.prefetch_to_device = true; // CPUs fetch nothing by themselves
  out.input.per_replica_buffer_size = steps;
  return out;
}

/// Batches of one row for each of two replicas, whose making is counted.
struct counted {
  std::shared_ptr<std::atomic<int>> made = std::make_shared<std::atomic<int>>(0);
  dataset rows(std::int64_t n) const {
    return dataset::range(n)
      .map([made = made](const element& x) {
        ++*made;
        return x;
      })
      .batch(2);
  }
  int steps() const { return made->load() / 2; }
};

std::int64_t first_of(const distributed_batch& batch) {
  return batch.piece(0).only().as<std::int64_t>()[0];
}

TEST_CASE("SYNC-INP-8 SYNC-OPT-I as many steps are made ahead as a replica's buffer has") {
  auto s = mirrored_over(2);
  for (const auto& [options, buffer] :
       {std::pair{distribute_options{}, 0}, std::pair{ahead(3), 3}, std::pair{ahead(1), 1}}) {
    const int steps = buffer;
    counted count;
    auto input = distribute_dataset(s, count.rows(40), options).iterate();
    CHECK(count.steps() == 0);
    for (int given = 1; given <= 4; ++given) {
      CHECK(first_of(input.next()) == 2 * (given - 1));
      CHECK(comes_true([&] { return count.steps() == given + steps; }));
      spin_for(2ms); // no more than that
      CHECK(count.steps() == given + steps);
    }
  }
}

TEST_CASE("SYNC-INP-8 without a buffer, and on the device itself, nothing is made ahead") {
  auto s = mirrored_over(2);
  counted count;
  auto input = distribute_dataset(s, count.rows(40), ahead(0)).iterate();
  for (int given = 1; given <= 3; ++given) {
    (void)input.next();
    spin_for(1ms);
    CHECK(count.steps() == given);
  }
  counted placed;
  distribute_options on_device;
  on_device.input.replication = input_replication::per_replica;
  on_device.input.place_dataset_on_device = true;
  auto each = distribute_datasets_from_function(
                s, [&](const input_context&) { return placed.rows(40); }, on_device)
                .iterate();
  (void)each.next();
  spin_for(1ms);
  CHECK(placed.steps() == 2); // one a replica
}

TEST_CASE("input: positions are behind what was given, not behind what is ready") {
  auto s = mirrored_over(2);
  const auto shuffled = dataset::range(40).shuffle(40, 5).batch(4);
  std::vector<std::int64_t> order;
  for (auto& batch : distribute_dataset(s, shuffled, ahead(0)))
    order.push_back(first_of(batch));
  counted count;
  auto same = shuffled.map([made = count.made](const element& x) {
    *made += 2;
    return x;
  });
  auto input = distribute_dataset(s, same, ahead(4)).iterate();
  auto other = distribute_dataset(s, same, ahead(2)).iterate();
  for (std::size_t given = 0; given < order.size(); ++given) {
    other.restore_position(input.save_position());
    CHECK(first_of(other.next()) == order[given]);
    CHECK(first_of(input.next()) == order[given]);
    if (given == 2)
      CHECK(comes_true([&] { return count.steps() >= 7; }));
  }
  const auto saved = input.save_position(); // all was given, the end was not
  CHECK(!input.try_next());
  CHECK(!input.try_next());
  other.restore_position(saved);
  CHECK(!other.try_next());
  other.restore_position(input.save_position());
  CHECK(!other.try_next());
}

TEST_CASE("input: another pass and another position drop what was made ahead") {
  auto s = mirrored_over(2);
  counted count;
  auto input = distribute_dataset(s, count.rows(40), ahead(3)).iterate();
  (void)input.next();
  const auto saved = input.save_position();
  CHECK(comes_true([&] { return count.steps() == 4; }));
  input.start_pass(1);
  CHECK(input.pass() == 1);
  CHECK(first_of(input.next()) == 0);
  CHECK(first_of(input.next()) == 2);
  input.restore_position(saved);
  CHECK(input.pass() == 0);
  CHECK(first_of(input.next()) == 2);
  names(failure_of([&] { input.restore_position("00000001x"); }), errc::corrupt, {});
  CHECK(first_of(input.next()) == 4); // as it was
  CHECK(input.element_spec().size() == 1);
}

TEST_CASE("input: an error is thrown by the next that it belongs to, and a position mends it") {
  auto s = mirrored_over(2);
  for (const std::uint32_t steps : {0u, 1u, 3u}) {
    CAPTURE(steps);
    auto bad = std::make_shared<std::atomic<bool>>(true);
    auto rows = dataset::range(20)
                  .map([bad](const element& x) {
                    if (*bad && x.item<std::int64_t>() == 4)
                      throw std::runtime_error{"row 4"};
                    return x;
                  })
                  .batch(2);
    auto input = distribute_dataset(s, rows, ahead(steps)).iterate();
    CHECK(first_of(input.next()) == 0);
    CHECK(first_of(input.next()) == 2);
    const auto saved = input.save_position();
    for (int i = 0; i < 2; ++i)
      CHECK_THROWS_WITH((void)input.next(), "row 4");
    names(failure_of([&] { (void)input.save_position(); }), errc::wrong_state, {"after an error"});
    *bad = false;
    input.restore_position(saved);
    CHECK(first_of(input.next()) == 4);
    CHECK(first_of(input.next()) == 6);
  }
}

TEST_CASE("input: its thread ends with the iterator, though it is in the middle of a step") {
  auto s = mirrored_over(2);
  auto held = std::make_shared<std::atomic<int>>(0);
  auto alive = std::make_shared<int>(0);
  auto slow = dataset::range(20)
                .map([held, alive](const element& x) {
                  if (x.item<std::int64_t>() == 4) {
                    *held = 1;
                    (void)comes_true([&] { return *held == 2; });
                  }
                  return x;
                })
                .batch(2);
  std::thread later;
  try {
    auto input = distribute_dataset(s, slow, ahead(1)).iterate();
    (void)input.next();
    (void)input.next();
    CHECK(comes_true([&] { return *held == 1; }));
    later = std::thread{[held] {
      spin_for(2ms);
      *held = 2;
    }};
    throw std::runtime_error{"the program's own"};
  } catch (const std::runtime_error&) {
    CHECK(*held == 2); // it was waited for
  }
  later.join();
  slow = dataset{};
  CHECK(alive.use_count() == 1);
}

TEST_CASE("input: its thread ends with the runtime, and the iterator says so") {
  counted count;
  std::optional<distributed_iterator> input;
  {
    runtime rt{four_cpus()};
    mirrored_strategy s{rt, cpus(2)};
    input = distribute_dataset(s, count.rows(40), ahead(3)).iterate();
    (void)input->next();
  }
  names(failure_of([&] { (void)input->next(); }), errc::wrong_state, {"runtime has ended"});
  const auto made = count.steps();
  spin_for(1ms);
  CHECK(count.steps() == made);
}

} // namespace
