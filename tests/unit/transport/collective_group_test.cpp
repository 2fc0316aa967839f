#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include "collective_support.hpp"

// Goal: every operation gives every member what it should, for every type, number of members and
// carrier. Method: threads, small whole numbers whose results are exact, and, for floats, the bits
// of a plain loop in rank order.
namespace {

using namespace collective_test;

// Small enough that sums and products are exact in every type.
double value_of(std::uint32_t rank, std::size_t i, reduce_op op) {
  return op == reduce_op::prod ? 1.0 + static_cast<double>((rank + i) % 2)
                               : 1.0 + static_cast<double>((rank * 3 + i * 7) % 5);
}

double merged(std::uint32_t n, std::size_t i, reduce_op op) {
  double out = value_of(0, i, op);
  for (std::uint32_t rank = 1; rank < n; ++rank) {
    const double x = value_of(rank, i, op);
    out = op == reduce_op::min    ? std::min(out, x)
          : op == reduce_op::max  ? std::max(out, x)
          : op == reduce_op::prod ? out * x
                                  : out + x;
  }
  return out;
}

tensor given(dtype type, std::size_t count, std::uint32_t rank, reduce_op op = reduce_op::sum) {
  return make_tensor(type, count, [&](std::size_t i) { return value_of(rank, i, op); });
}

tensor expected(dtype type, std::size_t count, std::uint32_t n, reduce_op op) {
  return make_tensor(type, count, [&](std::size_t i) {
    const double x = merged(n, i, op);
    if (op != reduce_op::mean)
      return x;
    if (type == dtype::f64)
      return x / n;
    const bool is_whole = type != dtype::f16 && type != dtype::bf16 && type != dtype::f32;
    return is_whole ? std::trunc(x / n)
                    : static_cast<double>(static_cast<float>(x) / static_cast<float>(n));
  });
}

class findings {
public:
  void add(const std::string& what) {
    const std::lock_guard lock{mutex_};
    if (text_.size() < 2000)
      text_ += what + "\n";
  }
  /// `holds` is asked after the operation.
  template <class F>
  void check(const result<void>& ok, F holds, const std::string& what) {
    if (!ok)
      add(what + ": " + ok.error().text);
    else if (!holds())
      add(what + ": wrong");
  }
  std::string text() const { return text_; }

private:
  std::mutex mutex_{};
  std::string text_{};
};

constexpr reduce_op operators[] = {reduce_op::sum, reduce_op::mean, reduce_op::min, reduce_op::max,
                                   reduce_op::prod};
constexpr std::size_t counts[] = {0, 1, 7, 1001};

void reductions(std::uint32_t rank, collective_group& group, findings& wrong) {
  const std::uint32_t n = group.size();
  for (const dtype type : all_types)
    for (const reduce_op op : operators)
      for (const std::size_t count : counts) {
        const std::string what = to_string(type) + " " + std::string{to_string(op)} + " "
                                 + std::to_string(count) + " rank " + std::to_string(rank);
        const tensor whole = expected(type, count, n, op);
        tensor x = given(type, count, rank, op);
        wrong.check(
          group.all_reduce(x, op), [&] { return x == whole; }, "all_reduce " + what);
        const tensor in = given(type, count, rank, op);
        const std::size_t begin = segment_begin(count, n, rank);
        tensor part = zeros(type, segment_begin(count, n, rank + 1) - begin);
        wrong.check(
          group.reduce_scatter(in, part, op),
          [&] {
            return std::memcmp(part.bytes().data(), whole.bytes().data() + begin * size_of(type),
                               part.size_bytes())
                   == 0;
          },
          "reduce_scatter " + what);
        tensor y = given(type, count, rank, op);
        const std::uint32_t root = count % n;
        wrong.check(
          group.reduce(y, root, op),
          [&] { return y == (rank == root ? whole : given(type, count, rank, op)); },
          "reduce " + what);
      }
}

void copies(std::uint32_t rank, collective_group& group, findings& wrong) {
  const std::uint32_t n = group.size();
  for (const dtype type : all_types)
    for (const std::size_t count : counts) {
      const std::string what =
        to_string(type) + " " + std::to_string(count) + " rank " + std::to_string(rank);
      std::vector<std::size_t> lens;
      std::vector<tensor> parts;
      for (std::uint32_t i = 0; i < n; ++i) {
        lens.push_back(count * i);
        parts.push_back(given(type, count * i, i));
      }
      const tensor whole = concatenate(parts);
      tensor all = zeros(type, static_cast<std::size_t>(whole.size()));
      wrong.check(
        group.all_gather(parts[rank], all, lens), [&] { return all == whole; },
        "all_gather " + what);
      tensor even = zeros(type, count * n);
      wrong.check(
        group.all_gather(given(type, count, 0), even),
        [&] { return even == concatenate(std::vector<tensor>(n, given(type, count, 0))); },
        "even all_gather " + what);
      const std::uint32_t root = count % n;
      tensor there = rank == root ? zeros(type, static_cast<std::size_t>(whole.size())) : tensor{};
      wrong.check(
        group.gather(parts[rank], there, root, lens),
        [&] { return rank != root || there == whole; }, "gather " + what);
      tensor x = given(type, count, rank);
      wrong.check(
        group.broadcast(x, root), [&] { return x == given(type, count, root); },
        "broadcast " + what);
      wrong.check(
        group.barrier(), [] { return true; }, "barrier " + what);
    }
}

float noise(std::uint32_t rank, std::size_t i) {
  const std::uint32_t bits = static_cast<std::uint32_t>(i) * 2654435761u + rank * 40503u;
  return (static_cast<float>(bits % 100003) - 50000.0f) / 37.0f;
}

tensor noise_of(std::uint32_t rank, std::size_t count) {
  tensor out{dtype::f32, {static_cast<std::int64_t>(count)}};
  auto to = out.mutable_as<float>();
  for (std::size_t i = 0; i < count; ++i)
    to[i] = noise(rank, i);
  return out;
}

tensor noise_sum(std::uint32_t n, std::size_t count) {
  tensor out{dtype::f32, {static_cast<std::int64_t>(count)}};
  auto to = out.mutable_as<float>();
  for (std::size_t i = 0; i < count; ++i) {
    volatile float sum = noise(0, i);
    for (std::uint32_t rank = 1; rank < n; ++rank)
      sum = sum + noise(rank, i);
    to[i] = sum;
  }
  return out;
}

} // namespace

TEST_CASE(
  "SYNC-GRP-C6 collectives: every operation, type and number of members, on every carrier") {
  for (const carrier by : all_carriers)
    for (std::uint32_t n = 1; n <= 5; ++n) {
      CAPTURE(name_of(by));
      CAPTURE(n);
      test_group group{by, n};
      findings wrong;
      group.each([&](std::uint32_t rank, collective_group& g) {
        reductions(rank, g, wrong);
        copies(rank, g, wrong);
      });
      CHECK(wrong.text() == "");
      if (n > 1)
        CHECK(group[0].carried_by() == class_of(by));
    }
}

TEST_CASE("collectives: large vectors have the bits of a loop in rank order, on every carrier") {
  for (const carrier by : all_carriers)
    for (const std::uint32_t n : {2u, 3u, 4u}) {
      CAPTURE(name_of(by));
      CAPTURE(n);
      test_group group{by, n};
      findings wrong;
      for (const std::size_t count : {std::size_t{300'001}, std::size_t{1'200'017}}) {
        const tensor sum = noise_sum(n, count);
        group.each([&](std::uint32_t rank, collective_group& g) {
          tensor x = noise_of(rank, count);
          wrong.check(
            g.all_reduce(x, reduce_op::sum), [&] { return x == sum; }, "all_reduce");
          tensor y = noise_of(rank, count);
          wrong.check(
            g.reduce(y, n - 1, reduce_op::sum),
            [&] { return y == (rank == n - 1 ? sum : noise_of(rank, count)); }, "reduce");
          tensor z = noise_of(rank, count);
          wrong.check(
            g.broadcast(z, 1), [&] { return z == noise_of(1, count); }, "broadcast");
          const auto begin = static_cast<std::int64_t>(segment_begin(count, n, rank));
          const auto end = static_cast<std::int64_t>(segment_begin(count, n, rank + 1));
          tensor part = zeros(dtype::f32, static_cast<std::size_t>(end - begin));
          wrong.check(
            g.reduce_scatter(noise_of(rank, count), part, reduce_op::sum),
            [&] { return part == sum.rows(begin, end); }, "reduce_scatter");
          tensor again = zeros(dtype::f32, count);
          std::vector<std::size_t> lens;
          for (std::uint32_t i = 0; i < n; ++i)
            lens.push_back(segment_begin(count, n, i + 1) - segment_begin(count, n, i));
          wrong.check(
            g.all_gather(part, again, lens), [&] { return again == sum; }, "all_gather");
        });
      }
      CHECK(wrong.text() == "");
    }
}

TEST_CASE("collectives: every algorithm gives all members the same bits, plain and encoded") {
  using a = collective_algorithm;
  for (const std::uint32_t n : {2u, 3u, 4u, 5u, 8u}) {
    memory_transport_options small_steps;
    small_steps.capacity_bytes = 100'000;
    small_steps.chunk_seed = n;
    small_steps.chunk_bytes_max = 30'000;
    test_group group{carrier::memory, small_steps};
    group.add(n);
    for (const auto& ok : group.form(group_epoch{1}))
      REQUIRE(ok);
    for (const a algorithm :
         {a::exchange, a::direct, a::ring, a::recursive_doubling, a::halving_doubling})
      for (const auto wire :
           {kernels::encoding::plain, kernels::encoding::bf16, kernels::encoding::f16})
        for (const std::size_t count : {std::size_t{3}, std::size_t{1000}, std::size_t{300'001}}) {
          const bool halves =
            algorithm == a::recursive_doubling || algorithm == a::halving_doubling;
          if (halves && (n & (n - 1)) != 0)
            continue;
          CAPTURE(n);
          CAPTURE(std::string{to_string(algorithm)});
          CAPTURE(static_cast<int>(wire));
          CAPTURE(count);
          std::vector<tensor> got(n);
          const auto ended = group.collect([&](std::uint32_t rank, collective_group& g) {
            got[rank] = noise_of(rank, count);
            collective_options options;
            options.algorithm = algorithm;
            options.wire = wire;
            return g.all_reduce(got[rank], reduce_op::mean, options);
          });
          const tensor sum = noise_sum(n, count);
          const double tolerance = wire == kernels::encoding::plain ? 1e-3 : 40.0;
          for (std::uint32_t rank = 0; rank < n; ++rank) {
            REQUIRE_MESSAGE(ended[rank], (ended[rank] ? "" : ended[rank].error().text));
            REQUIRE(got[rank] == got[0]);
          }
          for (std::size_t i = 0; i < count; i += 97)
            REQUIRE(std::abs(got[0].as<float>()[i] - sum.as<float>()[i] / static_cast<float>(n))
                    < tolerance);
        }
  }
}

TEST_CASE("collectives: an encoded wire rounds alike on every carrier") {
  std::vector<tensor> results;
  for (const carrier by : all_carriers) {
    test_group group{by, 3};
    std::vector<tensor> got(3);
    for (const auto& ok : group.collect([&](std::uint32_t rank, collective_group&g) {
           got[rank] = noise_of(rank, 100'003);
           collective_options options;
           options.wire = kernels::encoding::bf16;
           return g.all_reduce(got[rank], reduce_op::sum, options);
         }))
      REQUIRE(ok);
    CHECK(got[0] == got[1]);
    CHECK(got[0] == got[2]);
    results.push_back(got[0]);
    CHECK(results.front() == results.back());
  }
}

TEST_CASE("collectives: a user's operator is applied in rank order") {
  // Not commutative: keeps the right one's upper half and the left one's lower half.
  const user_reduction zip{"zip", [](std::byte* into, const std::byte* with, std::size_t count) {
                             for (std::size_t i = 0; i < count; ++i)
                               std::memcpy(into + 8 * i + 4, with + 8 * i + 4, 4);
                           }};
  for (const carrier by : all_carriers)
    for (const std::uint32_t n : {2u, 3u}) {
      test_group group{by, n};
      const std::int64_t zipped = (std::int64_t{n} << 32) + 1;
      for (const std::size_t count : {std::size_t{5}, std::size_t{200'000}})
        for (const auto& ok : group.collect([&](std::uint32_t rank, collective_group&g) {
               tensor x{dtype::i64, {static_cast<std::int64_t>(count)}};
               for (std::size_t i = 0; i < count; ++i)
                 x.mutable_as<std::int64_t>()[i] = (std::int64_t{rank} + 1) * 0x1'0000'0001;
               auto done = g.all_reduce(x, zip);
               for (const std::int64_t element : x.as<std::int64_t>())
                 if (done && element != zipped)
                   return result<void>{make_failure(errc::corrupt, "wrong element")};
               return done;
             }))
          CHECK_MESSAGE(ok, (ok ? "" : ok.error().text));
    }
}

TEST_CASE("collectives: several tensors travel in buckets of one type") {
  for (const carrier by : all_carriers) {
    test_group group{by, 2};
    for (const auto& ok : group.collect([&](std::uint32_t rank, collective_group&g) {
           std::vector<tensor> xs;
           for (const std::size_t count : {3, 100, 5000, 1, 0, 40, 7})
             xs.push_back(given(count == 40 ? dtype::i32 : dtype::f32, count, rank));
           collective_options options;
           options.bucket_bytes = 1000;
           auto done = g.all_reduce(xs, reduce_op::sum, options);
           for (const tensor& x : xs)
             if (done
                 && !(x
                      == expected(x.type(), static_cast<std::size_t>(x.size()), 2, reduce_op::sum)))
               return result<void>{make_failure(errc::corrupt, to_string(x))};
           if (g.counters().operations != 5 + (by == carrier::host ? 2u : 0u))
             return result<void>{make_failure(errc::corrupt, "not in buckets")};
           return done;
         }))
      CHECK_MESSAGE(ok, (ok ? "" : ok.error().text));
  }
}

namespace {

void sum_in_arena(std::uint32_t n) {
  CAPTURE(n);
  test_group group{carrier::host};
  group.arena_bytes = std::size_t{4} << 20;
  group.add(n);
  for (const auto& ok : group.form(group_epoch{1}))
    REQUIRE(ok);
  for (const std::size_t count : {std::size_t{100}, std::size_t{100'003}, std::size_t{300'001}})
    for (const std::uint32_t outside : {n, 1u}) {
      const tensor sum = noise_sum(n, count);
      findings wrong;
      group.each([&](std::uint32_t rank, collective_group& g) {
        const shape_t shape{static_cast<std::int64_t>(count)};
        for (int round = 0; round < 20; ++round) {
          // Given back each time: the arena holds three of the largest.
          tensor x = rank == outside ? tensor{dtype::f32, shape} : g.allocate(dtype::f32, shape);
          tensor second = g.allocate(dtype::f32, shape);
          const tensor from = noise_of(rank, count);
          std::memcpy(x.mutable_bytes().data(), from.bytes().data(), x.size_bytes());
          wrong.check(
            g.all_reduce(x, reduce_op::sum), [&] { return x == sum; }, "all_reduce");
          second.mutable_as<float>()[0] = 1;
        }
        wrong.check(
          g.barrier(), [] { return true; }, "barrier");
      });
      CHECK(wrong.text() == "");
    }
  tensor kept;
  group.each([&](std::uint32_t rank, collective_group& g) {
    if (rank == 0)
      kept = g.allocate(dtype::i64, {10});
  });
  group.destroy(0);
  kept.mutable_as<std::int64_t>()[9] = 5; // outlives the group
  CHECK(kept.as<std::int64_t>()[9] == 5);
}

} // namespace

TEST_CASE("collectives: tensors of an arena are summed in place, mixed ones through slots") {
  sum_in_arena(3);
  sum_in_arena(2);
}

TEST_CASE("collectives: before the first epoch every call is in the wrong state") {
  test_group group{carrier::memory};
  group.add(1);
  collective_group& g = group[0];
  tensor x = given(dtype::f32, 8, 0);
  tensor all = zeros(dtype::f32, 8);
  const std::size_t counts[] = {8};
  for (const auto& r :
       {g.all_reduce(x, reduce_op::sum), g.reduce_scatter(x, all, reduce_op::sum),
        g.reduce(x, 0, reduce_op::sum), g.all_gather(x, all), g.all_gather(x, all, counts),
        g.gather(x, all, 0), g.broadcast(x, 0), g.barrier()}) {
    REQUIRE(!r);
    CHECK(r.error().code == errc::wrong_state);
  }
}

TEST_CASE("collectives: processes of one host find their memory without being told") {
  auto ports = make_production_ports();
  for (const bool shares : {true, false}) {
    auto transport = make_host_transport(ports->clock(), {.shared_memory = shares});
    environment env{ports->clock(),   ports->random(), ports->storage(),
                    ports->threads(), ports->waits(),  *transport};
    std::vector<std::unique_ptr<collective_group>> groups;
    std::vector<collective_member> list;
    for (std::uint64_t id : {1, 2}) {
      groups.push_back(collective_group::make(env, id, {}).value_or_throw());
      list.push_back({id, groups.back()->address()});
    }
    std::thread other{[&] { CHECK(groups[1]->form(group_epoch{1}, list, 20s)); }};
    CHECK(groups[0]->form(group_epoch{1}, list, 20s));
    other.join();
    CHECK(groups[0]->carried_by() == (shares ? group_class::process : group_class::network));
  }
}

TEST_CASE("collectives: a call that can't be right is refused and ends nothing") {
  test_group group{carrier::memory, 2};
  for (const auto& ok : group.collect([&](std::uint32_t rank, collective_group&g) {
         tensor x = given(dtype::f32, 8, rank);
         tensor whole = given(dtype::i32, 8, rank);
         tensor small = zeros(dtype::f32, 1);
         collective_options encoded;
         encoded.wire = kernels::encoding::bf16;
         collective_options doubled;
         doubled.algorithm = collective_algorithm::spread;
         const std::size_t three[] = {1, 2, 3};
         const auto refused = [](const result<void>& r) {
           return !r && r.error().code == errc::invalid_argument;
         };
         if (!refused(g.broadcast(x, 2)) || !refused(g.all_reduce(whole, reduce_op::sum, encoded))
             || !refused(g.all_reduce(x, reduce_op::sum, doubled))
             || !refused(g.all_reduce(x, user_reduction{}))
             || !refused(g.reduce_scatter(x, small, reduce_op::sum))
             || !refused(g.reduce_scatter(x, whole, reduce_op::sum))
             || !refused(g.all_gather(x, small)) || !refused(g.all_gather(x, whole))
             || !refused(g.all_gather(x, small, three)))
           return result<void>{make_failure(errc::corrupt, "taken")};
         return g.all_reduce(x, reduce_op::sum);
       }))
    CHECK_MESSAGE(ok, (ok ? "" : ok.error().text));
}
