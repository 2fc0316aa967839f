#include <doctest/doctest.h>

#include <mutex>
#include <string>

#include "collective_support.hpp"

// Goal: a mean is between its elements, however near they are to the end of their type, whatever
// the carrier, the order and the operation. Method: threads; equal elements, whose mean they are.
namespace {

using namespace collective_test;

class findings {
public:
  template <class F>
  void check(const result<void>& ok, F holds, const std::string& what) {
    if (ok && holds())
      return;
    const std::lock_guard lock{mutex_};
    text_ += what + (ok ? ": wrong\n" : ": " + ok.error().text + "\n");
  }
  std::string text() const { return text_; }

private:
  std::mutex mutex_{};
  std::string text_{};
};

/// The type's largest value, or near it; exact.
double largest(dtype type) {
  switch (type) {
    case dtype::u8: return 255;
    case dtype::i8: return 127;
    case dtype::i32: return 2147483647.0;
    case dtype::i64: return 0x1p62;
    case dtype::f16: return 65504;
    case dtype::bf16: return 0x1.8p127;
    default: return 1000;
  }
}

/// The mean of equal elements near the type's end, by each operation that forms one.
void means_at_the_end(std::uint32_t rank, collective_group& group, const collective_options& how,
                      findings& wrong) {
  const std::uint32_t n = group.size();
  for (const dtype type : all_types)
    for (const std::size_t count : {std::size_t{3}, std::size_t{20'000}}) {
      const std::string what = to_string(type) + " " + std::to_string(count);
      const auto full = [&](std::size_t len) {
        return make_tensor(type, len, [&](std::size_t) { return largest(type); });
      };
      tensor x = full(count);
      wrong.check(
        group.all_reduce(x, reduce_op::mean, how), [&] { return x == full(count); },
        "all_reduce " + what);
      const std::size_t own = segment_begin(count, n, rank + 1) - segment_begin(count, n, rank);
      tensor part = zeros(type, own);
      wrong.check(
        group.reduce_scatter(full(count), part, reduce_op::mean, how),
        [&] { return part == full(own); }, "reduce_scatter " + what);
      tensor y = full(count);
      wrong.check(
        group.reduce(y, n - 1, reduce_op::mean, how), [&] { return y == full(count); },
        "reduce " + what);
    }
}

} // namespace

TEST_CASE("collectives: the i64 mean of 2^62 and 2^62 was negative, on every carrier and order") {
  for (const carrier by : all_carriers)
    for (const std::uint32_t n : {2u, 3u, 4u}) {
      CAPTURE(name_of(by));
      CAPTURE(n);
      test_group group{by, n};
      findings wrong;
      group.each([&](std::uint32_t rank, collective_group& g) {
        means_at_the_end(rank, g, {}, wrong);
        means_at_the_end(rank, g, {.order = reduction_order::fixed}, wrong);
      });
      CHECK(wrong.text() == "");
    }
}

TEST_CASE("collectives: a mean of a narrow type is not sent round as partial sums") {
  test_group group{carrier::memory, 4};
  using a = collective_algorithm;
  for (const a algorithm : {a::ring, a::recursive_doubling, a::halving_doubling})
    for (const auto& ok : group.collect([&](std::uint32_t, collective_group& g) {
           tensor x = tensor::zeros(dtype::i64, {4});
           collective_options how;
           how.algorithm = algorithm;
           return g.all_reduce(x, reduce_op::mean, how);
         })) {
      REQUIRE(!ok);
      CHECK(ok.error().code == errc::invalid_argument);
      CHECK(ok.error().text.find(to_string(algorithm)) != std::string::npos);
    }
}
