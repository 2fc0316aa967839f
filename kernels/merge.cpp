#include <troupe/kernels/detail/strict_math.hpp>

#include <troupe/kernels/merge.hpp>

#include <troupe/kernels/casts.hpp>
#include <troupe/kernels/detail/bf16.hpp>
#include <troupe/kernels/detail/scalar_ops.hpp>

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace troupe::kernels {

namespace {

// Elements that are worked on at once: what is between two sources stays in the first-level cache.
constexpr std::size_t block_len = 1024;

struct sum_of {
  template <class T>
  T operator()(T a, T b) const {
    return detail::add_one(a, b);
  }
};
struct min_of {
  template <class T>
  T operator()(T a, T b) const {
    return detail::min_one(a, b);
  }
};
struct max_of {
  template <class T>
  T operator()(T a, T b) const {
    return detail::max_one(a, b);
  }
};
struct prod_of {
  template <class T>
  T operator()(T a, T b) const {
    return detail::mul_one(a, b);
  }
};

template <class T, class Op>
void apply(Op op, const T* a, const T* b, T* out, std::size_t n) {
  TROUPE_INDEPENDENT_LOOP
  for (std::size_t i = 0; i < n; ++i)
    out[i] = op(a[i], b[i]);
}

template <class T, class Op>
void apply(Op op, const T* a, const T* b, T* out, T* other, std::size_t n) {
  TROUPE_INDEPENDENT_LOOP
  for (std::size_t i = 0; i < n; ++i) {
    const T x = op(a[i], b[i]);
    out[i] = x;
    other[i] = x;
  }
}

template <class T>
void divide(T* x, std::int64_t by, std::size_t n) {
  if constexpr (std::is_integral_v<T>) {
    for (std::size_t i = 0; i < n; ++i) // in the wide type: a count of members may not fit T
      x[i] = static_cast<T>(detail::div_one(static_cast<std::int64_t>(x[i]), by));
  } else {
    const T divisor = static_cast<T>(by);
    TROUPE_INDEPENDENT_LOOP
    for (std::size_t i = 0; i < n; ++i)
      x[i] = x[i] / divisor;
  }
}

__extension__ typedef __int128 widest_int;

// What sums of T are formed in where they are to be divided: no number of members makes them wrap.
template <class T>
using total_t = std::conditional_t<sizeof(T) == 8, widest_int, std::int64_t>;

// The mean of integers, narrowed again once it is divided.
template <class T>
void mean_of_integers(const merge_spec& spec, std::span<const merge_source> sources,
                      std::span<std::byte* const> outs, std::size_t count) {
  constexpr std::size_t len_max = 256;
  total_t<T> totals[len_max];
  T cells[len_max];
  for (std::size_t at = 0; at < count; at += len_max) {
    const std::size_t n = std::min(len_max, count - at);
    std::fill_n(totals, n, total_t<T>{0});
    for (const merge_source& source : sources) {
      const T* from = reinterpret_cast<const T*>(source.data) + at;
      for (std::size_t i = 0; i < n; ++i)
        totals[i] += from[i];
    }
    for (std::size_t i = 0; i < n; ++i)
      cells[i] = static_cast<T>(spec.divide_by == 0 ? 0 : totals[i] / spec.divide_by);
    for (std::byte* out : outs)
      std::memcpy(reinterpret_cast<T*>(out) + at, cells, n * sizeof(T));
  }
}

// What a bf16 wire makes of two operands, of which at most one was encoded, in one pass.
template <class Op>
void apply_bf16(Op op, const float* a, const float* b, float* out, std::size_t n) {
  TROUPE_INDEPENDENT_LOOP
  for (std::size_t i = 0; i < n; ++i)
    out[i] = detail::round_bf16(op(detail::round_bf16(a[i]), detail::round_bf16(b[i])));
}
template <class Op>
void apply_bf16(Op op, const float* a, const std::uint16_t* b, float* out, std::size_t n) {
  TROUPE_INDEPENDENT_LOOP
  for (std::size_t i = 0; i < n; ++i)
    out[i] = detail::round_bf16(op(detail::round_bf16(a[i]), detail::widen_bf16(b[i])));
}
template <class Op>
void apply_bf16(Op op, const std::uint16_t* a, const float* b, float* out, std::size_t n) {
  TROUPE_INDEPENDENT_LOOP
  for (std::size_t i = 0; i < n; ++i)
    out[i] = detail::round_bf16(op(detail::widen_bf16(a[i]), detail::round_bf16(b[i])));
}

void narrow(encoding to, const float* in, std::uint16_t* out, std::size_t n) {
  if (to == encoding::bf16)
    cast_f32_to_bf16({in, n}, {out, n});
  else
    cast_f32_to_f16({in, n}, {out, n});
}

void widen(encoding from, const std::uint16_t* in, float* out, std::size_t n) {
  if (from == encoding::bf16)
    cast_bf16_to_f32({in, n}, {out, n});
  else
    cast_f16_to_f32({in, n}, {out, n});
}

// A type as it is stored, and the type that is calculated in.
template <class Stored, class Math, encoding Code>
struct element {
  using stored = Stored;
  using math = Math;
  static constexpr encoding code = Code; // of the tensor's own elements
};

template <class E>
class merger {
public:
  using math = typename E::math;

  merger(const merge_spec& spec, std::span<const merge_source> sources,
         std::span<std::byte* const> outs)
    : spec_{spec}, sources_{sources}, outs_{outs} {}

  template <class Op>
  void run(Op op, std::size_t count) {
    if (is_plain_pair()) {
      pair(op, count);
      return;
    }
    if constexpr (std::is_same_v<math, float> && direct)
      if (single_pass(op, count))
        return;
    for (std::size_t at = 0; at < count; at += block_len)
      block(op, at, std::min(block_len, count - at));
  }

private:
  static constexpr bool direct = E::code == encoding::plain;

  bool is_plain_pair() const {
    return direct && sources_.size() == 2 && outs_.size() <= 2 && spec_.divide_by == 1
           && spec_.round == encoding::plain && sources_[0].stored == encoding::plain
           && sources_[1].stored == encoding::plain;
  }

  // The cases of an encoded wire between two members. False: it is none of them.
  template <class Op>
  bool single_pass(Op op, std::size_t count) {
    if (outs_.size() != 1 || spec_.divide_by != 1)
      return false;
    auto* out = reinterpret_cast<float*>(outs_[0]);
    const auto plain = [&](std::size_t i) {
      return reinterpret_cast<const float*>(sources_[i].data);
    };
    const auto bits = [&](std::size_t i) {
      return reinterpret_cast<const std::uint16_t*>(sources_[i].data);
    };
    if (sources_.size() == 1 && sources_[0].stored != encoding::plain
        && spec_.round == encoding::plain) {
      widen(sources_[0].stored, bits(0), out, count);
      return true;
    }
    if (sources_.size() != 2 || spec_.round != encoding::bf16)
      return false;
    const bool left = sources_[0].stored == encoding::bf16;
    const bool right = sources_[1].stored == encoding::bf16;
    if (left && right)
      return false;
    if (left)
      apply_bf16(op, bits(0), plain(1), out, count);
    else if (right)
      apply_bf16(op, plain(0), bits(1), out, count);
    else
      apply_bf16(op, plain(0), plain(1), out, count);
    return true;
  }

  template <class Op>
  void pair(Op op, std::size_t count) {
    const auto* a = reinterpret_cast<const math*>(sources_[0].data);
    const auto* b = reinterpret_cast<const math*>(sources_[1].data);
    auto* out = reinterpret_cast<math*>(outs_[0]);
    if (outs_.size() == 1)
      apply(op, a, b, out, count);
    else
      apply(op, a, b, out, reinterpret_cast<math*>(outs_[1]), count);
  }

  template <class Op>
  void block(Op op, std::size_t at, std::size_t n) {
    const math* left = load(sources_[0], at, n, first_);
    for (std::size_t i = 1; i < sources_.size(); ++i) {
      const math* right = load(sources_[i], at, n, next_);
      apply(op, left, right, sum_, n);
      left = sum_;
    }
    if (spec_.divide_by != 1) {
      if (left != sum_)
        std::memcpy(sum_, left, n * sizeof(math));
      divide(sum_, spec_.divide_by, n);
      left = sum_;
    }
    store(left, at, n);
  }

  // The elements as they are calculated with: where they lie, or in `to`.
  const math* load(const merge_source& source, std::size_t at, std::size_t n, math* to) {
    if constexpr (std::is_same_v<math, float>) {
      const encoding stored = source.stored == encoding::plain ? E::code : source.stored;
      if (stored != encoding::plain) {
        widen(stored, reinterpret_cast<const std::uint16_t*>(source.data) + at, to, n);
        return to;
      }
      if (spec_.round != encoding::plain) {
        narrow(spec_.round, reinterpret_cast<const float*>(source.data) + at, bits_, n);
        widen(spec_.round, bits_, to, n);
        return to;
      }
    }
    return reinterpret_cast<const math*>(source.data) + at;
  }

  void store(const math* from, std::size_t at, std::size_t n) {
    using stored = typename E::stored;
    const auto* cells = reinterpret_cast<const stored*>(from);
    if constexpr (!direct) {
      narrow(E::code, from, bits_, n);
      cells = bits_;
    } else if constexpr (std::is_same_v<math, float>) {
      if (spec_.round != encoding::plain) {
        narrow(spec_.round, from, bits_, n);
        widen(spec_.round, bits_, sum_, n);
        cells = sum_;
      }
    }
    for (std::byte* out : outs_)
      if (stored* to = reinterpret_cast<stored*>(out) + at; to != cells)
        std::memcpy(to, cells, n * sizeof(stored));
  }

  const merge_spec& spec_;
  std::span<const merge_source> sources_;
  std::span<std::byte* const> outs_;
  alignas(64) math first_[block_len];
  alignas(64) math next_[block_len];
  alignas(64) math sum_[block_len];
  alignas(64) std::uint16_t bits_[block_len];
};

// The mean of bf16, whose sum may be out of f32's range.
void mean_of_bf16(const merge_spec& spec, std::span<const merge_source> sources,
                  std::span<std::byte* const> outs, std::size_t count) {
  constexpr std::size_t len_max = 256;
  double totals[len_max];
  float wide[len_max];
  std::uint16_t cells[len_max];
  for (std::size_t at = 0; at < count; at += len_max) {
    const std::size_t n = std::min(len_max, count - at);
    std::fill_n(totals, n, 0.0);
    for (const merge_source& source : sources) {
      widen(encoding::bf16, reinterpret_cast<const std::uint16_t*>(source.data) + at, wide, n);
      for (std::size_t i = 0; i < n; ++i)
        totals[i] += wide[i];
    }
    for (std::size_t i = 0; i < n; ++i)
      wide[i] = static_cast<float>(totals[i] / static_cast<double>(spec.divide_by));
    narrow(encoding::bf16, wide, cells, n);
    for (std::byte* out : outs)
      std::memcpy(reinterpret_cast<std::uint16_t*>(out) + at, cells, n * sizeof(cells[0]));
  }
}

template <class E>
void merge_as(const merge_spec& spec, std::span<const merge_source> sources,
              std::span<std::byte* const> outs, std::size_t count) {
  using stored [[maybe_unused]] = typename E::stored;
  if constexpr (std::is_integral_v<typename E::math>)
    if (spec.op == merge_op::sum && spec.divide_by != 1)
      return mean_of_integers<stored>(spec, sources, outs, count);
  if constexpr (E::code == encoding::bf16)
    if (spec.op == merge_op::sum && spec.divide_by != 1)
      return mean_of_bf16(spec, sources, outs, count);
  merger<E> m{spec, sources, outs};
  switch (spec.op) {
    case merge_op::sum: m.run(sum_of{}, count); break;
    case merge_op::min: m.run(min_of{}, count); break;
    case merge_op::max: m.run(max_of{}, count); break;
    case merge_op::prod: m.run(prod_of{}, count); break;
  }
}

} // namespace

std::size_t size_of(dtype type, encoding as) {
  return as == encoding::plain ? troupe::size_of(type) : sizeof(std::uint16_t);
}

void merge(const merge_spec& spec, std::span<const merge_source> sources,
           std::span<std::byte* const> outs, std::size_t count) {
  constexpr encoding plain = encoding::plain;
  switch (spec.type) {
    case dtype::u8:
      merge_as<element<std::uint8_t, std::uint8_t, plain>>(spec, sources, outs, count);
      break;
    case dtype::i8:
      merge_as<element<std::int8_t, std::int8_t, plain>>(spec, sources, outs, count);
      break;
    case dtype::i32:
      merge_as<element<std::int32_t, std::int32_t, plain>>(spec, sources, outs, count);
      break;
    case dtype::i64:
      merge_as<element<std::int64_t, std::int64_t, plain>>(spec, sources, outs, count);
      break;
    case dtype::f16:
      merge_as<element<std::uint16_t, float, encoding::f16>>(spec, sources, outs, count);
      break;
    case dtype::bf16:
      merge_as<element<std::uint16_t, float, encoding::bf16>>(spec, sources, outs, count);
      break;
    case dtype::f32: merge_as<element<float, float, plain>>(spec, sources, outs, count); break;
    case dtype::f64: merge_as<element<double, double, plain>>(spec, sources, outs, count); break;
  }
}

void encode(encoding to, const std::byte* in, std::byte* out, std::size_t count) {
  narrow(to, reinterpret_cast<const float*>(in), reinterpret_cast<std::uint16_t*>(out), count);
}

} // namespace troupe::kernels
