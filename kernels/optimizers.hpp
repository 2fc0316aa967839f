// Update rules of the optimizers, as pure functions on spans.
//
// Element types: float and double (instantiated in the .cpp). All arithmetic is in the element
// type, except the factors that are the same for the whole array (Adam's corrected learning rate),
// which are computed in double and rounded once. Memory: every `..._out` span may be exactly its
// `..._in` span (update in place) or disjoint from all others (a server updates out of place while
// a reader holds the old snapshot); a shifted overlap is undefined. In place and out of place give
// the same bits, on every machine (detail/strict_math.hpp). `learning_rate` is the value for this
// step: schedules are evaluated by the caller (kernels/schedule.hpp). Special values: IEEE;
// infinities and NaN in the gradient reach the parameter, but momentum and Adam take denormal
// numbers as zero (detail/denormals.hpp says why). Errors: std::invalid_argument naming the
// argument when sizes differ or a row is out of range; nothing is written then. Any thread, no
// allocation, one pass.
//
// The `_rows` variants are lazy: they apply a sparse gradient, only the named rows of the parameter
// and the slots move (Adam's decay of the other rows is skipped). `rows`: [n] row numbers within
// `p`, each at most once; `values`: [n, cols], row-major; `p` and the slots: [p.size() / cols,
// cols]. In place. A touched row gets the bits that the dense rule would give it.
//
// Source: the formulas of the Keras optimizer pages (SGD, Adagrad, Adam); Duchi et al. 2011; Kingma
// and Ba 2015 (the form at the end of their section 2, epsilon outside the correction).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include <troupe/core/optimizers.hpp>

namespace troupe::kernels {

/// p -= learning_rate * g.
struct sgd_params {
  double learning_rate = 0.01;
};

/// v = momentum * v - learning_rate * g, then p += v, or with `nesterov` p += momentum * v -
/// learning_rate * g.
struct momentum_params {
  double learning_rate = 0.01;
  double momentum = 0.9;
  bool nesterov = false;
};

/// acc += g * g, then p -= learning_rate * g / (sqrt(acc) + epsilon).
struct adagrad_params {
  double learning_rate = 0.001;
  double initial_accumulator =
    0.1; ///< initial value of the slot; the update itself does not read it
  double epsilon = 1e-7;
};

/// m = beta1 * m + (1 - beta1) * g, v = beta2 * v + (1 - beta2) * g * g, then p -= lr_t * m /
/// (sqrt(v) + epsilon) with lr_t = learning_rate * sqrt(1 - beta2^t) / (1 - beta1^t).
struct adam_params {
  double learning_rate = 0.001;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-7;
};

/// Adam's learning rate with both bias corrections, for step `t`, counted from 1 (0 is taken as 1).
double adam_corrected_rate(const adam_params& params, std::uint64_t t);

// -- dense ----------------------------------------------------------------------------------------

/// Plain gradient descent.
template <class T>
void sgd_update(std::span<const std::type_identity_t<T>> p_in, std::span<T> p_out,
                std::span<const std::type_identity_t<T>> g, const sgd_params& params);

/// Momentum, plain or Nesterov. Slot: v, the velocity, from 0.
template <class T>
void momentum_update(std::span<const std::type_identity_t<T>> p_in, std::span<T> p_out,
                     std::span<const std::type_identity_t<T>> v_in,
                     std::span<std::type_identity_t<T>> v_out,
                     std::span<const std::type_identity_t<T>> g, const momentum_params& params);

/// Adagrad. Slot: acc, from `initial_accumulator`.
template <class T>
void adagrad_update(std::span<const std::type_identity_t<T>> p_in, std::span<T> p_out,
                    std::span<const std::type_identity_t<T>> acc_in,
                    std::span<std::type_identity_t<T>> acc_out,
                    std::span<const std::type_identity_t<T>> g, const adagrad_params& params);

/// Adam, for step `t`, counted from 1. Slots: m and v, from 0.
template <class T>
void adam_update(std::span<const std::type_identity_t<T>> p_in, std::span<T> p_out,
                 std::span<const std::type_identity_t<T>> m_in,
                 std::span<std::type_identity_t<T>> m_out,
                 std::span<const std::type_identity_t<T>> v_in,
                 std::span<std::type_identity_t<T>> v_out,
                 std::span<const std::type_identity_t<T>> g, std::uint64_t t,
                 const adam_params& params);

// -- sparse ---------------------------------------------------------------------------------------

/// Plain gradient descent on the named rows.
template <class T>
void sgd_update_rows(std::span<T> p, std::size_t cols, std::span<const std::int64_t> rows,
                     std::span<const std::type_identity_t<T>> values, const sgd_params& params);

/// Momentum on the named rows of `p` and `v`.
template <class T>
void momentum_update_rows(std::span<T> p, std::span<std::type_identity_t<T>> v, std::size_t cols,
                          std::span<const std::int64_t> rows,
                          std::span<const std::type_identity_t<T>> values,
                          const momentum_params& params);

/// Adagrad on the named rows of `p` and `acc`.
template <class T>
void adagrad_update_rows(std::span<T> p, std::span<std::type_identity_t<T>> acc, std::size_t cols,
                         std::span<const std::int64_t> rows,
                         std::span<const std::type_identity_t<T>> values,
                         const adagrad_params& params);

/// Adam on the named rows of `p`, `m` and `v`, for step `t`, counted from 1. Lazy: m and v of the
/// other rows do not decay, and what m has left moves them only once they are named again.
template <class T>
void adam_update_rows(std::span<T> p, std::span<std::type_identity_t<T>> m,
                      std::span<std::type_identity_t<T>> v, std::size_t cols,
                      std::span<const std::int64_t> rows,
                      std::span<const std::type_identity_t<T>> values, std::uint64_t t,
                      const adam_params& params);

/// Adam on all rows, with the gradient `values` in the named ones and zeros in the others: every
/// row's m and v decay, and m moves rows that are not named as well. The bits of `adam_update` with
/// that gradient; its cost too, but that the zeros are not read. Rows ascend, each at most once;
/// none is fine. In place or out of place as the dense rules. Source: Keras' Adam, which applies
/// the slices of a sparse gradient so.
template <class T>
void adam_update_all_rows(std::span<const std::type_identity_t<T>> p_in, std::span<T> p_out,
                          std::span<const std::type_identity_t<T>> m_in,
                          std::span<std::type_identity_t<T>> m_out,
                          std::span<const std::type_identity_t<T>> v_in,
                          std::span<std::type_identity_t<T>> v_out, std::size_t cols,
                          std::span<const std::int64_t> rows,
                          std::span<const std::type_identity_t<T>> values, std::uint64_t t,
                          const adam_params& params);

// -- by kind --------------------------------------------------------------------------------------
//
// The rule of a variable's optimizer, chosen once an update. An optimizer without functions of its
// own above has its rule here alone.

/// What differs from one update of a variable to the next.
struct update_step {
  double learning_rate = 0;
  std::uint64_t t = 1; ///< counted from 1
};

/// The arrays of one update: the parameter and, in the order of the optimizer's row in
/// core/optimizers.hpp, its slots. Slots that the optimizer does not have are empty.
template <class T>
struct update_arrays {
  std::span<const T> p_in{};
  std::span<T> p_out{};
  std::array<std::span<const T>, optimizer_slots_max> slots_in{};
  std::array<std::span<T>, optimizer_slots_max> slots_out{};
};

/// The dense rule of `how.kind`. Throws std::invalid_argument for a kind without a rule.
template <class T>
void update(const optimizer_spec& how, const update_step& step, const update_arrays<T>& at,
            std::span<const std::type_identity_t<T>> g);

/// The lazy sparse rule of `how.kind`, in place: `at.p_in` and `at.slots_in` are not read.
template <class T>
void update_rows(const optimizer_spec& how, const update_step& step, const update_arrays<T>& at,
                 std::size_t cols, std::span<const std::int64_t> rows,
                 std::span<const std::type_identity_t<T>> values);

/// The sparse rule on all rows, of optimizers for which `updates_all_rows` can hold. Rows ascend.
template <class T>
void update_all_rows(const optimizer_spec& how, const update_step& step, const update_arrays<T>& at,
                     std::size_t cols, std::span<const std::int64_t> rows,
                     std::span<const std::type_identity_t<T>> values);

/// The numbers of a rule.
inline sgd_params sgd_of(const update_step& step) { return {.learning_rate = step.learning_rate}; }

inline momentum_params momentum_of(const optimizer_spec& how, const update_step& step) {
  return {.learning_rate = step.learning_rate, .momentum = how.momentum, .nesterov = how.nesterov};
}

inline adagrad_params adagrad_of(const optimizer_spec& how, const update_step& step) {
  return {.learning_rate = step.learning_rate,
          .initial_accumulator = how.initial_accumulator,
          .epsilon = how.epsilon};
}

inline adam_params adam_of(const optimizer_spec& how, const update_step& step) {
  return {.learning_rate = step.learning_rate,
          .beta1 = how.beta_1,
          .beta2 = how.beta_2,
          .epsilon = how.epsilon};
}

} // namespace troupe::kernels
