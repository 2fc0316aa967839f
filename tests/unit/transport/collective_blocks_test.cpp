#include <doctest/doctest.h>

#include <cstring>
#include <string>
#include <vector>

#include <troupe/transport/detail/plan_runner.hpp>

#include "collective_support.hpp"
#include "support.hpp"

// Goal: what does not belong to an operation never gets into it: stale blocks are dropped, others
// refused. Method: a runner over a channel whose other end is a string, in steps of any size.
namespace {

using namespace troupe;
using namespace troupe::detail;
using transport_test::scripted_channel;

constexpr std::uint32_t epoch = 5;
constexpr std::uint32_t operation = 9;
constexpr std::uint32_t description = 77;

std::string block(block_header header, const std::string& payload) {
  header.length = static_cast<std::uint32_t>(payload.size());
  const block_header_image image = encode(header);
  return std::string{reinterpret_cast<const char*>(image.data()), image.size()} + payload;
}

std::string floats(std::initializer_list<float> xs) {
  return {reinterpret_cast<const char*>(xs.begin()), xs.size() * sizeof(float)};
}

/// Member 0 of 2 in an all_reduce of three floats.
class bench {
public:
  explicit bench(collective_algorithm algorithm = collective_algorithm::exchange) {
    plan_task task;
    task.size = 2;
    task.count = x.size();
    task.algorithm = algorithm;
    plan = make_plan(task);
    links[1].data = &wire;
    data.input = reinterpret_cast<const std::byte*>(x.data());
    data.output = reinterpret_cast<std::byte*>(x.data());
    data.epoch = epoch;
    data.operation = operation;
    data.description = description;
  }

  result<void> run() {
    plan_runner runner{plan, data, links, counters};
    for (int i = 0; i < 10'000 && !runner.done(); ++i)
      if (auto moved = runner.advance(); !moved)
        return moved.error();
    done = runner.done();
    return {};
  }

  std::vector<float> x{1, 2, 3};
  collective_plan plan{};
  operation_data data{};
  scripted_channel wire{};
  std::vector<data_link> links{2};
  collective_counters counters{};
  bool done = false;
};

const block_header right{epoch, operation, description, 0, 12, 0};

} // namespace

TEST_CASE("blocks: a stale one is read and dropped, wherever the channel cuts") {
  for (const std::size_t step :
       {std::size_t{1}, std::size_t{5}, std::size_t{33}, std::size_t{4096}})
    for (const std::size_t stale_bytes : {0, 4, 11, 12, 13, 3000}) {
      CAPTURE(step);
      CAPTURE(stale_bytes);
      bench b;
      block_header stale = right;
      stale.epoch = epoch - 1;
      block_header later = right;
      later.epoch = epoch + 1;
      b.wire.incoming = block(stale, std::string(stale_bytes, 'x')) + block(later, "yy")
                        + block(right, floats({10, 20, 30})) + "next";
      b.wire.chunk = [step] { return step; };
      REQUIRE(b.run());
      CHECK(b.done);
      CHECK(b.x == std::vector<float>{11, 22, 33});
      CHECK(b.counters.blocks_stale == 2);
      CHECK(b.counters.blocks_refused == 0);
      CHECK(b.counters.blocks_received == 1);
      const std::string sent = block(right, floats({1, 2, 3}));
      CHECK(b.wire.outgoing == sent);
      // What lies behind the operation is left, in the channel or put by.
      const data_link& link = b.links[1];
      CHECK(b.wire.incoming.substr(b.wire.read_at).size()
              + (link.pushed_back.size() - link.pushed_back_at)
            == 4);
    }
}

TEST_CASE("blocks: another operation is a mismatch, anything else malformed, and both count") {
  const auto outcome = [](const block_header& header, const std::string& payload) {
    bench b;
    b.wire.incoming = block(header, payload) + std::string(4096, 'z');
    auto ended = b.run();
    CHECK(!ended);
    CHECK(!b.done);
    CHECK(b.counters.blocks_refused == 1);
    return ended ? errc::none : ended.error().code;
  };
  block_header header = right;
  header.description = 78;
  CHECK(outcome(header, floats({1, 2, 3})) == errc::mismatch);
  header = right;
  header.operation = 10;
  CHECK(outcome(header, floats({1, 2, 3})) == errc::mismatch);
  header = right;
  header.segment = 1;
  CHECK(outcome(header, floats({1, 2, 3})) == errc::bad_frame);
  CHECK(outcome(right, floats({1, 2})) == errc::bad_frame);
  CHECK(outcome(right, std::string(block_bytes_max + 1, 'q')) == errc::bad_frame);
  header = right;
  header.offset = 12;
  CHECK(outcome(header, floats({1, 2, 3})) == errc::bad_frame);
  bench noise;
  noise.wire.incoming = std::string(100, '\x5a');
  auto ended = noise.run();
  REQUIRE(!ended);
  CHECK(ended.error().code == errc::bad_frame);
  CHECK(ended.error().text.find("magic") != std::string::npos);
}

TEST_CASE("blocks: random bytes never end an operation as done, nor touch what is not its own") {
  std::uint64_t random = 1;
  for (int round = 0; round < 2000; ++round) {
    bench b{round % 2 == 0 ? collective_algorithm::exchange : collective_algorithm::direct};
    b.wire.incoming = block(right, floats({10, 20, 30}));
    for (int i = 0; i < 3; ++i)
      b.wire.incoming[transport_test::next_random(random) % block_header_bytes] ^=
        static_cast<char>(1 + transport_test::next_random(random) % 255);
    b.wire.incoming.append(2'000'000 * (round % 50 == 0 ? 1 : 0), 'x');
    b.wire.ends = true;
    auto ended = b.run();
    CHECK(!ended);
    CHECK(!b.done);
  }
}

TEST_CASE("blocks: a channel that ends in the middle is the end of the operation") {
  const std::string whole = block(right, floats({10, 20, 30}));
  for (std::size_t cut = 0; cut < whole.size(); ++cut) {
    bench b;
    b.wire.incoming = whole.substr(0, cut);
    b.wire.ends = true;
    auto ended = b.run();
    REQUIRE(!ended);
    CHECK(ended.error().code == errc::connection_lost);
  }
}
