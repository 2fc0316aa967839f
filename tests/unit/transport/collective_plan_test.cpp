#include <doctest/doctest.h>

#include <vector>

#include <troupe/transport/collective_table.hpp>
#include <troupe/transport/detail/block_header.hpp>
#include <troupe/transport/detail/collective_plan.hpp>

// Goal: the plans of all members fit each other, and the table is the same for all. Method: every
// kind, algorithm, root and number of members up to nine.
namespace {

using namespace troupe;
using namespace troupe::detail;

plan_task task_of(collective_kind kind, collective_algorithm algorithm, std::uint32_t n,
                  std::uint32_t rank, std::uint32_t root, std::size_t count) {
  plan_task out;
  out.kind = kind;
  out.algorithm = algorithm;
  out.size = n;
  out.rank = rank;
  out.root = root;
  out.count = count;
  for (std::uint32_t i = 0; i <= n; ++i)
    out.parts.push_back(detail::segment_begin(count, n, i));
  return out;
}

void check_fit(const std::vector<collective_plan>& plans) {
  for (std::uint32_t from = 0; from < plans.size(); ++from)
    for (std::uint32_t to = 0; to < plans.size(); ++to) {
      const auto& sends = plans[from].sends[to];
      const auto& receives = plans[to].receives[from];
      REQUIRE(sends.size() == receives.size());
      for (std::size_t i = 0; i < sends.size(); ++i) {
        REQUIRE(plans[from].steps[sends[i]].count == plans[to].steps[receives[i]].count);
        REQUIRE(plans[from].steps[sends[i]].ordinal == i);
        REQUIRE(plans[to].steps[receives[i]].ordinal == i);
      }
    }
  for (const collective_plan& plan : plans)
    for (std::uint32_t i = 0; i < plan.steps.size(); ++i) {
      for (const step_gate& gate : plan.steps[i].gates)
        REQUIRE(gate.step < i);
      for (const std::uint32_t source : plan.steps[i].sources)
        REQUIRE(
          (source == no_step || (source < i && plan.steps[source].count == plan.steps[i].count)));
    }
}

} // namespace

TEST_CASE("plans: each send has its receive, and gates look back") {
  for (int kind = 0; kind <= 6; ++kind)
    for (int algorithm = 0; algorithm <= 6; ++algorithm)
      for (std::uint32_t n = 2; n <= 9; ++n)
        for (std::uint32_t root = 0; root < n; ++root)
          for (const std::size_t count : {std::size_t{0}, std::size_t{5}, std::size_t{1003}})
            for (const bool encoded : {false, true}) {
              const auto k = static_cast<collective_kind>(kind);
              const auto a = static_cast<collective_algorithm>(algorithm);
              if (!can_plan(k, a, n))
                continue;
              std::vector<collective_plan> plans;
              for (std::uint32_t rank = 0; rank < n; ++rank) {
                plan_task task = task_of(k, a, n, rank, root, count);
                task.encoded = encoded;
                plans.push_back(make_plan(task));
              }
              check_fit(plans);
            }
}

TEST_CASE("plans: segments cover a vector without gaps, whatever its length") {
  for (std::uint32_t n = 1; n <= 9; ++n)
    for (const std::size_t count :
         {std::size_t{0}, std::size_t{1}, std::size_t{1003}, std::size_t{1} << 46}) {
      CHECK(detail::segment_begin(count, n, 0) == 0);
      CHECK(detail::segment_begin(count, n, n) == count);
      for (std::uint32_t i = 0; i < n; ++i)
        CHECK(detail::segment_begin(count, n, i) <= detail::segment_begin(count, n, i + 1));
    }
}

TEST_CASE("the table: its first row that fits, else the default's") {
  using k = collective_kind;
  using a = collective_algorithm;
  constexpr auto rank = reduction_order::rank;
  const collective_table standard;
  CHECK(standard.pick(k::all_reduce, rank, 2, 1024) == a::exchange);
  CHECK(standard.pick(k::all_reduce, rank, 4, 1 << 20) == a::direct);
  CHECK(standard.pick(k::all_reduce, reduction_order::fixed, 4, 1 << 20) == a::halving_doubling);
  CHECK(standard.pick(k::all_reduce, reduction_order::fixed, 5, 1 << 20) == a::direct);
  CHECK(standard.pick(k::broadcast, reduction_order::fixed, 5, 100) == a::flat);
  const collective_table own{{{.kind = k::all_reduce, .bytes_max = 100, .algorithm = a::ring}}};
  CHECK(own.pick(k::all_reduce, rank, 3, 100) == a::ring);
  CHECK(own.pick(k::all_reduce, rank, 3, 101) == a::exchange);
}

TEST_CASE("block headers: what is not expected is stale, another operation's or malformed") {
  const block_header expected{7, 3, 0xabcd, 2, 1000, 512};
  const auto verdict = [&](auto change) {
    block_header other = expected;
    change(other);
    return judge(encode(other), expected);
  };
  CHECK(verdict([](block_header& h) { h.epoch = 6; }).verdict == block_verdict::stale);
  CHECK(verdict([](block_header& h) { h.epoch = 8; }).length == 1000);
  CHECK(verdict([](block_header& h) { h.operation = 4; }).verdict == block_verdict::mismatch);
  CHECK(verdict([](block_header& h) { h.description = 1; }).verdict == block_verdict::mismatch);
  CHECK(verdict([](block_header& h) { h.segment = 1; }).verdict == block_verdict::malformed);
  CHECK(verdict([](block_header& h) { h.length = 999; }).what == "length 999, expected 1000");
  CHECK(verdict([](block_header& h) { h.offset = 0; }).what == "offset 0, expected 512");
  CHECK(verdict([](block_header& h) {
          h.epoch = 6;
          h.length = block_bytes_max + 1;
        }).verdict
        == block_verdict::malformed);
  block_header_image garbage = encode(expected);
  garbage[0] = std::byte{0};
  CHECK(judge(garbage, expected).verdict == block_verdict::malformed);
}
