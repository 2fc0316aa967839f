// The step loop, and which calls a scope lets through. Goal: rows SYNC-EXT-9, S11, S14. Method:
// strategies over CPU devices of this process.

#include "support.hpp"

namespace {

using namespace replicas_test;

TEST_CASE("SYNC-EXT-9 SYNC-S14 run_steps_on_iterator keeps the last outputs") {
  auto s = mirrored_over(2);
  float next = 0;
  std::vector<float> seen;
  auto out = s.extended().run_steps_on_iterator(
    [&](step_context& ctx, float x) {
      CHECK(get_strategy() == s);
      CHECK(in_cross_replica_context());
      seen.push_back(x);
      auto each = s.run(
        [&](replica_context& replica, float y) {
          const auto mine = tensor::scalar(y + static_cast<float>(id_of(replica)));
          ctx.set_last_step_output("inside", mine, reduce_op::mean);
          ctx.set_non_tensor_output("who", id_of(replica));
          return mine;
        },
        x);
      ctx.set_last_step_output("sum", each, reduce_op::sum);
      ctx.set_last_step_output("each", each);
      ctx.set_non_tensor_output("text", std::string{"step "} + std::to_string(seen.size()));
    },
    [&] { return next += 1; }, 3);
  CHECK(seen == std::vector<float>{1, 2, 3});
  CHECK(out.last_step_tensor("inside").item<float>() == 3.5f);
  CHECK(out.last_step_tensor("sum").item<float>() == 7);
  const auto& pieces = std::get<per_replica<tensor>>(out.last_step_output("each"));
  CHECK(pieces[0].item<float>() == 3);
  CHECK(pieces[1].item<float>() == 4);
  CHECK(out.non_tensor_output<std::int64_t>("who") == std::vector<std::int64_t>{0, 1});
  CHECK(out.non_tensor_output<std::string>("text") == std::vector<std::string>{"step 3"});
  names(failure_of([&] { (void)out.last_step_output("none"); }), errc::unknown_name, {"'none'"});
  names(failure_of([&] { (void)out.last_step_tensor("each"); }), errc::unknown_name, {"'each'"});
  names(failure_of([&] { (void)out.non_tensor_output<int>("text"); }), errc::unknown_name,
        {"'text'", "another type"});
}

TEST_CASE("SYNC-EXT-9 in a replica the operator must be given; the input may end") {
  auto s = mirrored_over(2);
  auto once = [] { return 1; };
  names(failure_of([&] {
          s.extended().run_steps_on_iterator(
            [&](step_context& ctx, int) {
              s.run([&] { ctx.set_last_step_output("loss", tensor::scalar(1.0f)); });
            },
            once, 1);
        }),
        errc::invalid_argument, {"'loss'"});
  int left = 2, steps = 0;
  names(failure_of([&] {
          s.extended().run_steps_on_iterator(
            [&](step_context&, int) { ++steps; },
            [&] { return left-- > 0 ? std::optional<int>{1} : std::nullopt; }, 5);
        }),
        errc::end_of_data, {"2 of 5"});
  CHECK(steps == 2);
}

TEST_CASE("SYNC-S11 cross-replica calls outside, inside S, and inside another strategy's scope") {
  auto s = mirrored_over(2), other = mirrored_over(3);
  auto v = s.scope([] { return make_variable({.name = "v", .initial = tensor::scalar(0.0f)}); });
  const per_replica<float> x{{1, 2}};
  const std::map<std::string, std::function<void()>> calls{
    {"reduce", [&] { (void)s.reduce(reduce_op::sum, x); }},
    {"reduce_to", [&] { (void)s.extended().reduce_to("sum", x, "cpu:0"); }},
    {"batch_reduce_to",
     [&] {
       (void)s.extended().batch_reduce_to("sum", {{x, "cpu:0"}});
     }},
    {"update", [&] { s.extended().update(v, [](auto& y) { y.assign(1); }); }},
    {"update_non_slot", [&] { s.extended().update_non_slot(cpus(2), [] {}); }},
    {"run_steps_on_iterator",
     [&] { s.extended().run_steps_on_iterator([](step_context&, int) {}, [] { return 1; }, 1); }}};
  for (const auto& each : calls) {
    const auto& call = each.second;
    CHECK_NOTHROW(call());
    s.scope([&] { CHECK_NOTHROW(call()); });
    other.scope([&] {
      names(failure_of(call), errc::wrong_state,
            {each.first.c_str(), "mixed", "cpu:0, cpu:1, cpu:2"});
    });
  }
}

} // namespace
