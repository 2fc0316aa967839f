// Work that takes long because there is much of it: a peer that shows progress is waited for,
// however small the limit on silence is; one that is stopped is named.
#include <doctest/doctest.h>

#include "counting_cluster.hpp"

namespace {

tr::runtime_options with_request_timeout(std::int64_t ms) {
  tr::runtime_options out;
  out.request_timeout = std::chrono::milliseconds{ms};
  return out;
}

constexpr std::int64_t rows = 48 << 10; // of 1024 floats: 192 MiB, with Adam's slots 576 MiB
constexpr std::int64_t cols = 1024;

} // namespace

TEST_CASE("a large variable with Adam on two servers is made, however long it takes them") {
  fixture f{1, 2, with_request_timeout(500)};
  tr::parameter_server_strategy cut{f.cluster.rt(),
                                    {.partitioner = tr::fixed_shards_partitioner{2}}};
  const auto begin = now_ns();
  auto v = cut.create_variable({.name = "large",
                                .shape = {rows, cols},
                                .initial = tr::truncated_normal(0, 1, 3),
                                .optimizer = tr::adam{1e-3f}});
  MESSAGE("made in " << (now_ns() - begin) / 1'000'000 << " ms");
  CHECK(v.gather(tr::tensor::vector<std::int64_t>({rows - 1})).shape() == tr::shape_t{1, cols});
}

TEST_CASE("a server that is stopped while it makes a variable is named, and nothing stays") {
  fixture f{1, 2, with_request_timeout(1000)};
  tr::parameter_server_strategy cut{f.cluster.rt(),
                                    {.partitioner = tr::fixed_shards_partitioner{2}}};
  f.cluster.server(1).signal(SIGSTOP);
  try {
    cut.create_variable({.name = "large", .shape = {1024, 1024}, .optimizer = tr::adam{1e-3f}});
    FAIL("a server is stopped");
  } catch (const tr::error& e) {
    CHECK(e.code() == tr::errc::unavailable);
    CHECK(std::string{e.what()}.find("ps:1") != std::string::npos);
  }
  f.cluster.server(1).signal(SIGCONT);
}
