#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <utility>

#include <troupe/troupe.hpp>

#include "detail/bench.hpp"
#include "detail/collective_cells.hpp"

/// One call of a collective operation as any contender understands it, and what must come of it.
namespace bench {

/// Vectors of floats of one member. An all_reduce, a broadcast and a reduce are in place
/// (`out == in`); the others read `in` and write `out`.
struct job {
  tr::collective_kind kind = tr::collective_kind::barrier;
  std::uint32_t n = 2;
  std::uint32_t rank = 0;
  std::size_t count = 0; ///< of the whole vector; `n` divides it
  float* in = nullptr;
  float* out = nullptr;
  std::uint32_t root = 0;

  std::size_t part() const { return count / n; }
  bool is_root() const { return rank == root; }
  bool collects() const {
    return kind == tr::collective_kind::all_gather || kind == tr::collective_kind::gather;
  }
  std::size_t in_count() const { return collects() ? part() : count; }
  std::size_t out_count() const {
    if (kind == tr::collective_kind::reduce_scatter)
      return part();
    const bool at_root = kind == tr::collective_kind::reduce || kind == tr::collective_kind::gather;
    return at_root && !is_root() ? 0 : count;
  }
  job with_root(std::uint32_t to) const {
    job other = *this;
    other.root = to;
    return other;
  }
};

/// Somebody who does such operations.
struct contender {
  std::string name{};
  std::function<void(const job&)> run{};
  float* in = nullptr; ///< the vector that it reads
  float* out = nullptr;
};

/// Ours: the call of the member that the job is of.
inline void do_job(tr::collective_group& group, const job& j, const tr::collective_options& options,
                   tr::tensor& in, tr::tensor& out) {
  const tr::reduction sum{tr::reduce_op::sum};
  switch (j.kind) {
    case tr::collective_kind::all_reduce:
      group.all_reduce(in, sum, options).value_or_throw();
      break;
    case tr::collective_kind::reduce_scatter:
      group.reduce_scatter(in, out, sum, options).value_or_throw();
      break;
    case tr::collective_kind::all_gather:
      group.all_gather(in, out, {}, options).value_or_throw();
      break;
    case tr::collective_kind::broadcast:
      group.broadcast(in, j.root, options).value_or_throw();
      break;
    case tr::collective_kind::reduce:
      group.reduce(in, j.root, sum, options).value_or_throw();
      break;
    case tr::collective_kind::gather:
      group.gather(in, out, j.root, {}, options).value_or_throw();
      break;
    case tr::collective_kind::barrier: group.barrier(options).value_or_throw(); break;
  }
}

// --- checks. Values and their sums are exact in f32, so that every order has the same bits.

inline float given_value(std::size_t i, std::uint32_t rank) {
  const std::uint32_t mixed = static_cast<std::uint32_t>(i) * 2654435761u + rank * 2246822519u;
  return static_cast<float>(mixed >> 22) / 8; // upper bits: a fast way to scattered numbers
}

inline void fill(const job& j) {
  for (std::size_t i = 0; i < j.in_count(); ++i)
    j.in[i] = given_value(i, j.rank);
}

/// Element i of what the member must have in the end.
inline float expected_value(const job& j, std::size_t i) {
  using k = tr::collective_kind;
  if (j.collects())
    return given_value(i % j.part(), static_cast<std::uint32_t>(i / j.part()));
  if (j.kind == k::broadcast)
    return given_value(i, j.root);
  if (j.kind == k::reduce_scatter)
    i += j.rank * j.part();
  float sum = 0;
  for (std::uint32_t r = 0; r < j.n; ++r)
    sum += given_value(i, r);
  return sum;
}

/// Empty, or what is wrong with the member's result. `error_max` 0: the same bits.
inline std::string check_result(const std::string& who, const job& j, double error_max) {
  for (std::size_t i = 0; i < j.out_count(); ++i) {
    const float expected = expected_value(j, i);
    const bool same = std::memcmp(&expected, j.out + i, sizeof expected) == 0;
    if (!same && !(std::abs(expected - j.out[i]) < error_max))
      return who + ": element " + std::to_string(i) + " of member " + std::to_string(j.rank)
             + " is " + number(j.out[i]) + ", not " + number(expected) + "; ";
  }
  return {};
}

/// Of the member's result: equal numbers for equal bits.
inline std::uint64_t hash_result(const job& j) {
  std::uint64_t hash = 1469598103934665603ull;
  for (std::size_t i = 0; i < j.out_count(); ++i) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, j.out + i, sizeof bits);
    hash = (hash ^ bits) * 1099511628211ull;
  }
  return hash;
}

/// Whether all members end with the same.
inline bool is_shared(tr::collective_kind kind) {
  using k = tr::collective_kind;
  return kind == k::all_reduce || kind == k::all_gather || kind == k::broadcast;
}

} // namespace bench
