#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include <troupe/core/field_lists.hpp>
#include <troupe/core/learning_rate.hpp>

/// The optimizers: the kind and the parameters as they travel, the struct that a user writes
/// (`adam{1e-3f}`), and one row of `optimizer_table` for each. Plain values, any thread.
///
/// A new optimizer is declared here, from its kind to its row. Its rules are a case in
/// kernels/optimizers.cpp and one in kernels/cuda_optimizers.cu. No other file of the library names
/// a kind; slots, their names in checkpoints, checks of parameters and messages follow the table.
namespace troupe {

/// The numbers stand in checkpoints and messages.
enum class optimizer_kind : std::uint8_t { none = 0, sgd = 1, momentum = 2, adagrad = 3, adam = 4 };

/// How a server turns a gradient into an update. `none`: the variable takes assignments only.
/// The parameters of all kinds; each kind reads those that its row names.
struct optimizer_spec {
  optimizer_kind kind = optimizer_kind::none;
  schedule_spec learning_rate{};
  float momentum = 0.9f;            ///< momentum
  bool nesterov = false;            ///< momentum
  float beta_1 = 0.9f;              ///< adam
  float beta_2 = 0.999f;            ///< adam
  float epsilon = 1e-7f;            ///< adam, adagrad
  float initial_accumulator = 0.1f; ///< adagrad
  bool lazy = false; ///< adam: rows that a sparse gradient does not name stay as they are
  TROUPE_FLAT_FIELDS(optimizer_spec, kind, learning_rate, momentum, nesterov, beta_1, beta_2,
                     epsilon, initial_accumulator, lazy)
};

// --- what a row says

/// Which member of `optimizer_spec` a parameter is.
using optimizer_number = float optimizer_spec::*;
using optimizer_flag = bool optimizer_spec::*;

/// The values that a parameter may have.
enum class parameter_range : std::uint8_t {
  share,  ///< [0, 1)
  amount, ///< finite, at least 0
  flag,   ///< true or false
};

/// A parameter beside the learning rate. Its default is the member's in `optimizer_spec`.
struct optimizer_parameter {
  const char* name = "";
  parameter_range range = parameter_range::amount;
  optimizer_number number = nullptr; ///< of a share or an amount
  optimizer_flag flag = nullptr;     ///< of a flag
};

/// An array of the variable's shape and type that the rule keeps from one update to the next.
struct optimizer_slot {
  const char* name = "";            ///< in checkpoints
  optimizer_number start = nullptr; ///< the parameter that all its elements start at; null: 0
};

/// All that servers, checkpoints and checks need to know of a kind.
struct optimizer_traits {
  optimizer_kind kind = optimizer_kind::none;
  const char* name = "";
  std::span<const optimizer_slot> slots{};           ///< in the order of the rule's arguments
  std::span<const optimizer_parameter> parameters{}; ///< in the order in which they are checked
  /// Null: a sparse gradient changes the rows that it names and no others. Else it counts as a
  /// dense one with zeros in the other rows, unless this flag is set.
  optimizer_flag lazy = nullptr;
};

// --- the optimizers

/// p -= rate * g.
struct sgd {
  learning_rate_schedule learning_rate = 0.01f;

  optimizer_spec spec() const {
    return {.kind = optimizer_kind::sgd, .learning_rate = learning_rate.spec()};
  }
};

/// v = momentum * v - rate * g, p += v; `nesterov` looks one step ahead. A sparse gradient moves
/// the rows that it names and no others, as TensorFlow's kernels do: the velocity of the others
/// rests (Keras from 2.11 on lets it decay and move them).
struct momentum {
  learning_rate_schedule learning_rate = 0.01f;
  float momentum = 0.9f;
  bool nesterov = false;

  optimizer_spec spec() const {
    return {.kind = optimizer_kind::momentum,
            .learning_rate = learning_rate.spec(),
            .momentum = momentum,
            .nesterov = nesterov};
  }
};

/// Rates per element that shrink with the sum of squared gradients.
struct adagrad {
  learning_rate_schedule learning_rate = 0.001f;
  float initial_accumulator = 0.1f;
  float epsilon = 1e-7f;

  optimizer_spec spec() const {
    return {.kind = optimizer_kind::adagrad,
            .learning_rate = learning_rate.spec(),
            .epsilon = epsilon,
            .initial_accumulator = initial_accumulator};
  }
};

/// Adam with both bias corrections.
///
/// A sparse gradient (rows of an embedding table) counts as a dense one with zeros in the rows that
/// it does not name, as in TensorFlow and Keras: m and v of every row decay, and what m has left
/// moves every row, at each update. That costs a pass over the whole table and both slots, however
/// few rows the gradient has. With `lazy` only the rows that are named move, and the cost is theirs
/// alone: for large tables. The results differ: a row that is seldom named rests in between, with
/// an m and v of the time when it was named last. Tables whose rows come and go by a hashed key can
/// be lazy only. Dense gradients do not ask.
struct adam {
  learning_rate_schedule learning_rate = 0.001f;
  float beta_1 = 0.9f;
  float beta_2 = 0.999f;
  float epsilon = 1e-7f;
  bool lazy = false;

  optimizer_spec spec() const {
    return {.kind = optimizer_kind::adam,
            .learning_rate = learning_rate.spec(),
            .beta_1 = beta_1,
            .beta_2 = beta_2,
            .epsilon = epsilon,
            .lazy = lazy};
  }
};

// --- the table

namespace detail {

inline constexpr optimizer_slot momentum_slots[] = {{"momentum"}};
inline constexpr optimizer_parameter momentum_parameters[] = {
  {"momentum", parameter_range::share, &optimizer_spec::momentum},
  {"nesterov", parameter_range::flag, nullptr, &optimizer_spec::nesterov},
};

inline constexpr optimizer_slot adagrad_slots[] = {
  {"accumulator", &optimizer_spec::initial_accumulator}};
inline constexpr optimizer_parameter adagrad_parameters[] = {
  {"initial_accumulator", parameter_range::amount, &optimizer_spec::initial_accumulator},
  {"epsilon", parameter_range::amount, &optimizer_spec::epsilon},
};

inline constexpr optimizer_slot adam_slots[] = {{"m"}, {"v"}};
inline constexpr optimizer_parameter adam_parameters[] = {
  {"beta_1", parameter_range::share, &optimizer_spec::beta_1},
  {"beta_2", parameter_range::share, &optimizer_spec::beta_2},
  {"epsilon", parameter_range::amount, &optimizer_spec::epsilon},
  {"lazy", parameter_range::flag, nullptr, &optimizer_spec::lazy},
};

} // namespace detail

/// One row a kind, in the order of the kinds.
inline constexpr optimizer_traits optimizer_table[] = {
  {optimizer_kind::none, "none", {}, {}, nullptr},
  {optimizer_kind::sgd, "sgd", {}, {}, nullptr},
  {optimizer_kind::momentum, "momentum", detail::momentum_slots, detail::momentum_parameters,
   nullptr},
  {optimizer_kind::adagrad, "adagrad", detail::adagrad_slots, detail::adagrad_parameters, nullptr},
  {optimizer_kind::adam, "adam", detail::adam_slots, detail::adam_parameters,
   &optimizer_spec::lazy},
};

/// The most slots that any optimizer has.
inline constexpr std::size_t optimizer_slots_max = [] {
  std::size_t out = 0;
  for (const auto& row : optimizer_table)
    out = row.slots.size() > out ? row.slots.size() : out;
  return out;
}();

/// The row of `kind`; null: a number that is no kind.
constexpr const optimizer_traits* find_optimizer(optimizer_kind kind) {
  const auto at = static_cast<std::size_t>(kind);
  return at < std::size(optimizer_table) ? &optimizer_table[at] : nullptr;
}

/// The slots of `kind`; none for a number that is no kind.
constexpr std::span<const optimizer_slot> slots_of(optimizer_kind kind) {
  const auto* row = find_optimizer(kind);
  return row ? row->slots : std::span<const optimizer_slot>{};
}

/// Number of slots that an optimizer keeps for each value.
constexpr std::uint32_t slot_count(optimizer_kind kind) {
  return static_cast<std::uint32_t>(slots_of(kind).size());
}

/// The names of the slots in checkpoints.
inline std::vector<std::string> slot_names(optimizer_kind kind) {
  std::vector<std::string> out;
  for (const auto& slot : slots_of(kind))
    out.emplace_back(slot.name);
  return out;
}

/// Whether a sparse gradient changes rows that it does not name, too.
constexpr bool updates_all_rows(const optimizer_spec& x) {
  const auto* row = find_optimizer(x.kind);
  return row && row->lazy && !(x.*row->lazy);
}

/// A struct above: what a user may give where an optimizer is wanted.
template <class T>
concept optimizer_declaration = requires(const T& x) {
  { x.spec() } -> std::same_as<optimizer_spec>;
};

} // namespace troupe
