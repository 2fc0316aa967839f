// Goal: what a step reads and changes is the same as on one unsharded variable, whatever the
// layout, and each effect happens once on each shard.
#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "../data_plane/parameter_fixture.hpp"

using namespace parameter_test;

namespace {

// A client over stores in this process.
struct embedded {
  explicit embedded(std::uint32_t servers, parameter_client_options options = {})
    : vars{servers, &w.tracer},
      client{w.env(), vars.catalogue(), vars.local(), std::move(options)} {
    begin(1);
  }
  world w{};
  variables vars;
  parameter_client client;

  void begin(std::uint64_t seq, std::uint32_t attempt = 1) {
    client.begin(closure(seq), static_cast<attempt_no>(attempt), worker());
  }
  tensor value(variable_id id) {
    std::vector<variable_id> ids{id};
    return client.read(ids).value_or_throw().at(0).to_tensor();
  }
  void run(const mutation& op) {
    std::vector<mutation> ops{op};
    client.mutate(ops).value_or_throw();
    client.finish(w.in(std::chrono::seconds{10})).value_or_throw();
  }
  failure refused(const mutation& op) {
    std::vector<mutation> ops{op};
    auto done = client.mutate(ops);
    REQUIRE(!done);
    return done.error();
  }
  std::uint64_t version(variable_id id, std::uint32_t shard) {
    const auto& spec = *vars.specs.at(id);
    return vars.stores[spec.shards[shard].server]
      ->read(id, shard_index{shard})
      .value_or_throw()
      .version;
  }
};

} // namespace

TEST_CASE(
  "PS-Q2 owner and local row of a div split: the rows' own examples, and the formula for all") {
  auto place = [](const variable_spec& spec, std::int64_t row) {
    auto at = locate_row(spec, row);
    return std::pair{value_of(at.shard), at.row};
  };
  auto spec = make_variable(1, {32}, 3, 2);
  CHECK(place(spec, 10) == std::pair{0u, std::int64_t{10}});
  CHECK(place(spec, 11) == std::pair{1u, std::int64_t{0}});
  CHECK(place(spec, 22) == std::pair{2u, std::int64_t{0}});
  CHECK(place(spec, 31) == std::pair{2u, std::int64_t{9}});
  for (std::int64_t rows = 1; rows < 40; ++rows)
    for (std::uint32_t n = 1; n <= rows; ++n) {
      auto any = make_variable(1, {rows}, n, 1);
      auto base = rows / n;
      auto extra = rows % n;
      for (std::int64_t i = 0; i < rows; ++i) {
        auto owner = std::max(i / (base + 1), (i - extra) / base);
        auto local = owner < extra ? i % (base + 1) : (i - extra) % base;
        REQUIRE(place(any, i) == std::pair{static_cast<std::uint32_t>(owner), local});
      }
    }
}

TEST_CASE("PS-M2 PS-H5 13 ids in 5 shards: [0,1,2][3,4,5][6,7,8][9,10][11,12]") {
  auto spec = make_variable(1, {13}, 5, 2);
  std::vector<std::uint32_t> owners;
  for (std::int64_t i = 0; i < 13; ++i)
    owners.push_back(value_of(locate_row(spec, i).shard));
  CHECK(owners == std::vector<std::uint32_t>{0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 4, 4});
}

TEST_CASE("PS-H9 a 5x2 variable of 0..9 in two shards: three rows on ps 0, two on ps 1") {
  embedded x{2};
  auto id = x.vars.add(make_variable(1, {5, 2}, 2, 2));
  x.run({id, mutation_kind::assign, counting<float>({5, 2}), {}});
  CHECK(x.vars.stores[0]->read(id, shard_index{0}).value_or_throw().values
        == tensor::of<float>({3, 2}, {0, 1, 2, 3, 4, 5}));
  CHECK(x.vars.stores[1]->read(id, shard_index{1}).value_or_throw().values
        == tensor::of<float>({2, 2}, {6, 7, 8, 9}));
  CHECK(x.value(id) == counting<float>({5, 2}));
}

TEST_CASE("PS-G5 PS-G6 PS-G7 assignments of a sharded variable, with their numbers") {
  embedded x{2};
  auto spec = make_variable(1, {4, 2}, 1, 1);
  spec.shards = {{0, 1, 0}, {1, 3, 1}, {3, 4, 0}};
  auto id = x.vars.add(spec);
  x.run({id, mutation_kind::assign, tensor::of<float>({4, 2}, {0, 0, 1, 1, 2, 2, 3, 3}), {}});
  x.run({id, mutation_kind::assign_add, tensor::of<float>({4, 2}, {1, 1, 1, 1, 2, 2, 2, 2}), {}});
  CHECK(x.value(id) == tensor::of<float>({4, 2}, {1, 1, 2, 2, 4, 4, 5, 5}));
  x.run({id, mutation_kind::assign, tensor::of<float>({4, 2}, {0, 0, 1, 1, 2, 2, 3, 3}), {}});
  x.run({id, mutation_kind::assign_sub, tensor::of<float>({4, 2}, {0, 0, 1, 1, 1, 1, 3, 3}), {}});
  CHECK(x.value(id) == tensor::of<float>({4, 2}, {0, 0, 0, 0, 1, 1, 0, 0}));
  x.run({id, mutation_kind::assign, tensor::of<float>({4, 2}, {4, 4, 5, 5, 6, 6, 7, 7}), {}});
  CHECK(x.vars.stores[1]->read(id, shard_index{1}).value_or_throw().values
        == tensor::of<float>({2, 2}, {5, 5, 6, 6}));
}

TEST_CASE("PS-Q1 every scatter gives a sharded variable what it gives an unsharded one") {
  struct layout {
    std::int64_t rows;
    std::vector<std::int64_t> ids;
  };
  for (const auto& [rows, ids] :
       {layout{30, {0, 10, 12, 21, 22}}, layout{32, {0, 10, 11, 12, 30, 31}},
        layout{30, {22, 0, 21, 22, 12, 0, 10}}}) {
    for (std::uint32_t thread : {0u, 1u, 2u}) {
      embedded x{2, {.thread = thread}};
      auto one = x.vars.add(make_variable(1, {rows, 2}, 1, 1));
      auto three = x.vars.add(make_variable(2, {rows, 2}, 3, 2));
      auto values = tensor{dtype::f32, {static_cast<std::int64_t>(ids.size()), 2}};
      for (std::size_t i = 0; i < values.mutable_as<float>().size(); ++i)
        values.mutable_as<float>()[i] = static_cast<float>(i % 7) + 1.5f;
      for (auto id : {one, three})
        x.run({id, mutation_kind::assign, counting<float>({rows, 2}), {}});
      for (auto kind = mutation_kind::scatter_add; kind <= mutation_kind::scatter_update;
           kind = static_cast<mutation_kind>(static_cast<int>(kind) + 1)) {
        for (auto id : {one, three})
          x.run({id, kind, values, ids_of(ids)});
        CHECK(x.value(one) == x.value(three));
      }
      CHECK(!(x.value(one) == counting<float>({rows, 2})));
    }
  }
}

TEST_CASE("PS-Q7 PS-M12 a sparse gradient reaches every shard; version and t stay alike on all") {
  embedded x{2};
  auto spec = make_variable(1, {13, 2}, 5, 2);
  spec.optimizer.kind = optimizer_kind::adam;
  auto id = x.vars.add(spec);
  x.run(
    {id, mutation_kind::apply, tensor::of<float>({3, 2}, {1, 1, 2, 2, 3, 3}), ids_of({4, 4, 12})});
  x.run({id, mutation_kind::apply, tensor{dtype::f32, {0, 2}}, ids_of({})});
  x.run({id, mutation_kind::scatter_add, tensor::of<float>({1, 2}, {1, 1}), ids_of({0})});
  for (std::uint32_t shard = 0; shard < 5; ++shard) {
    CHECK(x.version(id, shard) == 3);
    auto state = x.vars.stores[shard % 2]->find(id, shard_index{shard})->state();
    CHECK(state.applies == 2);
  }
}

TEST_CASE("PS-Q5 PS-Q3 out-of-range ids and other misfits are refused before anything is sent") {
  embedded x{2};
  auto spec = make_variable(1, {13, 2}, 5, 2);
  spec.optimizer.kind = optimizer_kind::sgd;
  auto id = x.vars.add(spec);
  auto row = tensor::zeros(dtype::f32, {1, 2});
  for (std::int64_t bad : {13, -1, 100}) {
    auto why = x.refused({id, mutation_kind::scatter_add, row, ids_of({bad})});
    CHECK(why.code == errc::out_of_range);
    CHECK(why.text.find(std::to_string(bad)) != std::string::npos);
    CHECK(why.text.find("13 rows") != std::string::npos);
  }
  CHECK(x.refused({id, mutation_kind::scatter_add, row, tensor::zeros(dtype::i64, {1, 1})}).code
        == errc::shape_mismatch);
  CHECK(x.refused({id, mutation_kind::scatter_add, row, tensor::zeros(dtype::i32, {1})}).code
        == errc::dtype_mismatch);
  CHECK(x.refused({id, mutation_kind::scatter_add, row, {}}).code == errc::invalid_argument);
  CHECK(x.refused({id, mutation_kind::assign, row, ids_of({0})}).code == errc::invalid_argument);
  CHECK(x.refused({id, mutation_kind::assign, tensor::zeros(dtype::f32, {14, 2}), {}}).code
        == errc::shape_mismatch);
  CHECK(x.refused({id, mutation_kind::assign, tensor::zeros(dtype::f64, {13, 2}), {}}).code
        == errc::dtype_mismatch);
  CHECK(x.refused({static_cast<variable_id>(9), mutation_kind::assign, row, {}}).code
        == errc::unknown_variable);
  std::vector<mutation> mixed{{id, mutation_kind::assign, tensor::zeros(dtype::f32, {13, 2}), {}},
                              {id, mutation_kind::assign, row, {}}};
  CHECK(!x.client.mutate(mixed));
  for (std::uint32_t shard = 0; shard < 5; ++shard)
    CHECK(x.version(id, shard) == 0);
  CHECK(x.client.finish(x.w.in(std::chrono::seconds{1})));
}

TEST_CASE("PS-Q5 what one server would refuse is refused before another has applied its part") {
  embedded x{2};
  auto trained = make_variable(1, {4}, 2, 2);
  trained.optimizer.kind = optimizer_kind::sgd;
  const auto with = x.vars.add(trained);
  const auto without = x.vars.add(make_variable(2, {4}, 2, 2));
  const auto ones = tensor::vector<float>({1, 1, 1, 1});
  const std::vector<mutation> step{{with, mutation_kind::apply, ones, {}},
                                   {without, mutation_kind::apply, ones, {}}};
  const auto refused = x.client.mutate(step);
  REQUIRE(!refused);
  CHECK(refused.error().code == errc::wrong_state);
  CHECK(refused.error().text.find("no optimizer") != std::string::npos);
  const auto whole = x.vars.add(make_variable(3, {4}, 2, 2, dtype::i32));
  const auto why = x.refused(
    {whole, mutation_kind::scatter_div, tensor::vector<std::int32_t>({2, 0}), ids_of({0, 3})});
  CHECK(why.code == errc::invalid_argument);
  CHECK(why.text.find("division by zero") != std::string::npos);
  for (const auto id : {with, without, whole})
    for (std::uint32_t shard = 0; shard < 2; ++shard)
      CHECK(x.version(id, shard) == 0);
}

TEST_CASE(
  "PS-M4 look-up of rows [1,2][3,4] / [5,6][7,8] / [9,10]: ids 0,3,4 give [1,2],[7,8],[9,10]") {
  embedded x{2};
  auto id = x.vars.add(make_variable(1, {5, 2}, 3, 2));
  x.run(
    {id, mutation_kind::assign, tensor::of<float>({5, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}), {}});
  CHECK(x.client.gather(id, ids_of({0, 3, 4})).value_or_throw()
        == tensor::of<float>({3, 2}, {1, 2, 7, 8, 9, 10}));
}

TEST_CASE("PS-Q6 PS-M3 a gather keeps the order asked, repeats and the shape of the ids") {
  embedded x{2};
  auto id = x.vars.add(make_variable(1, {30, 2}, 3, 2));
  x.run({id, mutation_kind::assign, counting<float>({30, 2}), {}});
  CHECK(x.client.gather(id, ids_of({12, 0})).value_or_throw()
        == tensor::of<float>({2, 2}, {24, 25, 0, 1}));
  auto square = tensor::of<std::int64_t>({2, 2}, {29, 0, 0, 15});
  CHECK(x.client.gather(id, square).value_or_throw()
        == tensor::of<float>({2, 2, 2}, {58, 59, 0, 1, 0, 1, 30, 31}));
  CHECK(x.client.gather(id, tensor::scalar<std::int64_t>(7)).value_or_throw()
        == tensor::vector<float>({14, 15}));
  CHECK(x.client.gather(id, ids_of({})).value_or_throw().shape() == shape_t{0, 2});
  for (std::int64_t bad : {30, -1}) {
    auto got = x.client.gather(id, ids_of({0, bad}));
    REQUIRE(!got);
    CHECK(got.error().code == errc::out_of_range);
    CHECK(got.error().text.find("'v1'") != std::string::npos);
  }
  CHECK(x.client.gather(id, tensor::zeros(dtype::i32, {1})).error().code == errc::dtype_mismatch);
}

TEST_CASE(
  "PS-M1 PS-M11 a look-up is one gather per shard that holds a row, each row asked for once") {
  embedded x{2};
  auto id = x.vars.add(make_variable(1, {30, 2}, 3, 2));
  auto reads = [&] { return x.vars.stores[0]->stats().reads + x.vars.stores[1]->stats().reads; };
  auto before = reads();
  x.client.gather(id, ids_of({5, 5, 25, 5, 15, 25, 0})).value_or_throw();
  CHECK(reads() == before + 3);
  x.client.gather(id, ids_of({5, 5, 5})).value_or_throw();
  CHECK(reads() == before + 4);
}

TEST_CASE("PS-M10 look-ups and scatters are right for shards that are no div split") {
  embedded x{2};
  auto spec = make_variable(1, {7}, 1, 1);
  spec.shards = {{0, 1, 0}, {1, 6, 1}, {6, 7, 0}};
  auto id = x.vars.add(spec);
  x.run({id, mutation_kind::assign, counting<float>({7}), {}});
  x.run({id, mutation_kind::scatter_add, tensor::vector<float>({100, 200}), ids_of({6, 5})});
  CHECK(x.client.gather(id, ids_of({6, 5, 0, 1})).value_or_throw()
        == tensor::vector<float>({106, 205, 0, 1}));
}

TEST_CASE("parameter_client: random gathers and scatters agree with a plain array") {
  for (unsigned seed = 0; seed < 40; ++seed) {
    std::mt19937 random{seed};
    embedded x{3, {.thread = seed % 4}};
    std::int64_t rows = 1 + static_cast<std::int64_t>(random() % 20);
    auto shards = 1 + random() % static_cast<std::uint32_t>(rows);
    auto id =
      x.vars.add(make_variable(1, {rows}, static_cast<std::uint32_t>(shards), 3, dtype::i64));
    std::vector<std::int64_t> model(static_cast<std::size_t>(rows), 0);
    for (int step = 0; step < 30; ++step) {
      std::vector<std::int64_t> ids(random() % 12);
      for (auto& i : ids)
        i = static_cast<std::int64_t>(random()) % rows;
      std::vector<std::int64_t> values(ids.size());
      for (auto& v : values)
        v = static_cast<std::int64_t>(random() % 1000);
      bool add = random() % 2;
      x.begin(static_cast<std::uint64_t>(step) + 1);
      x.run({id, add ? mutation_kind::scatter_add : mutation_kind::scatter_update,
             tensor::of<std::int64_t>({static_cast<std::int64_t>(values.size())}, values),
             ids_of(ids)});
      for (std::size_t i = 0; i < ids.size(); ++i) {
        auto& cell = model[static_cast<std::size_t>(ids[i])];
        cell = add ? cell + values[i] : values[i];
      }
      REQUIRE(x.value(id) == tensor::of<std::int64_t>({rows}, model));
      std::vector<std::int64_t> expected;
      for (auto i : ids)
        expected.push_back(model[static_cast<std::size_t>(i)]);
      REQUIRE(x.client.gather(id, ids_of(ids)).value_or_throw()
              == tensor::of<std::int64_t>({static_cast<std::int64_t>(ids.size())}, expected));
    }
  }
}

TEST_CASE("parameter_client: a second attempt repeats the numbering, so nothing is doubled") {
  embedded x{2};
  auto a = x.vars.add(make_variable(1, {4}, 2, 2));
  auto b = x.vars.add(make_variable(2, {}, 1, 1));
  auto step = [&](bool extra) {
    x.run({a, mutation_kind::assign_add, tensor::vector<float>({1, 1, 1, 1}), {}});
    if (extra) // an attempt may take another branch; each variable is numbered on its own
      x.run({b, mutation_kind::assign_add, tensor::scalar(1.0f), {}});
    x.run({a, mutation_kind::assign_add, tensor::vector<float>({10, 10, 10, 10}), {}});
  };
  x.begin(5, 1);
  step(false);
  x.begin(5, 2);
  step(true);
  CHECK(x.value(a) == tensor::vector<float>({11, 11, 11, 11}));
  CHECK(x.value(b) == tensor::scalar(1.0f));
  x.begin(6, 1);
  step(true);
  CHECK(x.value(a) == tensor::vector<float>({22, 22, 22, 22}));
  CHECK(x.w.tracer.marks("server.duplicate_dropped") == 4);
}

TEST_CASE("PS-B13 parameter_client: at_least_once leaves the ledger out") {
  embedded x{1, {.at_least_once = true}};
  auto id = x.vars.add(make_variable(1, {2}, 1, 1));
  for (std::uint32_t attempt : {1u, 2u}) {
    x.begin(5, attempt);
    x.run({id, mutation_kind::assign_add, tensor::vector<float>({1, 1}), {}});
  }
  CHECK(x.value(id) == tensor::vector<float>({2, 2}));
}

TEST_CASE(
  "parameter_client: in one process a read is the server's own memory, and stays what it was") {
  embedded x{2};
  auto id = x.vars.add(make_variable(1, {4}, 2, 2));
  std::vector<variable_id> ids{id};
  auto first = x.client.read(ids).value_or_throw();
  REQUIRE(first[0].blocks.size() == 2);
  CHECK(first[0].blocks[1].row_begin == 2);
  const auto stored = x.vars.stores[1]->read(id, shard_index{1}).value_or_throw();
  CHECK(first[0].blocks[1].values.bytes().data() == stored.values.bytes().data());
  x.run({id, mutation_kind::assign, tensor::vector<float>({1, 2, 3, 4}), {}});
  CHECK(first[0].to_tensor() == tensor::zeros(dtype::f32, {4}));
  CHECK(x.client.read(ids).value_or_throw()[0].blocks[0].version == 1);
  CHECK(x.w.tracer.marks("client.after_read") == 2);
  CHECK(x.w.tracer.marks("client.pushed_k_of_n") == 2);
  CHECK(x.w.tracer.marks("client.all_acked") == 1);
}

TEST_CASE("parameter_client: a dropped variable is gone for threads that found it before") {
  embedded x{1};
  auto id = x.vars.add(make_variable(1, {2}, 1, 1));
  x.value(id);
  x.vars.stores[0]->drop(id);
  std::vector<variable_id> ids{id};
  auto got = x.client.read(ids);
  REQUIRE(!got);
  CHECK(got.error().code == errc::unknown_variable);
  CHECK(got.error().text.find("ps:0") != std::string::npos);
}

TEST_CASE("parameter_client: a refused push fails this closure's finish and not the next one's") {
  embedded x{1};
  auto id = x.vars.add(make_variable(1, {2}, 1, 1));
  x.vars.stores[0]->fence({job_kind::worker, 0}, 1);
  CHECK(x.refused({id, mutation_kind::assign, tensor::vector<float>({1, 1}), {}}).code
        == errc::fenced);
  CHECK(x.client.finish(x.w.in(std::chrono::seconds{1})).error().code == errc::fenced);
  x.client.begin(closure(2), attempt_1, worker(0, 2));
  x.run({id, mutation_kind::assign, tensor::vector<float>({1, 1}), {}});
  CHECK(x.value(id) == tensor::vector<float>({1, 1}));
}

TEST_CASE("parameter_client: a server that can't be reached is named") {
  world w;
  variables vars{1, &w.tracer};
  auto id = vars.add(make_variable(1, {2}, 1, 1));
  parameter_client client{w.env(), vars.catalogue(),
                          [](std::uint32_t) -> result<std::unique_ptr<server_link>> {
                            return make_failure(errc::connect_failed, "nobody listens at mem:7");
                          }};
  client.begin(closure(1), attempt_1, worker());
  std::vector<variable_id> ids{id};
  auto got = client.read(ids);
  REQUIRE(!got);
  CHECK(got.error().code == errc::unavailable);
  CHECK(got.error().retry == retry_class::after_recovery);
  CHECK(got.error().text.find("ps:0") != std::string::npos);
  CHECK(got.error().text.find("mem:7") != std::string::npos);
}
