// Rows that no other file is about: contexts, results and distributed values. Goal: rows SYNC-VOC,
// CTX, DEF, RUN, REG, PRV and the scenarios S, R. Method: strategies over CPU devices of this
// process.

#include "../variables/variable_support.hpp"

namespace {

using namespace replicas_test;
using agg = variable_aggregation;
using sync = variable_synchronization;

// --- words and contexts

TEST_CASE("SYNC-VOC-1 a replica computes on its piece, n of them make one gradient") {
  auto s = mirrored_over(4);
  auto v = s.scope([] {
    return make_variable({.name = "v", .initial = tensor::scalar(0.0f), .optimizer = sgd{1.0f}});
  });
  auto pieces = s.run(
    [&](replica_context& ctx, float mine) {
      ctx.apply({v}, {tensor::scalar(-mine)}, reduce_op::sum);
      return mine;
    },
    per_replica<float>{{1, 10, 100, 1000}});
  CHECK(s.num_replicas_in_sync() == 4);
  CHECK(pieces.local_results() == std::vector<float>{1, 10, 100, 1000});
  CHECK(copies(v) == std::vector<float>(4, 1111));
}

TEST_CASE("SYNC-VOC-3 replica, cross-replica and update context") {
  auto s = mirrored_over(2);
  auto v = scalar(s, 0, agg::sum);
  auto seen = s.run(
    [&](replica_context& ctx, float mine) {
      CHECK(!get_update_replica_id());
      const auto whole = ctx.merge_call(
        [&](strategy& in, const per_replica<float>& all) {
          CHECK(in_cross_replica_context());
          CHECK(all.local_results() == std::vector<float>{3, 4});
          in.extended().update(
            v,
            [](auto& x, float y) {
              x.assign(y + static_cast<float>(get_update_replica_id().value()));
            },
            all);
          return static_cast<int>(all.size());
        },
        mine);
      return std::pair{mine, whole};
    },
    per_replica<float>{{3, 4}});
  CHECK(seen[1] == std::pair{4.0f, 2});
  CHECK(copies(v) == std::vector<float>{3, 5});
}

TEST_CASE("SYNC-CTX-1 SYNC-CTX-28 each thread has its own scopes") {
  auto a = mirrored_over(2), b = mirrored_over(3);
  a.scope([&] {
    std::thread{[&] {
      CHECK(!has_strategy());
      CHECK(get_strategy() == strategy{});
      CHECK(get_replica_context()->replica_id_in_sync_group() == 0);
      b.scope([&] { CHECK(get_strategy() == b); });
    }}.join();
    CHECK(get_strategy() == a);
  });
}

TEST_CASE("SYNC-DEF-1 there is one default strategy") {
  CHECK(strategy{} == strategy{});
  CHECK(get_strategy() == strategy{});
  auto v = make_variable({.name = "v", .initial = tensor::scalar(1.0f)});
  CHECK(v.distribute_strategy() == strategy{});
  CHECK(strategy{}.extended().variable_created_in_scope(v));
}

TEST_CASE("SYNC-S7 a strategy that is set makes the variables until another is") {
  auto a = mirrored_over(2), b = mirrored_over(3);
  experimental_set_strategy(a);
  auto v = make_variable({.name = "v"});
  experimental_set_strategy(b);
  auto w = make_variable({.name = "w"});
  CHECK(get_strategy() == b);
  experimental_set_strategy({});
  CHECK(v.distribute_strategy() == a);
  CHECK(v.components() == 2);
  CHECK(w.distribute_strategy() == b);
  CHECK(!has_strategy());
}

TEST_CASE("SYNC-S17 a strategy's scope inside the default one's, also nested ones") {
  auto s = mirrored_over(2);
  auto variable_in_scope = [&] {
    return s.scope([] { return make_variable({.name = "v"}); }).components();
  };
  CHECK(variable_in_scope() == 2);
  strategy none;
  auto refused = [&] { names(failure_of(variable_in_scope), errc::wrong_state, {"mixed"}); };
  none.scope([&] {
    refused();
    none.scope(refused);
    refused();
  });
  CHECK(variable_in_scope() == 2);
}

// --- run, regrouping, results

TEST_CASE("SYNC-RUN-8 f is called again in each run, once a replica") {
  auto s = mirrored_over(2);
  std::atomic<int> calls{0};
  int step = 0;
  for (; step < 3; ++step)
    CHECK(s.run([&](replica_context& ctx) {
             ++calls;
             return 10 * step + static_cast<int>(id_of(ctx));
           })
            .local_results()
          == std::vector<int>{10 * step, 10 * step + 1});
  CHECK(calls == 6);
}

TEST_CASE("SYNC-RUN-14 a function without a result takes effect") {
  auto s = mirrored_over(2);
  auto v = scalar(s, 0, agg::mean);
  static_assert(std::is_void_v<decltype(s.run([&] { v.assign_add(1.0f); }))>);
  s.run([&] { v.assign_add(1.0f); });
  CHECK(copies(v) == std::vector<float>{1, 1});
  CHECK(v.item<float>() == 1);
}

TEST_CASE("SYNC-R1 ids, maps of results, and results fed into the next run") {
  auto s = mirrored_over(2);
  auto x = s.run([](replica_context& ctx) { return id_of(ctx) + 1; });
  CHECK(x.local_results() == std::vector<std::int64_t>{1, 2});
  auto both = regroup(s.run(
    [](std::int64_t each) {
      return std::map<std::string, std::int64_t>{{"a", 2 * each}, {"b", each * each}};
    },
    x));
  CHECK(both.at("a").local_results() == std::vector<std::int64_t>{2, 4});
  CHECK(both.at("b").local_results() == std::vector<std::int64_t>{1, 4});
  auto sums = s.run(
    [](const std::map<std::string, std::int64_t>& m) { return m.at("a") + 2 * m.at("b") + 2; },
    both);
  CHECK(sums.local_results() == std::vector<std::int64_t>{6, 14});
}

TEST_CASE("SYNC-REG-4 SYNC-R8 the copies of one variable regroup to the variable") {
  auto s = mirrored_over(2);
  auto v = scalar(s, 1), w = scalar(s, 1);
  auto out = regroup(s.run([&] { return v; }));
  static_assert(std::is_same_v<decltype(out), distributed_variable>);
  CHECK(out == v);
  names(failure_of([&] {
          (void)regroup(s.run([&](replica_context& ctx) { return id_of(ctx) == 0 ? v : w; }));
        }),
        errc::mismatch, {"replica 1", "a different variable"});
}

TEST_CASE("SYNC-REG-5 SYNC-VOC-4 anything else is distributed, mirrored only by promise") {
  auto plain = regroup(std::vector<std::string>{"a", "b"});
  CHECK(plain[0] == "a");
  CHECK(plain[1] == "b");
  CHECK(!plain.is_mirrored());
  auto same = mirrored<std::string>({"a", "a"});
  CHECK(same.is_mirrored());
  CHECK(same.as_single() == "a");
  CHECK(!(same == per_replica<std::string>{{"a", "a"}}));
}

TEST_CASE("SYNC-REG-8 SYNC-R6 nests are regrouped, selected from, and only mirrored ones stand") {
  using nest = std::tuple<std::string, std::vector<std::string>, std::map<int, std::string>>;
  auto of = [](const std::string& x) { return nest{x, {x, x}, {{7, x}}}; };
  auto grouped = regroup(std::vector<nest>{of("1"), of("2")});
  CHECK(std::get<2>(grouped).at(7).local_results() == std::vector<std::string>{"1", "2"});
  CHECK(select_replica(0, grouped) == of("1"));
  CHECK(select_replica(1, grouped) == of("2"));
  names(failure_of([&] { (void)select_replica_mirrored(0, grouped); }), errc::invalid_argument,
        {"not mirrored", "component 0"});
  const std::pair same{mirrored<int>({5, 5}), std::vector{mirrored<int>({6, 6})}};
  CHECK(select_replica_mirrored(1, same) == std::pair{5, std::vector{6}});
}

TEST_CASE("SYNC-R7 what is the same on all replicas stays beside what is not") {
  auto grouped =
    regroup(std::vector<std::pair<std::string, std::string>>{{"a", "foo"}, {"b", "foo"}});
  CHECK(grouped.first.local_results() == std::vector<std::string>{"a", "b"});
  CHECK(grouped.second.as_single() == "foo");
}

TEST_CASE("SYNC-R11 local results of every kind of nest") {
  auto s = mirrored_over(2);
  auto local = [&](auto f) { return s.local_results(regroup(s.run(f))); };
  using dict = std::map<std::string, int>;
  const dict d{{"a", 1}, {"b", 2}};
  CHECK(local([&] { return d; }) == std::vector<dict>{d, d});
  using list = std::vector<int>;
  CHECK(local([] { return list{1, 2}; }) == std::vector<list>{{1, 2}, {1, 2}});
  const std::tuple triple{1, 2, 3};
  CHECK(local([&] { return triple; }) == std::vector{triple, triple});
  const std::pair nested{std::tuple{d, 1}, list{2}};
  CHECK(local([&] { return nested; }) == std::vector{nested, nested});
  CHECK(local([](replica_context& ctx) {
          return std::pair{id_of(ctx) + 1, id_of(ctx) + 2};
        })
        == std::vector<std::pair<std::int64_t, std::int64_t>>{{1, 2}, {2, 3}});
  auto tensors = local([] { return vec<int>({2, 3}); });
  REQUIRE(tensors.size() == 2);
  CHECK(tensors[1] == vec<int>({2, 3}));
}

TEST_CASE("SYNC-MRG-5 merge_call has no place outside a replica's function") {
  auto s = mirrored_over(2);
  std::atomic<int> refused{0};
  s.run([&](replica_context& ctx) {
    ctx.merge_call([&](strategy&) {
      auto why = failure_of([&] { ctx.merge_call([](strategy&) {}); });
      names(why, errc::wrong_state, {"merge_call", "must be called inside"});
      ++refused;
    });
  });
  CHECK(refused == 1);
}

TEST_CASE("SYNC-DEF-7 SYNC-VFF-5 values from a function, without replicas to spread over") {
  auto f = [](const value_context& at) { return at; };
  one_device_strategy one{shared_runtime(), "cpu:1"};
  static_assert(std::is_same_v<decltype(one.distribute_values_from_function(f)), value_context>);
  CHECK(one.distribute_values_from_function(f) == value_context{0, 1});
  CHECK(one.distribute_values_from_function([](const value_context&) {
    return std::pair{1, vec<float>({2})};
  }) == std::pair{1, vec<float>({2})});
  CHECK(strategy{}.distribute_values_from_function(f).as_single() == value_context{0, 1});
}

// --- distributed values

template <class S>
constexpr bool gathers_sparse = requires(const S& s, per_replica<sparse_gradient> x) {
  s.gather(x, 0);
};
template <class C>
constexpr bool all_gathers_sparse = requires(C& ctx, sparse_gradient x) {
  ctx.all_gather(x, 0);
};

TEST_CASE(
  "SYNC-GAT-6 SYNC-G10 SYNC-XDO-6 SYNC-PRV-9 SYNC-V29 sparse values, and no gather of them") {
  static_assert(!gathers_sparse<strategy>);
  static_assert(!all_gathers_sparse<replica_context>);
  auto s = mirrored_over(2);
  auto sparse = s.distribute_values_from_function([](const value_context& at) {
    return sparse_gradient{.indices = vec<std::int64_t>({at.replica_id_in_sync_group}),
                           .values = tensor::of<float>({1, 2}, {1, 2})};
  });
  auto rows =
    s.run([](const sparse_gradient& mine) { return mine.indices.item<std::int64_t>(); }, sparse);
  CHECK(rows.local_results() == std::vector<std::int64_t>{0, 1});
  CHECK(s.reduce(reduce_op::sum, s.run([](const sparse_gradient& x) { return x.values; }, sparse))
        == tensor::of<float>({1, 2}, {2, 4}));
  auto lists = s.distribute_values_from_function([](const value_context&) {
    return vec<int>({1, 2, 3});
  });
  CHECK(s.gather(lists, 0) == vec<int>({1, 2, 3, 1, 2, 3}));
  auto scaled = s.distribute_values_from_function([](const value_context& at) {
    const int id = static_cast<int>(at.replica_id_in_sync_group);
    return std::tuple{id, 2 * id, 3 * id};
  });
  CHECK(std::get<2>(scaled).local_results() == std::vector<int>{0, 3});
}

TEST_CASE("SYNC-PRV-2 SYNC-PRV-7 a distributed value is no tensor, and a copy is a copy") {
  static_assert(!std::is_convertible_v<per_replica<tensor>, tensor>);
  auto x = parts({tensor::scalar(1.0f), tensor::scalar(2.0f)});
  names(failure_of([&] { (void)x.as_single(); }), errc::mismatch, {"component 1"});
  names(failure_of([&] { (void)x[2]; }), errc::out_of_range, {"component 2 of 2"});
  auto same = mirrored<int>({7, 7});
  auto copy = same;
  copy[0] = 8;
  CHECK(copy.is_mirrored());
  CHECK(same.local_results() == std::vector<int>{7, 7});
}

TEST_CASE("SYNC-PRV-8 a mirrored value stands where one value does") {
  auto s = mirrored_over(2);
  auto v = scalar(s, 0);
  auto sum = s.extended().reduce_to(reduce_op::sum, per_replica<float>{{1, 2}}, v);
  REQUIRE(sum.is_mirrored());
  v.assign(sum);
  CHECK(copies(v) == std::vector<float>{3, 3});
  CHECK(s.extended().reduce_to(reduce_op::mean, sum, "cpu:1").value().item<float>() == 3);
  CHECK(s.run([](const tensor& x) { return x.item<float>(); }, sum.mirrored()).as_single() == 3);
}

} // namespace
