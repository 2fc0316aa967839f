// Threads that were left behind. Goal: what one does after its replica has another thread changes
// nothing of what the runs that follow work with. Method: a replica that waits for a flag while
// another one fails; the flag is raised when the next run is over.

#include "variable_support.hpp"

namespace {

using namespace replicas_test;

/// What the thread that is left behind does in the end, and what it is told. Never destroyed: the
/// thread outlives the test.
struct late_work {
  std::atomic<bool> begun{false}, go{false}, gone{false};
  std::vector<failure> told{};
};

/// Runs so that replica 1 is left behind; it will do `acts`, one after the other.
std::shared_ptr<late_work> leave_behind(const mirrored_strategy& s,
                                        std::vector<std::function<void()>> acts) {
  auto work = std::make_shared<late_work>();
  CHECK_THROWS_AS(s.run([work, acts](replica_context& ctx) {
    if (id_of(ctx) == 0) {
      (void)comes_true([&] { return work->begun.load(); });
      throw std::runtime_error{"first"};
    }
    work->begun = true;
    (void)comes_true([&] { return work->go.load(); });
    for (const auto& act : acts)
      work->told.push_back(failure_of(act));
    work->gone = true;
  }),
                  std::runtime_error);
  return work;
}

void let_go(const std::shared_ptr<late_work>& work) {
  work->go = true;
  REQUIRE(comes_true([&] { return work->gone.load(); }));
  for (const auto& why : work->told)
    names(why, errc::cancelled, {"replica 1", "exceeded its grace period"});
}

TEST_CASE("a replica that is left behind changes no variable of a later run") {
  auto s = mirrored_over(2, {.grace_ms = 50});
  auto total = scalar(s, 0, variable_aggregation::sum, variable_synchronization::on_read);
  auto own = scalar(s, 0, variable_aggregation::mean);
  auto rows = s.scope([] {
    return make_variable({.name = "rows", .initial = vec<float>({1, 2}), .allow_divergence = true});
  });
  const auto late =
    leave_behind(s, {
                      [=] { total.assign_add(1.0f); },
                      [=] { own.assign_add(1.0f); }, // by no collective
                      [=] { rows.scatter_add(vec<std::int64_t>({0}), vec<float>({9})); },
                    });
  s.run([=] { total.assign_add(2.0f); });
  own.assign(5.0f);
  let_go(late);
  CHECK(late->told.size() == 3);
  CHECK(total.item<float>() == 4);
  CHECK(copies(own) == std::vector<float>{5, 5});
  CHECK(rows.component(1) == vec<float>({1, 2}));
  s.run([=] { own.assign_add(1.0f); });
  CHECK(copies(own) == std::vector<float>{6, 6});
}

TEST_CASE("a replica that is left behind draws no numbers of a later run's") {
  auto s = mirrored_over(2, {.grace_ms = 50});
  auto g = s.scope([] { return random_generator{7}; });
  const auto late = leave_behind(s, {[=]() mutable { (void)g.uniform({4}); }});
  const auto before = g.saved_value();
  let_go(late);
  CHECK(g.saved_value() == before);
  auto twin = s.scope([] { return random_generator{7}; });
  auto draw = [&](random_generator& from) {
    return s.run([from](replica_context&) mutable { return from.uniform({4}); });
  };
  CHECK(draw(g).local_results() == draw(twin).local_results());
}

} // namespace
