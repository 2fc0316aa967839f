#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <troupe/core/environment.hpp>
#include <troupe/core/tensor.hpp>
#include <troupe/strategies/replicas/strategy.hpp>

namespace troupe {

namespace detail {
struct generator_state;
}

/// Random numbers that follow a strategy. Counter-based (Philox4x32-10): a number depends on the
/// seed, on the stream that draws, and on how many numbers that stream has drawn before, never on
/// timing. A handle; copies share one state. Any thread.
///
/// A generator made in a strategy's scope has a stream and a counter for each replica, and another
/// of both for cross-replica context. A draw in cross-replica context moves all counters by the
/// same amount; a replica's draw moves the replica's counter alone. Workers therefore draw the same
/// numbers in cross-replica context, however much their replicas drew. A generator made outside a
/// scope has one stream, from which all replicas draw in turn.
///
/// Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011;
/// tf.random.Generator.
class random_generator {
public:
  /// A generator with this seed, the same on all workers.
  explicit random_generator(std::uint64_t seed);
  /// A generator with a fresh seed; over several workers all of them take the first worker's and
  /// wait for it.
  explicit random_generator(const environment& env);

  std::uint64_t seed() const;

  // Draws. Types and bounds that don't fit are `invalid_argument` naming the field and the value;
  // a generator of another strategy than the active one is `wrong_state`.

  /// f32 or f64 uniform in [low, high).
  tensor uniform(const shape_t& shape, double low = 0, double high = 1, dtype type = dtype::f32);
  /// i32 or i64 uniform in [low, high), without bias.
  tensor uniform_int(const shape_t& shape, std::int64_t low, std::int64_t high,
                     dtype type = dtype::i64);
  /// f32 or f64, normal.
  tensor normal(const shape_t& shape, double mean = 0, double stddev = 1, dtype type = dtype::f32);
  /// f32 or f64, normal, drawn again beyond two deviations.
  tensor truncated_normal(const shape_t& shape, double mean = 0, double stddev = 1,
                          dtype type = dtype::f32);
  /// Passes over what `numbers` draws of f32 would use.
  void skip(std::uint64_t numbers);
  /// n generators with streams of their own, each like one made outside: for replicas, as a
  /// `per_replica`. Moves this one on.
  std::vector<random_generator> split(std::size_t n);

  /// The state, i64 [2 + replicas]: the seed, the counter of cross-replica context, then that of
  /// each replica of the strategy, in order of all workers, who all call it. In cross-replica
  /// context. Made outside: one counter, twice.
  tensor saved_value() const;
  /// Takes back the state of a generator of any number of replicas: replica i continues replica i's
  /// stream; replicas that were not there start at the largest counter; cross-replica context, and
  /// a generator made outside a scope, continue the counter of cross-replica context.
  /// `invalid_argument` for what is not a whole state.
  void restore_value(const tensor& value);

private:
  explicit random_generator(std::shared_ptr<detail::generator_state> state)
    : state_{std::move(state)} {}
  tensor normals(const char* what, bool truncated, const shape_t& shape, double mean, double stddev,
                 dtype type);
  std::shared_ptr<detail::generator_state> state_;
};

} // namespace troupe
