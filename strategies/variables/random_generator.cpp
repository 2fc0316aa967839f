#include <troupe/strategies/variables/random_generator.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <mutex>
#include <utility>

#include <troupe/core/random.hpp>
#include <troupe/kernels/random_init.hpp>
#include <troupe/strategies/replicas/detail/context_stack.hpp>
#include <troupe/strategies/replicas/detail/replica_engine.hpp>

namespace troupe {

namespace detail {

/// Counters are in words of 32 bits, multiples of a block of four.
struct generator_state {
  std::shared_ptr<replica_engine> of{};
  mutable std::mutex mutex{};
  std::uint64_t key = 0;
  /// Of stream 0: cross-replica context's, or all there is when made outside. Replicas' draws don't
  /// move it: all workers have the same.
  std::uint64_t common = 0;
  std::vector<std::uint64_t> counters{}; ///< of the local replicas; `common` when made outside
};

} // namespace detail

namespace {

using detail::context_kind;
using detail::generator_state;

constexpr std::uint64_t block_words = 4;
/// Below 2^62: a counter fits an i64, and no draw passes it in a lifetime.
constexpr std::uint64_t counter_max = std::uint64_t{1} << 62;

/// Whose stream, from where on.
struct drawn_range {
  std::uint64_t key = 0;
  std::uint64_t stream = 0;
  std::uint64_t begin = 0;
};

[[noreturn]] void refuse(const char* what, const std::string& text) {
  throw_failure(errc::invalid_argument, "random_generator: " + std::string{what} + ": " + text);
}

std::size_t elements_of(const char* what, const shape_t& shape, dtype type) {
  if (!is_sane(shape, type))
    refuse(what, "shape is " + to_string(shape) + ", negative or too large");
  return static_cast<std::size_t>(count_of(shape));
}

/// Which replica's counter the caller means; none: the common one.
std::optional<std::size_t> counter_of_caller(const generator_state& state) {
  if (state.of->is_standard())
    return std::nullopt;
  auto* mode = detail::innermost_mode();
  if (!mode)
    return std::nullopt;
  if (mode->strategy != state.of)
    throw_failure(errc::wrong_state,
                  "random_generator: two strategies are mixed: the generator is of "
                    + state.of->text() + ", " + mode->strategy->text() + " is active");
  if (mode->kind == context_kind::replica)
    return mode->replica->replica_id_in_sync_group() - state.of->first_id();
  if (mode->kind == context_kind::update)
    return std::min<std::size_t>(mode->update_index, state.counters.size() - 1);
  return std::nullopt;
}

drawn_range take(generator_state& state, std::uint64_t words) {
  const auto at = counter_of_caller(state);
  const auto step = (words + block_words - 1) / block_words * block_words;
  std::lock_guard lock{state.mutex};
  const auto largest = *std::max_element(state.counters.begin(), state.counters.end());
  if (step > counter_max - std::max(largest, state.common))
    refuse("draw", "the counter would exceed 2^62");
  if (!at) {
    for (auto& each : state.counters)
      each += step;
    return {state.key, 0, std::exchange(state.common, state.common + step)};
  }
  if (auto why = state.of->why_not_in_place(static_cast<std::uint32_t>(*at)))
    throw_failure(std::move(*why));
  const auto begin = std::exchange(state.counters[*at], state.counters[*at] + step);
  return {state.key, state.of->first_id() + *at + 1, begin};
}

/// Word after word of a range.
class word_reader {
public:
  explicit word_reader(const drawn_range& range)
    : key_{derive_seed(range.key, range.stream)}, at_{range.begin} {}

  std::uint32_t word(std::uint64_t i, std::uint32_t attempt = 0) {
    const auto block = (at_ + i) / block_words;
    if (block != block_ || attempt != attempt_) {
      words_ = kernels::philox4x32_10(
        {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), attempt, 0},
        {static_cast<std::uint32_t>(key_), static_cast<std::uint32_t>(key_ >> 32)});
      block_ = block;
      attempt_ = attempt;
    }
    return words_[(at_ + i) % block_words];
  }
  /// Number i of 64 bits.
  std::uint64_t wide(std::uint64_t i, std::uint32_t attempt = 0) {
    const std::uint64_t low = word(2 * i, attempt);
    return low | std::uint64_t{word(2 * i + 1, attempt)} << 32;
  }
  /// Below n, without bias. Source: Lemire 2019.
  std::uint64_t below(std::uint64_t i, std::uint64_t n) {
    __extension__ using product = unsigned __int128;
    for (std::uint32_t attempt = 0;; ++attempt) {
      const auto x = static_cast<product>(wide(i, attempt)) * n;
      const auto low = static_cast<std::uint64_t>(x);
      if (low >= n || low >= (0 - n) % n)
        return static_cast<std::uint64_t>(x >> 64);
    }
  }

private:
  const std::uint64_t key_;
  const std::uint64_t at_;
  std::uint64_t block_ = std::numeric_limits<std::uint64_t>::max();
  std::uint32_t attempt_ = 0;
  std::array<std::uint32_t, 4> words_{};
};

template <class T>
void scale(std::span<T> out, double low, double high, const auto& unit) {
  const auto bound = static_cast<T>(high);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto x = static_cast<T>(low + unit(i) * (high - low));
    out[i] = x < bound ? x : std::nextafter(bound, static_cast<T>(low)); // rounding reached the end
  }
}

std::uint64_t as_word(std::int64_t x) { return static_cast<std::uint64_t>(x); }

} // namespace

// --- making

random_generator::random_generator(std::uint64_t seed)
  : state_{std::make_shared<generator_state>()} {
  state_->of = get_strategy().state();
  state_->key = seed;
  state_->counters.assign(state_->of->local_count(), 0);
}

random_generator::random_generator(const environment& env)
  : random_generator{env.random.draw("random_generator")} {
  if (state_->of->options().workers == 1)
    return;
  const strategy s{state_->of};
  const auto own = tensor::scalar(static_cast<std::int64_t>(state_->key));
  auto all = s.run([own](replica_context& ctx) { return ctx.broadcast(own, 0); });
  state_->key = as_word(all[0].item<std::int64_t>());
}

std::uint64_t random_generator::seed() const {
  std::lock_guard lock{state_->mutex};
  return state_->key;
}

// --- draws

tensor random_generator::uniform(const shape_t& shape, double low, double high, dtype type) {
  if (!(low < high) || !std::isfinite(high - low))
    refuse("uniform", "the range is [" + std::to_string(low) + ", " + std::to_string(high) + ")");
  if (type != dtype::f32 && type != dtype::f64)
    refuse("uniform", "type is " + to_string(type) + ", expected f32 or f64");
  const auto n = elements_of("uniform", shape, type);
  const bool wide = type == dtype::f64;
  word_reader from{take(*state_, wide ? 2 * n : n)};
  tensor out{type, shape};
  if (wide)
    scale(out.mutable_as<double>(), low, high,
          [&](std::size_t i) { return static_cast<double>(from.wide(i) >> 11) * 0x1p-53; });
  else
    scale(out.mutable_as<float>(), low, high,
          [&](std::size_t i) { return static_cast<double>(from.word(i)) * 0x1p-32; });
  return out;
}

tensor random_generator::uniform_int(const shape_t& shape, std::int64_t low, std::int64_t high,
                                     dtype type) {
  if (low >= high)
    refuse("uniform_int",
           "the range is [" + std::to_string(low) + ", " + std::to_string(high) + ")");
  if (type != dtype::i32 && type != dtype::i64)
    refuse("uniform_int", "type is " + to_string(type) + ", expected i32 or i64");
  using small = std::numeric_limits<std::int32_t>;
  if (type == dtype::i32 && (low < small::min() || high - 1 > small::max()))
    refuse("uniform_int", "the range [" + std::to_string(low) + ", " + std::to_string(high)
                            + ") does not fit i32");
  const auto n = elements_of("uniform_int", shape, type);
  word_reader from{take(*state_, 2 * n)};
  tensor out{type, shape};
  const auto range = as_word(high) - as_word(low);
  auto number = [&](std::size_t i) {
    return static_cast<std::int64_t>(as_word(low) + from.below(i, range));
  };
  for (std::size_t i = 0; i < n; ++i)
    if (type == dtype::i32)
      out.mutable_as<std::int32_t>()[i] = static_cast<std::int32_t>(number(i));
    else
      out.mutable_as<std::int64_t>()[i] = number(i);
  return out;
}

tensor random_generator::normals(const char* what, bool truncated, const shape_t& shape,
                                 double mean, double stddev, dtype type) {
  if (!(stddev >= 0) || !std::isfinite(stddev) || !std::isfinite(mean))
    refuse(what, "mean is " + std::to_string(mean) + ", stddev is " + std::to_string(stddev));
  if (type != dtype::f32 && type != dtype::f64)
    refuse(what, "type is " + to_string(type) + ", expected f32 or f64");
  const auto n = elements_of(what, shape, type);
  const auto range = take(*state_, n);
  tensor out{type, shape};
  const kernels::initializer_spec how{.kind = truncated
                                                ? kernels::initializer_kind::truncated_normal
                                                : kernels::initializer_kind::normal,
                                      .a = mean,
                                      .b = stddev,
                                      .seed = derive_seed(range.key, range.stream)};
  constexpr std::string_view name = "random_generator";
  const kernels::row_shape all{.rows = counter_max, .cols = 1};
  if (type == dtype::f32)
    kernels::fill_rows(how, name, all, range.begin, out.mutable_as<float>());
  else
    kernels::fill_rows(how, name, all, range.begin, out.mutable_as<double>());
  return out;
}

tensor random_generator::normal(const shape_t& shape, double mean, double stddev, dtype type) {
  return normals("normal", false, shape, mean, stddev, type);
}

tensor random_generator::truncated_normal(const shape_t& shape, double mean, double stddev,
                                          dtype type) {
  return normals("truncated_normal", true, shape, mean, stddev, type);
}

void random_generator::skip(std::uint64_t numbers) {
  if (numbers > counter_max)
    refuse("skip", "numbers is " + std::to_string(numbers) + ", more than 2^62");
  (void)take(*state_, numbers);
}

std::vector<random_generator> random_generator::split(std::size_t n) {
  const auto range = take(*state_, 2 * n);
  word_reader from{range};
  std::vector<random_generator> out;
  for (std::size_t i = 0; i < n; ++i) {
    auto state = std::make_shared<generator_state>();
    state->of = detail::standard_state();
    state->key = from.wide(i);
    state->counters.assign(1, 0);
    out.push_back(random_generator{std::move(state)});
  }
  return out;
}

// --- checkpoints

tensor random_generator::saved_value() const {
  state_->of->require_cross_replica("saved_value of a random_generator");
  std::vector<std::uint64_t> own;
  std::uint64_t key = 0, common = 0;
  {
    std::lock_guard lock{state_->mutex};
    own = state_->counters;
    key = state_->key;
    common = state_->common;
  }
  std::vector<tensor> each;
  for (const auto counter : own)
    each.push_back(tensor::vector<std::int64_t>({static_cast<std::int64_t>(counter)}));
  const std::array parts{tensor::vector<std::int64_t>(
                           {static_cast<std::int64_t>(key), static_cast<std::int64_t>(common)}),
                         strategy{state_->of}.gather(per_replica<tensor>{std::move(each)}, 0)};
  return concatenate(parts);
}

void random_generator::restore_value(const tensor& value) {
  state_->of->require_cross_replica("restore_value of a random_generator");
  if (value.type() != dtype::i64 || value.rank() != 1 || value.size() < 3)
    refuse("restore_value",
           "the state is " + type_and_shape(value)
             + ", expected i64: the seed, the shared counter and at least one replica's counter");
  const auto words = value.as<std::int64_t>();
  const auto saved = words.subspan(2);
  for (const auto each : words.subspan(1))
    if (each < 0 || as_word(each) % block_words != 0 || as_word(each) > counter_max)
      refuse("restore_value", "a counter is " + std::to_string(each));
  const auto largest = *std::max_element(saved.begin(), saved.end());
  std::lock_guard lock{state_->mutex};
  state_->key = as_word(words[0]);
  state_->common = as_word(words[1]);
  for (std::size_t i = 0; i < state_->counters.size(); ++i) {
    const auto id = state_->of->first_id() + i;
    state_->counters[i] = as_word(id < saved.size() ? saved[id] : largest);
  }
  if (state_->of->is_standard())
    state_->counters.assign(1, state_->common);
}

} // namespace troupe
