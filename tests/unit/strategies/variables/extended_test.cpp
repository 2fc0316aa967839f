// The wider API of strategies. Goal: rows SYNC-RTO, UPD, COL, EXT and the scenarios S12, S15, G4,
// V18, V24. Method: strategies over CPU devices of this process.

#include "variable_support.hpp"

namespace {

using namespace replicas_test;
using agg = variable_aggregation;
using sync = variable_synchronization;

std::vector<float> floats(const per_replica<tensor>& x) {
  std::vector<float> out;
  for (const auto& each : x)
    out.push_back(each.item<float>());
  return out;
}

// --- reduce_to

TEST_CASE(
  "SYNC-COL-B SYNC-MIR-8 SYNC-RTO-1 SYNC-RTO-3 SYNC-G4 a reduced value goes to one device or "
  "several") {
  auto s = mirrored_over(2);
  auto ids = s.run(id_of);
  auto one = s.extended().reduce_to(reduce_op::sum, ids, "/cpu:0");
  CHECK(one.value().item<std::int64_t>() == 1);
  CHECK(one.devices() == std::vector<std::string>{"cpu:0"});
  CHECK(!one.is_mirrored());
  auto v = scalar(s, 7);
  auto both = s.extended().reduce_to(reduce_op::sum, ids, v);
  CHECK(both.devices() == cpus(2));
  CHECK(both.is_mirrored());
  CHECK(both.mirrored()
        == mirrored<tensor>({tensor::scalar<std::int64_t>(1), tensor::scalar<std::int64_t>(1)}));
  CHECK(copies(v) == std::vector<float>{7, 7});
  CHECK(s.extended().reduce_to(reduce_op::mean, ids, ids).devices() == cpus(2));
  CHECK(s.extended().reduce_to(reduce_op::max, ids, both.value()).devices() == cpus(1));
  auto full = s.extended().reduce_to("SUM", ids, "/job:localhost/replica:0/task:0/device:CPU:3");
  CHECK(full.devices() == std::vector<std::string>{"cpu:3"});
}

TEST_CASE("SYNC-XDO-1 SYNC-RTO-2 SYNC-RTO-4 what is no destination and no operator") {
  static_assert(!std::is_constructible_v<destinations, std::vector<std::string>>);
  static_assert(!std::is_constructible_v<destinations, std::pair<std::string, std::string>>);
  static_assert(!std::is_constructible_v<reduction, variable_aggregation>);
  auto s = mirrored_over(2);
  const per_replica<float> x{{1, 2}};
  for (auto name : {"sum", "SUM", "Sum"})
    CHECK(s.extended().reduce_to(name, x, "cpu:0").value().item<float>() == 3);
  names(failure_of([&] { (void)s.extended().reduce_to("median", x, "cpu:0"); }),
        errc::invalid_argument, {"'median'"});
  names(failure_of([&] { (void)s.extended().reduce_to("sum", x, "cpu:9"); }),
        errc::device_unavailable, {"'cpu:9'", "cpu:0, cpu:1, cpu:2, cpu:3"});
  names(failure_of([&] { (void)s.extended().reduce_to("sum", x, "/job:worker/task:3/cpu:0"); }),
        errc::device_unavailable, {"another process", "/job:worker"});
  names(failure_of([&] { (void)s.extended().reduce_to("sum", x, "/cqu:0"); }),
        errc::invalid_argument, {"cqu"});
  names(failure_of([&] {
          (void)s.extended().reduce_to("sum", x, per_replica<int>{{1, 2, 3}});
        }),
        errc::invalid_argument, {"3 components", "2 replicas"});
}

TEST_CASE(
  "SYNC-XDO-3 SYNC-RTO-5 SYNC-RTO-6 SYNC-RTO-7 SYNC-RTO-8 values that are the same everywhere") {
  auto s = mirrored_over(2);
  auto with = s.extended();
  const auto same = with.broadcast_to(tensor::scalar(4.0f), per_replica<int>{{0, 0}});
  CHECK(with.reduce_to("mean", same, "cpu:0").value().item<float>() == 4);
  names(failure_of([&] { (void)with.reduce_to("sum", same, "cpu:0"); }), errc::invalid_argument,
        {"mirrored", "sum"});
  const auto zeros = tensor::zeros(dtype::f32, {2, 3});
  CHECK(with.reduce_to("sum", zeros, "cpu:0").value() == zeros);
  CHECK(with.reduce_to("mean", zeros, "cpu:0").value() == zeros);
  auto v = scalar(s, 0);
  auto mean = with.reduce_to("mean", 3.0f, v);
  CHECK(mean.value().item<float>() == 3);
  CHECK(mean.devices() == cpus(2));
  names(failure_of([&] { (void)with.reduce_to("sum", 3.0f, v); }), errc::invalid_argument,
        {"non-distributed", "sum", "2 replicas"});
  CHECK(mirrored_over(1).extended().reduce_to("sum", 3.0f, "cpu:2").value().item<float>() == 3);
}

TEST_CASE(
  "SYNC-XDO-4 SYNC-RTO-10 SYNC-RTO-11 a batch is each of its pairs, of any types and "
  "destinations") {
  auto s = mirrored_over(2);
  auto v = scalar(s, 0);
  auto out = s.extended().batch_reduce_to(
    "sum", {{per_replica<float>{{1, 2}}, "cpu:1"},
            {per_replica<std::int32_t>{{3, 4}}, v},
            {parts({vec<float>({1, 1}), vec<float>({2, 5})}), "cpu:0"}});
  REQUIRE(out.size() == 3);
  CHECK(out[0].value().item<float>() == 3);
  CHECK(out[0].devices() == std::vector<std::string>{"cpu:1"});
  CHECK(out[1].value().item<std::int32_t>() == 7);
  CHECK(out[1].devices() == cpus(2));
  CHECK(out[2].value() == vec<float>({3, 6}));
  names(failure_of([&] {
          (void)s.extended().batch_reduce_to(
            "sum", {{per_replica<float>{{1, 2}}, "cpu:1"}, {per_replica<float>{{1, 2}}, "cpu:7"}});
        }),
        errc::device_unavailable, {"cpu:7"});
}

TEST_CASE("SYNC-RTO-12 reduce_to in a merge function, then an assignment") {
  auto total = [](const strategy& s) {
    auto v = scalar(s, 0);
    s.run([&](replica_context& ctx) {
      ctx.merge_call(
        [&](strategy& in, const per_replica<float>& x) {
          v.assign(in.extended().reduce_to("sum", x, v).value());
        },
        1.0f);
    });
    return v.item<float>();
  };
  CHECK(total(mirrored_over(2)) == 2);
  CHECK(total(central(2)) == 2);
  CHECK(total(one_device_strategy{shared_runtime(), "cpu:0"}) == 1);
}

TEST_CASE("SYNC-RTO-13 SYNC-DEF-13 SYNC-XDO-5 broadcast_to") {
  auto s = mirrored_over(3);
  auto out = s.extended().broadcast_to(tensor::scalar(5), scalar(s, 0));
  CHECK(out.devices() == cpus(3));
  CHECK(out.mirrored().is_mirrored());
  CHECK(out.mirrored()[2].item<int>() == 5);
  CHECK(s.extended().broadcast_to(tensor::scalar(5), "cpu:1").mirrored().size() == 1);
  names(failure_of([] { (void)strategy{}.extended().broadcast_to(tensor::scalar(5), "cpu:0"); }),
        errc::invalid_argument, {"broadcast_to", "default strategy"});
}

TEST_CASE("SYNC-S12 one replica reduces to the value itself, by any name of the operator") {
  for (const auto& s : {strategy{}, strategy{mirrored_over(1)},
                        strategy{one_device_strategy{shared_runtime(), "cpu:1"}}})
    for (auto op : {"mean", "MEAN", "sum", "SUM"}) {
      const per_replica<float> x{{1.0f}}, y{{2.0f}};
      CHECK(s.reduce(op, parts({tensor::scalar(1.0f)})).item<float>() == 1);
      CHECK(s.extended().reduce_to(op, x, "/CPU:0").value().item<float>() == 1);
      auto both = s.extended().batch_reduce_to(op, {{x, "/CPU:0"}, {y, "/CPU:0"}});
      CHECK(both[0].value().item<float>() == 1);
      CHECK(both[1].value().item<float>() == 2);
    }
}

// --- update

TEST_CASE("SYNC-UPD-1 SYNC-UPD-3 SYNC-UPD-4 SYNC-UPD-9 update calls f once for each copy") {
  auto s = mirrored_over(2);
  auto v = scalar(s, 5);
  auto out = s.extended().update(v, [](auto& x) { return x.assign(1); });
  CHECK(out.is_mirrored());
  CHECK(floats(out) == std::vector<float>{1, 1});
  CHECK(copies(v) == std::vector<float>{1, 1});
  std::vector<std::uint32_t> ids;
  std::vector<std::string> devices;
  CHECK(!get_update_replica_id());
  auto each = s.extended().update_ungrouped(
    v,
    [&](auto& x, const tensor& mine, float plain) {
      ids.push_back(get_update_replica_id().value());
      devices.push_back(short_name(resolve_device("")));
      CHECK(in_cross_replica_context());
      x.assign_add(mine);
      return x.template item<float>() + plain;
    },
    parts({tensor::scalar(10.0f), tensor::scalar(20.0f)}), 0.5f);
  CHECK(each == std::vector<float>{11.5f, 21.5f});
  CHECK(copies(v) == std::vector<float>{11, 21});
  CHECK(ids == std::vector<std::uint32_t>{0, 1});
  CHECK(devices == cpus(2));
  CHECK(!get_update_replica_id());
  CHECK(short_name(resolve_device("")) == "cpu:0");
}

TEST_CASE("SYNC-UPD-2 update in update context, and where it has no place") {
  auto s = mirrored_over(2);
  auto v = scalar(s, 0), w = scalar(s, 0);
  s.extended().update(v, [&](auto&) { s.extended().update(w, [](auto& x) { x.assign_add(1); }); });
  CHECK(copies(w) == std::vector<float>{2, 2});
  names(failure_of([&] { s.run([&] { s.extended().update(v, [](auto& x) { x.assign(1); }); }); }),
        errc::wrong_state, {"update", "merge_call"});
  auto other = scalar(mirrored_over(3), 0);
  names(failure_of([&] { s.extended().update(other, [](auto&) {}); }), errc::invalid_argument,
        {"'v'", "mirrored_strategy(cpu:0, cpu:1)", "mirrored_strategy(cpu:0, cpu:1, cpu:2)"});
}

TEST_CASE("SYNC-UPD-5 SYNC-V18 an on_read variable's copies, without grouping") {
  auto s = mirrored_over(2);
  auto v = scalar(s, 1, agg::sum, sync::on_read);
  auto out = s.extended().update_ungrouped(v, [](auto& x) { return x.assign(5); });
  REQUIRE(out.size() == 2);
  CHECK(out[1].item<float>() == 5);
  CHECK(copies(v) == std::vector<float>{5, 5});
  CHECK(v.item<float>() == 10);
}

TEST_CASE(
  "SYNC-UPD-6 SYNC-DEF-14 SYNC-S15 one replica: f gets exactly the variable and the value") {
  for (const auto& s : {strategy{}, strategy{one_device_strategy{shared_runtime(), "cpu:0"}}}) {
    auto v = scalar(s, 1);
    const auto t = tensor::scalar(2.0f);
    int calls = 0;
    s.extended().update(
      v,
      [&](const distributed_variable& x, const tensor& y) {
        ++calls;
        CHECK(x == v);
        CHECK(y.bytes().data() == t.bytes().data());
      },
      t);
    CHECK(calls == 1);
    calls = 0;
    s.extended().update_non_slot(s.extended().non_slot_devices({v}), [&] { ++calls; });
    CHECK(calls == 1);
  }
}

TEST_CASE("SYNC-UPD-7 central storage: once, with the first component") {
  auto s = central(2);
  auto v = scalar(s, 1);
  int calls = 0;
  auto out = s.extended().update(
    v,
    [&](auto& x, float y) {
      ++calls;
      return x.assign_add(y);
    },
    per_replica<float>{{10, 20}});
  CHECK(calls == 1);
  CHECK(floats(out) == std::vector<float>{11});
  CHECK(v.item<float>() == 11);
}

TEST_CASE("SYNC-UPD-R1 SYNC-UPD-R2 SYNC-V24 update from replicas, with a value and a number") {
  for (const auto& s :
       {strategy{mirrored_over(2)}, strategy{central(2)}, strategy{mirrored_over(1)}}) {
    auto after = [&](auto change) {
      auto v = scalar(s, 5, agg::sum);
      auto seen = s.run([&](replica_context& ctx) {
        ctx.update(
          v, [&](auto& x, const tensor& y) { change(x, y); }, tensor::scalar(2.0f));
        auto last = ctx.update(
          v,
          [&](auto& x, float y) {
            change(x, tensor::scalar(y));
            return x.read();
          },
          1.0f);
        CHECK(last == v.read());
        return v.item<float>();
      });
      CHECK(seen.as_single() == v.item<float>());
      return v.item<float>();
    };
    CHECK(after([](auto& x, const tensor& y) { x.assign(y); }) == 1);
    CHECK(after([](auto& x, const tensor& y) { x.assign_add(y); }) == 8);
    CHECK(after([](auto& x, const tensor& y) { x.assign_sub(y); }) == 2);
  }
}

TEST_CASE("SYNC-UPD-R3 replicas that give different values make copies that differ") {
  auto s = mirrored_over(2);
  auto v = scalar(s, 5);
  auto seen = s.run([&](replica_context& ctx) {
    ctx.update(
      v, [](auto& x, const tensor& y) { x.assign(y); },
      tensor::scalar(static_cast<float>(id_of(ctx))));
    return v.item<float>();
  });
  CHECK(seen.local_results() == std::vector<float>{0, 1});
  CHECK(copies(v) == std::vector<float>{0, 1});
}

// --- colocation and facts

TEST_CASE("SYNC-COL-1 SYNC-COL-2 SYNC-COL-3 SYNC-CTX-24 colocated variables") {
  auto s = mirrored_over(2);
  auto v = scalar(s, 1);
  s.scope([&] {
    auto open = s.extended().colocate_vars_with(v);
    auto w = make_variable({.name = "w", .initial = tensor::scalar(1.0f)});
    CHECK(w.devices() == v.devices());
    CHECK(s.extended().variable_created_in_scope(w));
  });
  names(failure_of([&] { (void)s.extended().colocate_vars_with(v); }), errc::wrong_state,
        {"colocate_vars_with", "inside the scope of mirrored_strategy(cpu:0, cpu:1)"});
  (void)s.reduce(reduce_op::sum, per_replica<float>{{1, 2}}); // no such rule here
  auto plain = make_variable({.name = "plain", .initial = tensor::scalar(1.0f)});
  auto other = scalar(mirrored_over(3), 1);
  for (const auto& each : {plain, other})
    s.scope([&] {
      names(failure_of([&] { (void)s.extended().colocate_vars_with(each); }),
            errc::invalid_argument, {each.name().c_str(), "must come from the scope of"});
    });
}

TEST_CASE("SYNC-VOC-2 SYNC-EXT-1 SYNC-EXT-2 SYNC-EXT-3 SYNC-DEF-9 SYNC-VCR-15 where things are") {
  auto m = mirrored_over(2);
  auto c = central(2);
  one_device_strategy o{shared_runtime(), "cpu:1"};
  auto vm = scalar(m, 1), vc = scalar(c, 1), vo = scalar(o, 1);
  CHECK(m.extended().variable_created_in_scope(vm));
  CHECK(!m.extended().variable_created_in_scope(vc));
  const std::vector<std::string> first{"cpu:0"}, second{"cpu:1"};
  CHECK(m.extended().worker_devices() == cpus(2));
  CHECK(m.extended().parameter_devices() == cpus(2));
  CHECK(m.extended().non_slot_devices({vm}) == cpus(2));
  CHECK(c.extended().worker_devices() == cpus(2));
  CHECK(c.extended().parameter_devices() == first);
  CHECK(c.extended().non_slot_devices({vc}) == first);
  CHECK(o.extended().worker_devices() == second);
  CHECK(o.extended().parameter_devices() == second);
  CHECK(o.extended().non_slot_devices({vo}) == second);
  names(failure_of([&] { (void)m.extended().non_slot_devices({vc}); }), errc::invalid_argument,
        {"non_slot_devices", "'v'"});
  names(failure_of([] { (void)strategy{}.extended().worker_devices(); }), errc::wrong_state,
        {"worker_devices", "default strategy"});
  names(failure_of([] { (void)strategy{}.extended().parameter_devices(); }), errc::wrong_state,
        {"parameter_devices", "default strategy"});
  CHECK(vm.device() == "cpu:0");
  device_scope on{"cpu:1"};
  CHECK(vm.device() == "cpu:1");
  CHECK(vc.device() == "cpu:0");
  CHECK(vm.component_on("cpu:1").item<float>() == 1);
  names(failure_of([&] { (void)vm.component_on("cpu:3"); }), errc::device_unavailable,
        {"'v'", "'cpu:3'", "cpu:0, cpu:1"});
}

TEST_CASE("SYNC-EXT-4 update_non_slot calls f once a device, there") {
  auto s = mirrored_over(3);
  std::vector<std::string> seen;
  auto out = s.extended().update_non_slot(
    s.extended().non_slot_devices({}),
    [&](int x) {
      seen.push_back(short_name(resolve_device("")));
      return x + static_cast<int>(*get_update_replica_id());
    },
    per_replica<int>{{10, 20, 30}});
  CHECK(seen == cpus(3));
  CHECK(out.local_results() == std::vector<int>{10, 21, 32});
  auto c = central(2);
  int calls = 0;
  c.extended().update_non_slot(c.extended().non_slot_devices({scalar(c, 0)}), [&] { ++calls; });
  CHECK(calls == 1);
}

TEST_CASE(
  "SYNC-EXT-4 variables in update_non_slot are their copy on that device, if there is one") {
  auto s = mirrored_over(2);
  auto v = scalar(s, 0);
  s.extended().update_non_slot(cpus(2), [&] { v.assign_add(1); });
  CHECK(copies(v) == std::vector<float>{1, 1});
  names(failure_of([&] { s.extended().update_non_slot(cpus(3), [&] { v.assign_add(1); }); }),
        errc::out_of_range, {"'v'", "device 2", "2 copies"});
  CHECK(copies(v) == std::vector<float>{2, 2});
  one_device_strategy one{shared_runtime(), "cpu:0"};
  auto w = scalar(one, 0);
  one.extended().update_non_slot(cpus(2), [&] { w.assign_add(1); });
  CHECK(w.item<float>() == 2);
}

TEST_CASE("SYNC-EXT-5 SYNC-EXT-6 read_var and value_container") {
  auto s = mirrored_over(2);
  auto sum = scalar(s, 2, agg::sum, sync::on_read), mean = scalar(s, 2, agg::mean, sync::on_read),
       first = scalar(s, 2, agg::only_first_replica, sync::on_read), w = scalar(s, 7);
  for (const auto& v : {sum, mean, first})
    s.run([&](replica_context& ctx) { v.assign_add(tensor::scalar(2.0f * float(id_of(ctx)))); });
  CHECK(s.extended().read_var(sum).item<float>() == 6);
  CHECK(s.extended().read_var(mean).item<float>() == 3);
  CHECK(s.extended().read_var(first).item<float>() == 2);
  CHECK(s.extended().read_var(w).item<float>() == 7);
  s.extended().update(sum, [&](auto& x) {
    CHECK(s.extended().read_var(x).template item<float>() == 6); // all, not this copy
    CHECK(s.extended().value_container(x) == sum);
  });
  CHECK(&s.extended().value_container(w) == &w);
  const auto t = tensor::scalar(1);
  CHECK(&s.extended().value_container(t) == &t);
}

TEST_CASE("SYNC-EXT-7 SYNC-EXT-8 flags of strategies of one process") {
  for (const auto& s : {strategy{mirrored_over(2)}, strategy{central(2)}, strategy{},
                        strategy{one_device_strategy{shared_runtime(), "cpu:0"}}}) {
    CHECK(!s.extended().experimental_require_static_shapes());
    CHECK(!s.extended().experimental_between_graph());
    CHECK(s.extended().should_checkpoint());
    CHECK(s.extended().should_save_summary());
    CHECK(s.extended().num_hosts() == 1);
    CHECK(s.extended().num_replicas_per_host() == s.num_replicas_in_sync());
  }
}

} // namespace
