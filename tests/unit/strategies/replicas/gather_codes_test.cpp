// What a gather of parts that do not go together ends with. Goal: the code that `gather` and
// `all_gather` declare, for every replica, within one process and over several; a call of another
// kind stays a `mismatch`.

#include "workers_support.hpp"

namespace {

using namespace replicas_test;

/// A part that replica `id` gives, and what the others think of it.
struct misfit {
  errc code{};
  std::function<tensor(std::int64_t id)> part{};
};

std::vector<misfit> misfits() {
  return {{errc::shape_mismatch,
           [](std::int64_t id) {
             return tensor::zeros(dtype::f32, {2, id == 1 ? 3 : 2});
           }},
          {errc::shape_mismatch,
           [](std::int64_t id) {
             return tensor::zeros(dtype::f32, id == 1 ? shape_t{2, 2, 1} : shape_t{2, 2});
           }},
          {errc::dtype_mismatch, [](std::int64_t id) {
             return tensor::zeros(id == 1 ? dtype::f64 : dtype::f32, {2, 2});
           }}};
}

/// What each replica's own call of all_gather threw.
std::vector<failure> thrown_in_replicas(const strategy& s, const misfit& what, bool on_devices) {
  std::mutex mutex;
  std::vector<failure> out;
  const auto of_run = failure_of([&] {
    s.run([&](replica_context& ctx) {
      const auto x = what.part(id_of(ctx));
      try {
        if (on_devices)
          (void)ctx.all_gather(ctx.device().put(x));
        else
          (void)ctx.all_gather(x);
      } catch (const error& e) {
        std::lock_guard lock{mutex};
        out.push_back(e.details());
        throw;
      }
    });
  });
  CHECK(of_run.code != errc::none);
  return out;
}

} // namespace

TEST_CASE("all_gather of misfits was told as mismatch: it is the code that its declaration names") {
  auto s = mirrored_over(2);
  for (const auto& what : misfits())
    for (bool on_devices : {false, true}) {
      const auto told = thrown_in_replicas(s, what, on_devices);
      REQUIRE(told.size() == 2);
      for (const auto& why : told)
        names(why, what.code, {"all_gather", "replica 0", "replica 1"});
    }
  CHECK(s.run([](replica_context& ctx) { return ctx.all_reduce(reduce_op::sum, 1.0f); }).as_single()
        == 2.0f);
}

TEST_CASE(
  "all_gather of misfits over several workers: each has the code, and the strategy goes on") {
  on_workers(
    2,
    [](std::uint32_t, runtime& rt) {
      auto s = strategy_over(rt, 1);
      for (const auto& what : misfits()) {
        const auto told = thrown_in_replicas(s, what, false);
        REQUIRE(told.size() == 1);
        names(told[0], what.code, {"all_gather", "component 1", "component 0"});
        CHECK(ids(s).item<std::int64_t>() == 1);
      }
    },
    1);
}

TEST_CASE("gather of misfits has the declared code, over one process and over several") {
  auto own = mirrored_over(2);
  for (const auto& what : misfits())
    names(failure_of([&] {
            (void)own.gather(parts({what.part(0), what.part(1)}), 0);
          }),
          what.code, {"gather", "component"});
  on_workers(2, [](std::uint32_t worker, runtime& rt) {
    auto s = strategy_over(rt);
    for (const auto& what : misfits())
      names(failure_of([&] { (void)s.gather(parts({what.part(worker)}), 0); }), what.code,
            {"all_gather", "component 1"});
    CHECK(ids(s).item<std::int64_t>() == 1);
  });
}

TEST_CASE("all_gather over several workers takes tensors of many axes, and of none on the axis") {
  on_workers(2, [](std::uint32_t worker, runtime& rt) {
    auto s = strategy_over(rt);
    const auto gathered = [&](shape_t mine, std::int64_t axis) {
      return s
        .run([&](replica_context& ctx) {
          return ctx.all_gather(tensor::zeros(dtype::u8, mine), axis);
        })[0]
        .shape();
    };
    shape_t deep(16, 1);
    deep[15] = 2;
    auto wide = deep;
    wide[14] = 2;
    CHECK(gathered(deep, 14) == wide);
    CHECK(gathered({worker == 0 ? 0 : 3, 2}, 0) == shape_t{3, 2});
    auto other = deep;
    other[15] = worker == 0 ? 2 : 3;
    names(failure_of([&] { (void)gathered(other, 0); }), errc::shape_mismatch,
          {"dimension 15 of component 1"});
  });
}
