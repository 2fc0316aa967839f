// Goal: creation is idempotent, terms and fences hold, snapshots stay what they were.
#include <doctest/doctest.h>

#include <atomic>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <troupe/actors/shards/shard_store.hpp>

#include "../../../support/sanitized.hpp"

using namespace troupe;

namespace {

class counting_tracer final : public tracer {
public:
  void event(std::string_view, std::span<const trace_field>) override {}
  void mark(std::string_view id) override { ++marks[std::string{id}]; }
  std::map<std::string, int> marks{};
};

variable_spec make_spec(std::uint32_t id = 1) {
  variable_spec out;
  out.id = static_cast<variable_id>(id);
  out.name = "v" + std::to_string(id);
  out.shape = {4, 2};
  out.shards = {{0, 2, 0}, {2, 4, 0}};
  out.optimizer.kind = optimizer_kind::adam;
  return out;
}

constexpr auto shard_0 = static_cast<shard_index>(0);
constexpr auto shard_1 = static_cast<shard_index>(1);
constexpr auto variable_1 = static_cast<variable_id>(1);

origin sender(std::uint32_t index, std::uint32_t counter) {
  return {{job_kind::worker, index}, {counter, 99}, {}};
}

mutation_piece push(std::uint32_t term, std::uint64_t seq) {
  mutation_piece out;
  out.variable = variable_1;
  out.key = {{static_cast<term_no>(term), seq}, {}};
  out.kind = mutation_kind::apply;
  out.values = tensor::of<float>({2, 2}, {1, 1, 1, 1});
  return out;
}

void create_all(shard_store& store, const variable_spec& spec = make_spec()) {
  for (std::uint32_t i = 0; i < spec.shards.size(); ++i)
    store.create(spec, static_cast<shard_index>(i)).value_or_throw();
}

term_no term(std::uint32_t n) { return static_cast<term_no>(n); }

} // namespace

TEST_CASE(
  "shard_store: creation is idempotent and keeps what is there; another specification is named "
  "with the first") {
  shard_store store;
  create_all(store);
  store.mutate(push(1, 1), sender(0, 1)).value_or_throw();
  create_all(store);
  CHECK(store.read(variable_1, shard_0).value_or_throw().version == 1);
  auto other = make_spec();
  other.shape = {4, 3};
  auto made = store.create(other, shard_0);
  REQUIRE(!made);
  CHECK(made.error().code == errc::mismatch);
  CHECK(made.error().text.find("[4, 2]") != std::string::npos);
  CHECK(made.error().text.find("[4, 3]") != std::string::npos);
  other = make_spec();
  other.optimizer.beta_1 = 0.5f;
  CHECK(store.create(other, shard_0).error().code == errc::mismatch);
}

TEST_CASE("shard_store: what is not there is unknown_variable, with both numbers") {
  shard_store store;
  create_all(store);
  auto p = push(1, 1);
  p.shard = static_cast<shard_index>(5);
  auto answer = store.mutate(p, sender(0, 1));
  REQUIRE(!answer);
  CHECK(answer.error().code == errc::unknown_variable);
  CHECK(answer.error().text.find("variable 1 shard 5") != std::string::npos);
  CHECK(store.read(static_cast<variable_id>(2), shard_0).error().code == errc::unknown_variable);
  store.drop(variable_1);
  CHECK(store.read(variable_1, shard_0).error().code == errc::unknown_variable);
  CHECK(store.stats().shards == 0);
}

TEST_CASE(
  "shard_store: counts operations on each shard, duplicates and settled ones apart, and marks "
  "them") {
  counting_tracer tracer;
  shard_store store{&tracer};
  create_all(store);
  auto p = push(1, 1);
  for (int i = 0; i < 3; ++i)
    store.mutate(p, sender(0, 1)).value_or_throw();
  p.shard = shard_1;
  store.mutate(p, sender(0, 1)).value_or_throw();
  store.settle(term(1), 1, {}).value_or_throw();
  CHECK(store.mutate(p, sender(0, 1)).value_or_throw().duplicate);
  auto stats = store.stats();
  CHECK(stats.pushes_applied == 2);
  CHECK(stats.duplicates_dropped == 2);
  CHECK(stats.settled_dropped == 1);
  CHECK(stats.shards == 2);
  CHECK(stats.bytes == 2 * 3 * 16);
  CHECK(tracer.marks["server.duplicate_dropped"] == 2);
  CHECK(tracer.marks["server.settled_dropped"] == 1);
}

TEST_CASE("shard_store: a term is granted once and only the highest is obeyed") {
  shard_store store;
  create_all(store);
  CHECK(store.grant_term(term(3), 77));
  CHECK(store.grant_term(term(3), 77));
  CHECK(store.grant_term(term(3), 78).error().code == errc::superseded);
  auto low = store.grant_term(term(2), 78);
  REQUIRE(!low);
  CHECK(low.error().code == errc::superseded);
  CHECK(low.error().text.find("term 3") != std::string::npos);
  CHECK(store.mutate(push(2, 1), sender(0, 1)).error().code == errc::superseded);
  CHECK(store.settle(term(2), 9, {}).error().code == errc::superseded);
  CHECK(store.mutate(push(3, 1), sender(0, 1)));
  CHECK(store.grant_term(term(5), 78));
  CHECK(store.mutate(push(3, 2), sender(0, 1)).error().code == errc::superseded);
  CHECK(store.read(variable_1, shard_0).value_or_throw().version == 1);
  CHECK(store.stats().refused == 2);
}

TEST_CASE("shard_store: a new term that counts from 0 again is not taken for a duplicate") {
  shard_store store;
  create_all(store);
  CHECK(store.grant_term(term(1), 1));
  CHECK(!store.mutate(push(1, 0), sender(0, 1)).value_or_throw().duplicate);
  CHECK(store.grant_term(term(2), 2));
  CHECK(!store.mutate(push(2, 0), sender(0, 1)).value_or_throw().duplicate);
}

TEST_CASE("shard_store: fenced incarnations are refused, later ones and other tasks are not") {
  counting_tracer tracer;
  shard_store store{&tracer};
  create_all(store);
  store.fence({job_kind::worker, 1}, 4);
  store.fence({job_kind::worker, 1}, 2); // an older fence opens nothing
  auto refused = store.mutate(push(1, 1), sender(1, 4));
  REQUIRE(!refused);
  CHECK(refused.error().code == errc::fenced);
  CHECK(refused.error().text.find("worker:1 incarnation 4") != std::string::npos);
  CHECK(store.mutate(push(1, 1), sender(1, 5)));
  CHECK(store.mutate(push(1, 2), sender(0, 1)));
  CHECK(store.admit({job_kind::worker, 1}, {3, 0}).error().code == errc::fenced);
  CHECK(store.admit({job_kind::worker, 1}, {5, 0}));
  CHECK(tracer.marks["server.fenced_refused"] == 1);
}

TEST_CASE("shard_store: once fence has returned nothing of the fenced sender is applied") {
  for (int round = 0; round < 20; ++round) {
    shard_store store;
    create_all(store);
    std::atomic<bool> stop{false};
    std::atomic<std::uint64_t> sent{0};
    std::thread pusher{[&] {
      for (std::uint64_t seq = 1; !stop; ++seq) {
        (void)store.mutate(push(1, seq), sender(0, 1));
        sent = seq;
      }
    }};
    while (sent < 50) {
    }
    store.fence({job_kind::worker, 0}, 1);
    auto version = store.read(variable_1, shard_0).value_or_throw().version;
    auto then = sent.load();
    while (sent < then + 50) {
    }
    stop = true;
    pusher.join();
    CHECK(store.read(variable_1, shard_0).value_or_throw().version == version);
  }
}

TEST_CASE("shard_store: a snapshot keeps values, slots and counters while updates go on") {
  shard_store store;
  create_all(store);
  store.mutate(push(1, 1), sender(0, 1)).value_or_throw();
  auto entries = store.take_snapshot(static_cast<snapshot_id>(9)).value_or_throw();
  REQUIRE(entries.size() == 2);
  CHECK(entries[0].slots == 2);
  CHECK(entries[0].applies == 1);
  CHECK(entries[1].version == 0);
  auto snapshot = static_cast<snapshot_id>(9);
  std::vector<tensor> copies;
  for (std::uint32_t part = 0; part < 3; ++part)
    copies.push_back(
      store.snapshot_part(snapshot, variable_1, shard_0, part).value_or_throw().clone());
  for (std::uint64_t seq = 2; seq < 9; ++seq)
    store.mutate(push(1, seq), sender(0, 1)).value_or_throw();
  for (std::uint32_t part = 0; part < 3; ++part)
    CHECK(store.snapshot_part(snapshot, variable_1, shard_0, part).value_or_throw()
          == copies[part]);
  CHECK(store.take_snapshot(snapshot).value_or_throw()[0].version == 1); // idempotent
  CHECK(store.snapshot_part(snapshot, variable_1, shard_0, 3).error().code == errc::not_found);
  std::vector<tensor> slots{copies[1], copies[2]};
  store.restore(variable_1, shard_0, copies[0], slots, 1).value_or_throw();
  CHECK(store.read(variable_1, shard_0).value_or_throw().values == copies[0]);
  CHECK(store.mutate(push(1, 3), sender(0, 1)).value_or_throw().duplicate); // the ledger stayed
  store.drop_snapshot(snapshot);
  CHECK(store.snapshot_part(snapshot, variable_1, shard_0, 0).error().code == errc::not_found);
}

TEST_CASE("shard_store: the number of kept snapshots is bounded") {
  shard_store store;
  for (std::uint64_t i = 0; i < shard_store::snapshots_max; ++i)
    CHECK(store.take_snapshot(static_cast<snapshot_id>(i)));
  CHECK(store.take_snapshot(static_cast<snapshot_id>(99)).error().code == errc::wrong_state);
  store.drop_snapshot(static_cast<snapshot_id>(0));
  CHECK(store.take_snapshot(static_cast<snapshot_id>(99)));
}

TEST_CASE("shard_store: where one of several shards can't be made, none of them stays") {
  shard_store store;
  variable_spec good;
  good.id = static_cast<variable_id>(1);
  good.name = "good";
  good.shape = {4};
  good.shards = {{0, 2, 0}, {2, 4, 0}};
  auto there = good;
  there.id = static_cast<variable_id>(2);
  store.create(there, shard_index{0}).value_or_throw();
  auto bad = good;
  bad.id = static_cast<variable_id>(3);
  bad.shards[1].row_end = 3;
  CHECK(store.create_all({good, there, bad}, 0).error().code == errc::invalid_argument);
  CHECK(store.all().size() == 1); // the one that was there before
  CHECK(store.find(there.id, shard_index{0}));
  store.create_all({good, there}, 0).value_or_throw();
  CHECK(store.all().size() == 4);
  store.create_all({good, there}, 0).value_or_throw(); // asked again
  CHECK(store.all().size() == 4);
}

TEST_CASE("shard_store: no memory for a variable is that call's failure, and leaves nothing") {
  if (troupe::testing::is_sanitized) {
    MESSAGE("skipped: a sanitizer ends the process where memory runs out");
    return;
  }
  shard_store store;
  variable_spec huge;
  huge.id = static_cast<variable_id>(1);
  huge.name = "huge";
  huge.shape = {std::int64_t{1} << 44}; // 64 TiB, which no machine gives
  huge.shards = {{0, huge.shape[0], 0}};
  auto why = store.create_all({huge}, 0);
  REQUIRE_FALSE(why);
  CHECK(why.error().code == errc::out_of_memory);
  CHECK(why.error().text.find("'huge'") != std::string::npos);
  CHECK(why.error().text.find(std::to_string(std::uint64_t{4} << 44)) != std::string::npos);
  CHECK(store.all().empty());
}
