#include <troupe/kernels/merge.hpp>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <troupe/kernels/casts.hpp>

// Goal: merging is one element after the other in the order of the sources, whatever the type, the
// way of storing and the number of elements. Method: against a loop of single steps.
namespace {

using namespace troupe;
using namespace troupe::kernels;

template <class T>
const std::byte* bytes(const std::vector<T>& x) {
  return reinterpret_cast<const std::byte*>(x.data());
}

template <class T>
std::vector<T> merged(const merge_spec& spec, const std::vector<std::vector<T>>& in) {
  std::vector<T> out(in[0].size());
  std::vector<merge_source> sources;
  for (const auto& x : in)
    sources.push_back({bytes(x)});
  std::byte* const to = reinterpret_cast<std::byte*>(out.data());
  merge(spec, sources, {&to, 1}, out.size());
  return out;
}

float noise(std::size_t source, std::size_t i) {
  return (static_cast<float>((i * 2654435761u + source * 40503u) % 100003) - 5e4f) / 37.0f;
}

} // namespace

TEST_CASE("merge: floats are added in the order of the sources, at any length") {
  for (const std::size_t n : {1, 2, 3, 4, 7})
    for (const std::size_t count : {0, 1, 15, 1024, 1025, 5000}) {
      std::vector<std::vector<float>> in(n, std::vector<float>(count));
      for (std::size_t s = 0; s < n; ++s)
        for (std::size_t i = 0; i < count; ++i)
          in[s][i] = noise(s, i);
      const auto out = merged({}, in);
      for (std::size_t i = 0; i < count; ++i) {
        volatile float sum = in[0][i];
        for (std::size_t s = 1; s < n; ++s)
          sum = sum + in[s][i];
        REQUIRE(out[i] == sum);
      }
    }
}

TEST_CASE("merge: in place, and into several outs") {
  std::vector<float> a{1, 2, 3};
  std::vector<float> b{10, 20, 30};
  std::vector<float> c{100, 200, 300};
  const std::vector<merge_source> sources{{bytes(a)}, {bytes(b)}, {bytes(c)}};
  const std::vector<std::byte*> outs{reinterpret_cast<std::byte*>(b.data()),
                                     reinterpret_cast<std::byte*>(c.data()),
                                     reinterpret_cast<std::byte*>(a.data())};
  merge({}, sources, outs, 3);
  CHECK(a == std::vector<float>{111, 222, 333});
  CHECK(b == a);
  CHECK(c == a);
  const std::vector<merge_source> two{{bytes(a)}, {bytes(b)}};
  merge({}, two, std::span{outs}.last(2), 3);
  CHECK(a == std::vector<float>{222, 444, 666});
  CHECK(c == a);
}

TEST_CASE("merge: integers wrap, and a mean drops the fraction") {
  const merge_spec bytes_sum{merge_op::sum, dtype::u8};
  CHECK(merged<std::uint8_t>(bytes_sum, {{250}, {10}}) == std::vector<std::uint8_t>{4});
  const merge_spec wrap{merge_op::prod, dtype::i32};
  CHECK(merged<std::int32_t>(wrap, {{1 << 30}, {4}}) == std::vector<std::int32_t>{0});
  const merge_spec mean{merge_op::sum, dtype::i64, 3};
  CHECK(merged<std::int64_t>(mean, {{-4}, {-2}, {-2}}) == std::vector<std::int64_t>{-2});
  const merge_spec many{merge_op::sum, dtype::i8, 300};
  CHECK(merged<std::int8_t>(many, {{100}, {20}}) == std::vector<std::int8_t>{0});
}

namespace {

/// Means of n equal elements at both ends of the type.
template <class T>
void check_ends(dtype type) {
  using limits = std::numeric_limits<T>;
  for (const std::size_t n : {2u, 3u, 7u})
    for (const std::size_t count : {1u, 255u, 256u, 1025u}) {
      const merge_spec mean{merge_op::sum, type, static_cast<std::int64_t>(n)};
      for (const T x : {limits::max(), limits::lowest(), static_cast<T>(limits::max() / 2 + 1)}) {
        const std::vector<std::vector<T>> in(n, std::vector<T>(count, x));
        CHECK(merged<T>(mean, in) == in[0]);
      }
      // In place, and the fraction dropped towards 0.
      std::vector<T> a(count, limits::max()), b(count, static_cast<T>(limits::max() - 1));
      const std::vector<merge_source> sources{{bytes(a)}, {bytes(b)}};
      const std::vector<std::byte*> outs{reinterpret_cast<std::byte*>(b.data()),
                                         reinterpret_cast<std::byte*>(a.data())};
      merge({merge_op::sum, type, 2}, sources, outs, count);
      CHECK(a == std::vector<T>(count, static_cast<T>(limits::max() - 1)));
      CHECK(b == a);
    }
}

} // namespace

TEST_CASE(
  "merge: the i64 mean of 2^62 and 2^62 was negative: a mean's sum is wider than its type") {
  const merge_spec mean{merge_op::sum, dtype::i64, 2};
  const std::int64_t huge = std::int64_t{1} << 62;
  CHECK(merged<std::int64_t>(mean, {{huge}, {huge}}) == std::vector<std::int64_t>{huge});
  check_ends<std::uint8_t>(dtype::u8);
  check_ends<std::int8_t>(dtype::i8);
  check_ends<std::int32_t>(dtype::i32);
  check_ends<std::int64_t>(dtype::i64);
  const auto largest = f16_from_f32(65504);
  CHECK(merged<std::uint16_t>({merge_op::sum, dtype::f16, 3}, {{largest}, {largest}, {largest}})
        == std::vector<std::uint16_t>{largest});
  const auto brain = bf16_from_f32(0x1.8p127f);
  CHECK(merged<std::uint16_t>({merge_op::sum, dtype::bf16, 3}, {{brain}, {brain}, {brain}})
        == std::vector<std::uint16_t>{brain});
}

TEST_CASE("merge: min and max let a NaN through from either side") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const merge_op op : {merge_op::min, merge_op::max}) {
    const merge_spec spec{op, dtype::f64};
    const auto out = merged<double>(spec, {{nan, 1, 5}, {1, nan, 3}});
    CHECK(std::isnan(out[0]));
    CHECK(std::isnan(out[1]));
    CHECK(out[2] == (op == merge_op::min ? 3 : 5));
  }
}

TEST_CASE("merge: 16-bit floats are summed as floats and rounded once") {
  const auto half = [](float x) { return f16_from_f32(x); };
  // 2048 + 1 + 1: rounded after each step it would stay 2048.
  const merge_spec spec{merge_op::sum, dtype::f16};
  CHECK(merged<std::uint16_t>(spec, {{half(2048)}, {half(1)}, {half(1)}})
        == std::vector<std::uint16_t>{half(2050)});
  const auto brain = [](float x) { return bf16_from_f32(x); };
  const merge_spec mean{merge_op::sum, dtype::bf16, 2};
  CHECK(merged<std::uint16_t>(mean, {{brain(3)}, {brain(4)}})
        == std::vector<std::uint16_t>{brain(3.5f)});
}

TEST_CASE("merge: an encoded source counts as a plain one that is rounded") {
  for (const encoding wire : {encoding::bf16, encoding::f16}) {
    const std::size_t count = 3000;
    std::vector<float> a(count);
    std::vector<float> b(count);
    for (std::size_t i = 0; i < count; ++i) {
      a[i] = noise(0, i);
      b[i] = noise(1, i);
    }
    std::vector<std::uint16_t> sent(count);
    encode(wire, bytes(b), reinterpret_cast<std::byte*>(sent.data()), count);
    merge_spec spec;
    spec.round = wire;
    const auto plain = merged<float>(spec, {a, b});
    std::vector<float> out(count);
    std::byte* const to = reinterpret_cast<std::byte*>(out.data());
    const std::vector<merge_source> sources{{bytes(a)}, {bytes(sent), wire}};
    merge(spec, sources, {&to, 1}, count);
    CHECK(out == plain);
    // The result is what the wire can carry.
    std::vector<std::uint16_t> again(count);
    encode(wire, bytes(out), reinterpret_cast<std::byte*>(again.data()), count);
    const std::vector<merge_source> one{{bytes(again), wire}};
    merge({}, one, {&to, 1}, count);
    CHECK(out == plain);
  }
}
