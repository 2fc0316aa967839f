#include <troupe/kernels/detail/strict_math.hpp>

#include <troupe/kernels/random_init.hpp>

#include <troupe/kernels/detail/check.hpp>
#include <troupe/kernels/detail/portable_math.hpp>
#include <troupe/kernels/hash.hpp>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <type_traits>

namespace troupe::kernels {

namespace {

using block = std::array<double, 4>;

constexpr double unit = 1.0 / 4294967296.0; // 2^-32

/// Standard deviation of a standard normal cut off at +-2.
constexpr double truncated_deviation = 0.87962566103423978;

constexpr std::uint32_t attempts_max = 1000; // one more with probability 0.0455: never reached

class word_source {
public:
  word_source(std::string_view name, std::uint64_t seed) {
    const std::uint64_t key = hash64_text(name, seed);
    key_ = {static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)};
  }

  std::array<std::uint32_t, 4> words(std::uint64_t block_no, std::uint32_t attempt) const {
    return philox4x32_10({static_cast<std::uint32_t>(block_no),
                          static_cast<std::uint32_t>(block_no >> 32), attempt, 0},
                         key_);
  }

private:
  std::array<std::uint32_t, 2> key_{};
};

/// Four standard normals: two pairs of Box and Muller.
block standard_normals(const std::array<std::uint32_t, 4>& words) {
  block out{};
  for (std::size_t pair = 0; pair < 4; pair += 2) {
    const double u = (words[pair] + 1.0) * unit; // in (0, 1]
    const double radius = std::sqrt(-2.0 * detail::portable_log(u));
    const auto [sine, cosine] = detail::portable_sincos(words[pair + 1] * unit);
    out[pair] = radius * cosine;
    out[pair + 1] = radius * sine;
  }
  return out;
}

block uniforms(const word_source& source, std::uint64_t block_no) {
  const auto words = source.words(block_no, 0);
  return {words[0] * unit, words[1] * unit, words[2] * unit, words[3] * unit};
}

block truncated_normals(const word_source& source, std::uint64_t block_no) {
  block out = standard_normals(source.words(block_no, 0));
  auto outside = [](double z) { return z < -2.0 || z > 2.0; };
  std::uint32_t attempt = 1;
  while (outside(out[0]) || outside(out[1]) || outside(out[2]) || outside(out[3])) {
    const block again = standard_normals(source.words(block_no, attempt));
    for (std::size_t i = 0; i < 4; ++i) // each element on its own: the first attempt that fits
      if (outside(out[i]))
        out[i] = again[i];
    if (++attempt == attempts_max)
      throw std::logic_error("kernels::fill_rows: the generator gives no value within 2");
  }
  return out;
}

/// Writes f(standard value) for elements [begin, begin + out.size()) with `standard` giving a block
/// of four of them.
template <class T, class Standard, class F>
void fill_random(std::uint64_t begin, std::span<T> out, Standard standard, F f) {
  std::size_t i = 0;
  while (i < out.size()) {
    const std::uint64_t element = begin + i;
    const block values = standard(element / 4);
    for (std::size_t lane = element % 4; lane < 4 && i < out.size(); ++lane, ++i)
      out[i] = f(values[lane]);
  }
}

template <class T>
void fill_uniform(const word_source& source, std::uint64_t begin, std::span<T> out, double low,
                  double high) {
  const T bound = static_cast<T>(high);
  const T last = std::nextafter(bound, static_cast<T>(low));
  fill_random(
    begin, out, [&](std::uint64_t block_no) { return uniforms(source, block_no); },
    [=](double u) {
      const T x = static_cast<T>(low + u * (high - low));
      return x < bound ? x : last; // rounding to T may reach the open end
    });
}

template <class T>
void fill_truncated(const word_source& source, std::uint64_t begin, std::span<T> out, double mean,
                    double deviation) {
  fill_random(
    begin, out, [&](std::uint64_t block_no) { return truncated_normals(source, block_no); },
    [=](double z) { return static_cast<T>(mean + deviation * z); });
}

template <class T>
void fill_floats(const initializer_spec& spec, const word_source& source, const row_shape& shape,
                 std::uint64_t begin, std::span<T> out) {
  const double fan_in = static_cast<double>(spec.fan_in != 0 ? spec.fan_in : shape.rows);
  const double fan_out = static_cast<double>(spec.fan_out != 0 ? spec.fan_out : shape.cols);
  switch (spec.kind) {
    case initializer_kind::uniform: return fill_uniform(source, begin, out, spec.a, spec.b);
    case initializer_kind::normal:
      return fill_random(
        begin, out,
        [&](std::uint64_t block_no) { return standard_normals(source.words(block_no, 0)); },
        [a = spec.a, b = spec.b](double z) { return static_cast<T>(a + b * z); });
    case initializer_kind::truncated_normal:
      return fill_truncated(source, begin, out, spec.a, spec.b);
    case initializer_kind::glorot_uniform: {
      const double limit = std::sqrt(6.0 / (fan_in + fan_out));
      return fill_uniform(source, begin, out, -limit, limit);
    }
    case initializer_kind::he_normal:
      return fill_truncated(source, begin, out, 0.0, std::sqrt(2.0 / fan_in) / truncated_deviation);
    default: throw std::logic_error("kernels::fill_rows: not a random kind");
  }
}

template <class T>
void fill_equal(std::span<T> out, T value) {
  for (T& x : out)
    x = value;
}

template <class T>
void fill_identity(const row_shape& shape, std::size_t row_begin, std::span<T> out) {
  fill_equal(out, T(0));
  const std::size_t count = out.size() / shape.cols;
  for (std::size_t row = 0; row < count && row_begin + row < shape.cols; ++row)
    out[row * shape.cols + row_begin + row] = T(1);
}

std::string bad_field(const char* field, const std::string& value, const char* expected) {
  return std::string("initializer_spec.") + field + " is " + value + ", expected " + expected;
}

} // namespace

std::array<std::uint32_t, 4> philox4x32_10(std::array<std::uint32_t, 4> counter,
                                           std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t left = std::uint64_t{0xD2511F53u} * counter[0];
    const std::uint64_t right = std::uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<std::uint32_t>(right >> 32) ^ counter[1] ^ key[0],
               static_cast<std::uint32_t>(right),
               static_cast<std::uint32_t>(left >> 32) ^ counter[3] ^ key[1],
               static_cast<std::uint32_t>(left)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

std::optional<std::string> invalid_initializer(const initializer_spec& spec, bool integral) {
  if (spec.kind > initializer_kind::he_normal)
    return bad_field("kind", std::to_string(static_cast<int>(spec.kind)), "0 to 8");
  if (integral && spec.kind > initializer_kind::identity)
    return bad_field("kind", std::to_string(static_cast<int>(spec.kind)),
                     "zeros, ones, constant or identity for integers");
  if (integral && spec.kind == initializer_kind::constant && !(std::fabs(spec.a) < 9.2e18))
    return bad_field("a", std::to_string(spec.a), "a value that fits the integer type");
  if (spec.kind == initializer_kind::uniform
      && !(spec.a < spec.b && std::isfinite(spec.b - spec.a)))
    return bad_field("b", std::to_string(spec.b),
                     ("more than a = " + std::to_string(spec.a) + ", both finite").c_str());
  if (spec.kind == initializer_kind::normal || spec.kind == initializer_kind::truncated_normal) {
    if (!std::isfinite(spec.a))
      return bad_field("a", std::to_string(spec.a), "a finite mean");
    if (!(spec.b >= 0) || !std::isfinite(spec.b))
      return bad_field("b", std::to_string(spec.b), "a finite standard deviation of at least 0");
  }
  return std::nullopt;
}

template <class T>
void fill_rows(const initializer_spec& spec, std::string_view name, const row_shape& shape,
               std::size_t row_begin, std::span<T> out) {
  if (const auto why = invalid_initializer(spec, std::is_integral_v<T>))
    throw std::invalid_argument("kernels::fill_rows: " + *why);
  if (shape.cols == 0) {
    detail::expect_size("fill_rows", "out.size()", out.size(), 0);
    return;
  }
  detail::expect_size("fill_rows", "out.size() % cols", out.size() % shape.cols, 0);
  const std::size_t count = out.size() / shape.cols;
  if (row_begin > shape.rows || count > shape.rows - row_begin)
    detail::fail_size("fill_rows", "row_begin + rows of out", row_begin + count, shape.rows);
  switch (spec.kind) {
    case initializer_kind::zeros: return fill_equal(out, T(0));
    case initializer_kind::ones: return fill_equal(out, T(1));
    case initializer_kind::constant: return fill_equal(out, static_cast<T>(spec.a));
    case initializer_kind::identity: return fill_identity(shape, row_begin, out);
    default: break;
  }
  if constexpr (!std::is_integral_v<T>)
    fill_floats(spec, word_source{name, spec.seed}, shape,
                static_cast<std::uint64_t>(row_begin) * shape.cols, out);
}

template void fill_rows<float>(const initializer_spec&, std::string_view, const row_shape&,
                               std::size_t, std::span<float>);
template void fill_rows<double>(const initializer_spec&, std::string_view, const row_shape&,
                                std::size_t, std::span<double>);
template void fill_rows<std::int32_t>(const initializer_spec&, std::string_view, const row_shape&,
                                      std::size_t, std::span<std::int32_t>);
template void fill_rows<std::int64_t>(const initializer_spec&, std::string_view, const row_shape&,
                                      std::size_t, std::span<std::int64_t>);

} // namespace troupe::kernels
