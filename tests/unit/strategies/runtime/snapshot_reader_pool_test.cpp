// Goal: saves and restores share one session a server, and one that broke is made anew once, never
// lent again. Method: snapshot readers that do as the test says.
#include <doctest/doctest.h>

#include <new>
#include <type_traits>

#include <troupe/strategies/runtime/detail/snapshot_reader_pool.hpp>

using namespace troupe;

namespace {

/// What the snapshot readers of all servers do next.
struct script {
  int breaks = 0; ///< calls that lose their channel
  int made = 0;
  int living = 0;
};

class scripted_reader final : public snapshot_reader {
public:
  explicit scripted_reader(script& of) : of_{of}, number_{++of.made} { ++of.living; }
  ~scripted_reader() override { --of_.living; }
  int number() const { return number_; }

  result<snapshot_piece> read_snapshot(snapshot_id, variable_id, shard_index,
                                       std::uint32_t) override {
    return answer<snapshot_piece>();
  }
  result<void> restore(variable_id, shard_index, const tensor&, std::span<const tensor>,
                       std::uint64_t, std::optional<float>) override {
    return answer<void>();
  }
  result<void> check_restore(variable_id, shard_index, dtype, const shape_t&, std::size_t,
                             std::optional<float>) override {
    return answer<void>();
  }

private:
  template <class T>
  result<T> answer() {
    if (of_.breaks > 0) {
      --of_.breaks;
      return make_failure(errc::connection_lost, "on purpose");
    }
    if constexpr (std::is_void_v<T>)
      return {};
    else
      return T{};
  }
  script& of_;
  const int number_;
};

struct pool_test {
  script what{};
  snapshot_reader_pool pool{[this](std::uint32_t) -> result<std::unique_ptr<snapshot_reader>> {
    return std::unique_ptr<snapshot_reader>{std::make_unique<scripted_reader>(what)};
  }};
};

result<void> restore_on(snapshot_readers& on, std::uint32_t server) {
  return on.ask(
    server, [](snapshot_reader& v) { return v.restore({}, {}, tensor{}, {}, 0, std::nullopt); });
}

} // namespace

TEST_CASE(
  "snapshot_reader_pool: thousands of calls share one session a server, this time and the next") {
  pool_test t;
  for (int round = 0; round < 3; ++round) {
    snapshot_readers on{t.pool};
    for (std::uint32_t i = 0; i < 2000; ++i)
      CHECK(restore_on(on, i % 2));
  }
  CHECK(t.pool.opened() == 2);
  CHECK(t.what.living == 2);
}

TEST_CASE(
  "snapshot_reader_pool: a session that is lost in a call is made anew, a bounded number of "
  "times") {
  pool_test t;
  snapshot_readers on{t.pool};
  t.what.breaks = snapshot_readers::tries_max - 1;
  CHECK(restore_on(on, 0));
  CHECK(t.what.made == snapshot_readers::tries_max);
  CHECK(t.what.living == 1);
  t.what.breaks = 100;
  CHECK(restore_on(on, 0).error().code == errc::connection_lost);
  CHECK(t.what.living == 0);
}

TEST_CASE("snapshot_reader_pool: a session in which a call threw is nobody's again") {
  pool_test t;
  {
    snapshot_readers on{t.pool};
    REQUIRE(restore_on(on, 0));
    auto throws = [](snapshot_reader&) -> result<void> { throw std::bad_alloc{}; };
    CHECK_THROWS_AS((void)on.ask(0, throws), std::bad_alloc);
  }
  CHECK(t.what.living == 0);
  snapshot_readers on{t.pool};
  CHECK(restore_on(on, 0));
  CHECK(t.what.made == 2);
}

TEST_CASE("snapshot_reader_pool: two at a time have sessions of their own, one of them stays") {
  pool_test t;
  {
    snapshot_readers a{t.pool};
    snapshot_readers b{t.pool};
    CHECK(restore_on(a, 3));
    CHECK(restore_on(b, 3));
    CHECK(t.what.living == 2);
  }
  CHECK(t.what.living == 1);
  t.pool.close();
  CHECK(t.what.living == 0);
}
