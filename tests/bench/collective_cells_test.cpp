#include <doctest/doctest.h>

#include <sstream>
#include <string>
#include <vector>

#include "detail/bench.hpp"
#include "detail/collective_cells.hpp"
#include "detail/collective_jobs.hpp"

// Goal: what bench/collectives reports is what its ranks measured, and a wrong result is seen.
// Method: lines written and read again, and vectors with one element or one bit changed.
namespace {

using troupe::collective_kind;

bench::cell sums(const std::string& transport, std::uint32_t n, std::size_t bytes,
                 const std::string& peer, const std::string& algorithm = "direct") {
  bench::cell c;
  c.kind = "all_reduce";
  c.transport = transport;
  c.n = n;
  c.bytes = bytes;
  c.algorithm = algorithm;
  c.peer = peer;
  c.ours = {2, 1, 4};
  c.peers = {6, 3, 12};
  return c;
}

/// Vectors of one member, right for the job.
struct vectors {
  std::vector<float> in{};
  std::vector<float> out{};
  bench::job what{};

  vectors(collective_kind kind, std::uint32_t rank, std::uint32_t root)
    : in(24, 0.0f), out(24, 0.0f), what{kind, 3, rank, 24, in.data(), out.data(), root} {
    for (std::size_t i = 0; i < what.out_count(); ++i)
      out[i] = bench::expected_value(what, i);
  }
};

} // namespace

TEST_CASE("bench: a cell that a rank wrote is the cell that the program reads") {
  bench::cell sent = sums("tcp", 2, bench::mib, "gloo_ring");
  sent.wire = "bf16";
  sent.note = "gloo_ring: members differ; ";
  std::ostringstream line;
  bench::write(line, sent);
  bench::cell got;
  REQUIRE(bench::read(line.str().substr(0, line.str().size() - 1), got));
  CHECK(got.ours == sent.ours);
  CHECK(got.peers == sent.peers);
  CHECK(got.note == sent.note);
  const bench::row row = bench::row_of(got);
  CHECK(row.name == "all_reduce_tcp_n2_1M_bf16");
  CHECK(bench::ratio(row) == doctest::Approx(3));
  CHECK_FALSE(bench::read("all_reduce\ttcp\t2", got));
}

TEST_CASE("bench: a cell without a peer keeps its samples") {
  bench::cell sent = sums("shm", 4, 0, "");
  sent.peers.clear();
  std::ostringstream line;
  bench::write(line, sent);
  bench::cell got;
  REQUIRE(bench::read(line.str().substr(0, line.str().size() - 1), got));
  CHECK(got.ours == sent.ours);
  CHECK(got.peers.empty());
  CHECK(bench::ratio(bench::row_of(got)) == 0);
}

TEST_CASE("bench: aims are those of the peer, the size and the number of members") {
  using bench::aim_of;
  CHECK(aim_of(sums("tcp", 2, bench::mib, "gloo_hd")) == 3);
  CHECK(aim_of(sums("tcp", 2, bench::mib, "openmpi_tcp")) == 1.1);
  CHECK(aim_of(sums("tcp", 2, bench::mib, "limit_raw_tcp")) == 0.75);
  CHECK(aim_of(sums("tcp", 4, bench::mib, "openmpi_tcp")) == 1.5);
  CHECK(aim_of(sums("shm", 2, bench::mib, "openmpi_shm", "staged")) == 2);
  CHECK(aim_of(sums("shm", 2, bench::mib, "openmpi_shm", "zero_copy")) == 5);
  CHECK(aim_of(sums("shm", 4, bench::kib, "openmpi_shm", "publish")) == 0);
  CHECK(aim_of(sums("inproc", 4, bench::mib, "limit_memory")) == 0.85);
  bench::cell other = sums("tcp", 2, bench::mib, "openmpi_tcp");
  other.kind = "gather";
  CHECK(aim_of(other) == 0);
}

TEST_CASE("bench: an aim in the row's unit is a ratio, whichever way the unit points") {
  bench::row less{.name = "latency", .ours = {20}, .peers = {60}, .aim_value = 30};
  CHECK(bench::aim(less) == doctest::Approx(2));
  bench::row more{
    .name = "rate", .direction = bench::better::more, .ours = {5}, .peers = {4}, .aim_value = 2};
  CHECK(bench::aim(more) == doctest::Approx(0.5));
  more.peers.clear();
  CHECK(bench::aim(more) == 0);
}

TEST_CASE("bench: every operation's right result passes, and one wrong element does not") {
  for (const collective_kind kind : bench::all_kinds)
    for (const std::uint32_t rank : {0u, 2u}) {
      CAPTURE(to_string(kind));
      CAPTURE(rank);
      vectors have{kind, rank, 2};
      CHECK(bench::check_result("who", have.what, 0) == "");
      const std::uint64_t hash = bench::hash_result(have.what);
      for (std::size_t i = 0; i < have.what.out_count(); i += 7) {
        const float right = have.out[i];
        have.out[i] += 0.125f;
        CHECK(bench::check_result("who", have.what, 0).find("element " + std::to_string(i))
              != std::string::npos);
        CHECK(bench::check_result("who", have.what, 1.0) == "");
        CHECK(bench::hash_result(have.what) != hash);
        have.out[i] = right;
      }
    }
}

TEST_CASE("bench: who gets how much, and what") {
  const auto len = [](collective_kind kind, std::uint32_t rank) {
    return vectors{kind, rank, 2}.what.out_count();
  };
  CHECK(len(collective_kind::reduce_scatter, 0) == 8);
  CHECK(len(collective_kind::reduce, 0) == 0);
  CHECK(len(collective_kind::reduce, 2) == 24);
  CHECK(len(collective_kind::gather, 1) == 0);
  CHECK(len(collective_kind::all_gather, 1) == 24);
  vectors scattered{collective_kind::reduce_scatter, 1, 0};
  CHECK(scattered.out[0]
        == bench::given_value(8, 0) + bench::given_value(8, 1) + bench::given_value(8, 2));
  vectors gathered{collective_kind::all_gather, 1, 0};
  CHECK(gathered.out[17] == bench::given_value(1, 2));
  vectors spread{collective_kind::broadcast, 1, 2};
  CHECK(spread.out[5] == bench::given_value(5, 2));
}
