#include <troupe/kernels/detail/strict_math.hpp>

#include <troupe/kernels/optimizers.hpp>

#include <troupe/kernels/detail/check.hpp>
#include <troupe/kernels/detail/denormals.hpp>
#include <troupe/kernels/detail/rows.hpp>
#include <troupe/kernels/detail/simd.hpp>

#include <cmath>
#include <stdexcept>
#include <string>

namespace troupe::kernels {

namespace {

// One rule is one struct: the constants in the element type and `run` over n elements at plain
// pointers. Dense and sparse updates share it, so they cannot drift apart.

template <class T>
struct sgd_rule {
  explicit sgd_rule(const sgd_params& params) : rate(static_cast<T>(params.learning_rate)) {
    // nop
  }

  void run(const T* p_in, T* p_out, const T* g, std::size_t n) const {
    const T lr = rate;
    TROUPE_INDEPENDENT_LOOP
    for (std::size_t i = 0; i < n; ++i)
      p_out[i] = p_in[i] - lr * g[i];
  }

  T rate;
};

template <class T>
struct momentum_rule {
  explicit momentum_rule(const momentum_params& params)
    : rate(static_cast<T>(params.learning_rate)),
      momentum(static_cast<T>(params.momentum)),
      nesterov(params.nesterov) {
    // nop
  }

  void run(const T* p_in, T* p_out, const T* v_in, T* v_out, const T* g, std::size_t n) const {
    const T lr = rate;
    const T mu = momentum;
    if (nesterov) {
      TROUPE_INDEPENDENT_LOOP
      for (std::size_t i = 0; i < n; ++i) {
        const T step = lr * g[i];
        const T v = mu * v_in[i] - step;
        v_out[i] = v;
        p_out[i] = p_in[i] + (mu * v - step);
      }
    } else {
      TROUPE_INDEPENDENT_LOOP
      for (std::size_t i = 0; i < n; ++i) {
        const T v = mu * v_in[i] - lr * g[i];
        v_out[i] = v;
        p_out[i] = p_in[i] + v;
      }
    }
  }

  T rate;
  T momentum;
  bool nesterov;
};

template <class T>
struct adagrad_rule {
  explicit adagrad_rule(const adagrad_params& params)
    : rate(static_cast<T>(params.learning_rate)), epsilon(static_cast<T>(params.epsilon)) {
    // nop
  }

  void run(const T* p_in, T* p_out, const T* acc_in, T* acc_out, const T* g, std::size_t n) const {
    const T lr = rate, eps = epsilon;
    detail::in_widest_steps<T>(n, [=](auto width, std::size_t i) {
      using v = typename decltype(width)::type;
      const v change = v::load(g + i);
      const v acc = v::load(acc_in + i) + change * change;
      acc.store(acc_out + i);
      (v::load(p_in + i) - v::of(lr) * change / (root(acc) + v::of(eps))).store(p_out + i);
    });
  }

  T rate;
  T epsilon;
};

template <class T>
struct adam_rule {
  adam_rule(const adam_params& params, std::uint64_t t)
    : rate(static_cast<T>(adam_corrected_rate(params, t))),
      beta1(static_cast<T>(params.beta1)),
      beta2(static_cast<T>(params.beta2)),
      rest1(static_cast<T>(1.0 - params.beta1)),
      rest2(static_cast<T>(1.0 - params.beta2)),
      epsilon(static_cast<T>(params.epsilon)) {
    // nop
  }

  void run(const T* p_in, T* p_out, const T* m_in, T* m_out, const T* v_in, T* v_out, const T* g,
           std::size_t n) const {
    run_with(p_in, p_out, m_in, m_out, v_in, v_out, n,
             [g](auto width, std::size_t i) { return decltype(width)::type::load(g + i); });
  }

  /// The same with a gradient of zeros.
  void run_at_rest(const T* p_in, T* p_out, const T* m_in, T* m_out, const T* v_in, T* v_out,
                   std::size_t n) const {
    run_with(p_in, p_out, m_in, m_out, v_in, v_out, n,
             [](auto width, std::size_t) { return decltype(width)::type::of(T(0)); });
  }

  template <class Gradient>
  void run_with(const T* p_in, T* p_out, const T* m_in, T* m_out, const T* v_in, T* v_out,
                std::size_t n, Gradient gradient) const {
    const T lr = rate, b1 = beta1, b2 = beta2, r1 = rest1, r2 = rest2, eps = epsilon;
    detail::in_widest_steps<T>(n, [=](auto width, std::size_t i) {
      using v = typename decltype(width)::type;
      const v change = gradient(width, i);
      const v mean = v::of(b1) * v::load(m_in + i) + v::of(r1) * change;
      const v square = v::of(b2) * v::load(v_in + i) + v::of(r2) * (change * change);
      mean.store(m_out + i);
      square.store(v_out + i);
      (v::load(p_in + i) - v::of(lr) * mean / (root(square) + v::of(eps))).store(p_out + i);
    });
  }

  T rate;
  T beta1;
  T beta2;
  T rest1;
  T rest2;
  T epsilon;
};

} // namespace

double adam_corrected_rate(const adam_params& params, std::uint64_t t) {
  const double steps = t == 0 ? 1.0 : static_cast<double>(t);
  const double correction1 = 1.0 - std::pow(params.beta1, steps);
  const double correction2 = 1.0 - std::pow(params.beta2, steps);
  return params.learning_rate * std::sqrt(correction2) / correction1;
}

// -- dense ----------------------------------------------------------------------------------------

template <class T>
void sgd_update(std::span<const std::type_identity_t<T>> p_in, std::span<T> p_out,
                std::span<const std::type_identity_t<T>> g, const sgd_params& params) {
  detail::expect_size("sgd_update", "p_in.size()", p_in.size(), p_out.size());
  detail::expect_size("sgd_update", "g.size()", g.size(), p_out.size());
  sgd_rule<T>{params}.run(p_in.data(), p_out.data(), g.data(), p_out.size());
}

template <class T>
void momentum_update(std::span<const std::type_identity_t<T>> p_in, std::span<T> p_out,
                     std::span<const std::type_identity_t<T>> v_in,
                     std::span<std::type_identity_t<T>> v_out,
                     std::span<const std::type_identity_t<T>> g, const momentum_params& params) {
  const std::size_t n = p_out.size();
  detail::expect_size("momentum_update", "p_in.size()", p_in.size(), n);
  detail::expect_size("momentum_update", "v_in.size()", v_in.size(), n);
  detail::expect_size("momentum_update", "v_out.size()", v_out.size(), n);
  detail::expect_size("momentum_update", "g.size()", g.size(), n);
  const detail::denormals_as_zero guard;
  momentum_rule<T>{params}.run(p_in.data(), p_out.data(), v_in.data(), v_out.data(), g.data(), n);
}

template <class T>
void adagrad_update(std::span<const std::type_identity_t<T>> p_in, std::span<T> p_out,
                    std::span<const std::type_identity_t<T>> acc_in,
                    std::span<std::type_identity_t<T>> acc_out,
                    std::span<const std::type_identity_t<T>> g, const adagrad_params& params) {
  const std::size_t n = p_out.size();
  detail::expect_size("adagrad_update", "p_in.size()", p_in.size(), n);
  detail::expect_size("adagrad_update", "acc_in.size()", acc_in.size(), n);
  detail::expect_size("adagrad_update", "acc_out.size()", acc_out.size(), n);
  detail::expect_size("adagrad_update", "g.size()", g.size(), n);
  adagrad_rule<T>{params}.run(p_in.data(), p_out.data(), acc_in.data(), acc_out.data(), g.data(),
                              n);
}

template <class T>
void adam_update(std::span<const std::type_identity_t<T>> p_in, std::span<T> p_out,
                 std::span<const std::type_identity_t<T>> m_in,
                 std::span<std::type_identity_t<T>> m_out,
                 std::span<const std::type_identity_t<T>> v_in,
                 std::span<std::type_identity_t<T>> v_out,
                 std::span<const std::type_identity_t<T>> g, std::uint64_t t,
                 const adam_params& params) {
  const std::size_t n = p_out.size();
  detail::expect_size("adam_update", "p_in.size()", p_in.size(), n);
  detail::expect_size("adam_update", "m_in.size()", m_in.size(), n);
  detail::expect_size("adam_update", "m_out.size()", m_out.size(), n);
  detail::expect_size("adam_update", "v_in.size()", v_in.size(), n);
  detail::expect_size("adam_update", "v_out.size()", v_out.size(), n);
  detail::expect_size("adam_update", "g.size()", g.size(), n);
  const detail::denormals_as_zero guard;
  adam_rule<T>{params, t}.run(p_in.data(), p_out.data(), m_in.data(), m_out.data(), v_in.data(),
                              v_out.data(), g.data(), n);
}

// -- sparse ---------------------------------------------------------------------------------------

template <class T>
void sgd_update_rows(std::span<T> p, std::size_t cols, std::span<const std::int64_t> rows,
                     std::span<const std::type_identity_t<T>> values, const sgd_params& params) {
  detail::expect_rows("sgd_update_rows", p.size(), cols, rows, values.size());
  const sgd_rule<T> rule{params};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    detail::prefetch_row(p.data(), cols, rows, i);
    T* pr = p.data() + static_cast<std::size_t>(rows[i]) * cols;
    rule.run(pr, pr, values.data() + i * cols, cols);
  }
}

template <class T>
void momentum_update_rows(std::span<T> p, std::span<std::type_identity_t<T>> v, std::size_t cols,
                          std::span<const std::int64_t> rows,
                          std::span<const std::type_identity_t<T>> values,
                          const momentum_params& params) {
  detail::expect_rows("momentum_update_rows", p.size(), cols, rows, values.size());
  detail::expect_size("momentum_update_rows", "v.size()", v.size(), p.size());
  const detail::denormals_as_zero guard;
  const momentum_rule<T> rule{params};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    detail::prefetch_row(p.data(), cols, rows, i);
    detail::prefetch_row(v.data(), cols, rows, i);
    const std::size_t at = static_cast<std::size_t>(rows[i]) * cols;
    T* pr = p.data() + at;
    T* vr = v.data() + at;
    rule.run(pr, pr, vr, vr, values.data() + i * cols, cols);
  }
}

template <class T>
void adagrad_update_rows(std::span<T> p, std::span<std::type_identity_t<T>> acc, std::size_t cols,
                         std::span<const std::int64_t> rows,
                         std::span<const std::type_identity_t<T>> values,
                         const adagrad_params& params) {
  detail::expect_rows("adagrad_update_rows", p.size(), cols, rows, values.size());
  detail::expect_size("adagrad_update_rows", "acc.size()", acc.size(), p.size());
  const adagrad_rule<T> rule{params};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    detail::prefetch_row(p.data(), cols, rows, i);
    detail::prefetch_row(acc.data(), cols, rows, i);
    const std::size_t at = static_cast<std::size_t>(rows[i]) * cols;
    T* pr = p.data() + at;
    T* ar = acc.data() + at;
    rule.run(pr, pr, ar, ar, values.data() + i * cols, cols);
  }
}

template <class T>
void adam_update_rows(std::span<T> p, std::span<std::type_identity_t<T>> m,
                      std::span<std::type_identity_t<T>> v, std::size_t cols,
                      std::span<const std::int64_t> rows,
                      std::span<const std::type_identity_t<T>> values, std::uint64_t t,
                      const adam_params& params) {
  detail::expect_rows("adam_update_rows", p.size(), cols, rows, values.size());
  detail::expect_size("adam_update_rows", "m.size()", m.size(), p.size());
  detail::expect_size("adam_update_rows", "v.size()", v.size(), p.size());
  const detail::denormals_as_zero guard;
  const adam_rule<T> rule{params, t};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    detail::prefetch_row(p.data(), cols, rows, i);
    detail::prefetch_row(m.data(), cols, rows, i);
    detail::prefetch_row(v.data(), cols, rows, i);
    const std::size_t at = static_cast<std::size_t>(rows[i]) * cols;
    T* pr = p.data() + at;
    T* mr = m.data() + at;
    T* vr = v.data() + at;
    rule.run(pr, pr, mr, mr, vr, vr, values.data() + i * cols, cols);
  }
}

template <class T>
void adam_update_all_rows(std::span<const std::type_identity_t<T>> p_in, std::span<T> p_out,
                          std::span<const std::type_identity_t<T>> m_in,
                          std::span<std::type_identity_t<T>> m_out,
                          std::span<const std::type_identity_t<T>> v_in,
                          std::span<std::type_identity_t<T>> v_out, std::size_t cols,
                          std::span<const std::int64_t> rows,
                          std::span<const std::type_identity_t<T>> values, std::uint64_t t,
                          const adam_params& params) {
  const char* name = "adam_update_all_rows";
  detail::expect_rows(name, p_out.size(), cols, rows, values.size());
  detail::expect_size(name, "p_in.size()", p_in.size(), p_out.size());
  detail::expect_size(name, "m_in.size()", m_in.size(), p_out.size());
  detail::expect_size(name, "m_out.size()", m_out.size(), p_out.size());
  detail::expect_size(name, "v_in.size()", v_in.size(), p_out.size());
  detail::expect_size(name, "v_out.size()", v_out.size(), p_out.size());
  for (std::size_t i = 1; i < rows.size(); ++i)
    if (rows[i] <= rows[i - 1])
      throw std::invalid_argument(std::string{"kernels::"} + name + ": rows[" + std::to_string(i)
                                  + "] is " + std::to_string(rows[i])
                                  + ", expected more than the row before, "
                                  + std::to_string(rows[i - 1]));
  const detail::denormals_as_zero guard;
  const adam_rule<T> rule{params, t};
  std::size_t done = 0;
  const auto rest_until = [&](std::size_t end) {
    rule.run_at_rest(p_in.data() + done, p_out.data() + done, m_in.data() + done,
                     m_out.data() + done, v_in.data() + done, v_out.data() + done, end - done);
    done = end;
  };
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rest_until(static_cast<std::size_t>(rows[i]) * cols);
    rule.run(p_in.data() + done, p_out.data() + done, m_in.data() + done, m_out.data() + done,
             v_in.data() + done, v_out.data() + done, values.data() + i * cols, cols);
    done += cols;
  }
  rest_until(p_out.size());
}

// -- by kind --------------------------------------------------------------------------------------

namespace {

[[noreturn]] void no_rule(const char* function, optimizer_kind kind) {
  throw std::invalid_argument(std::string{"kernels::"} + function + ": optimizer kind "
                              + std::to_string(static_cast<unsigned>(kind)) + " has no such rule");
}

} // namespace

// The compiler warns of a kind that has no case.

template <class T>
void update(const optimizer_spec& how, const update_step& step, const update_arrays<T>& at,
            std::span<const std::type_identity_t<T>> g) {
  const auto& [p_in, p_out, in, out] = at;
  switch (how.kind) {
    case optimizer_kind::none: break;
    case optimizer_kind::sgd: return sgd_update<T>(p_in, p_out, g, sgd_of(step));
    case optimizer_kind::momentum:
      return momentum_update<T>(p_in, p_out, in[0], out[0], g, momentum_of(how, step));
    case optimizer_kind::adagrad:
      return adagrad_update<T>(p_in, p_out, in[0], out[0], g, adagrad_of(how, step));
    case optimizer_kind::adam:
      return adam_update<T>(p_in, p_out, in[0], out[0], in[1], out[1], g, step.t,
                            adam_of(how, step));
  }
  no_rule("update", how.kind);
}

template <class T>
void update_rows(const optimizer_spec& how, const update_step& step, const update_arrays<T>& at,
                 std::size_t cols, std::span<const std::int64_t> rows,
                 std::span<const std::type_identity_t<T>> values) {
  const auto p = at.p_out;
  const auto& slots = at.slots_out;
  switch (how.kind) {
    case optimizer_kind::none: break;
    case optimizer_kind::sgd: return sgd_update_rows<T>(p, cols, rows, values, sgd_of(step));
    case optimizer_kind::momentum:
      return momentum_update_rows<T>(p, slots[0], cols, rows, values, momentum_of(how, step));
    case optimizer_kind::adagrad:
      return adagrad_update_rows<T>(p, slots[0], cols, rows, values, adagrad_of(how, step));
    case optimizer_kind::adam:
      return adam_update_rows<T>(p, slots[0], slots[1], cols, rows, values, step.t,
                                 adam_of(how, step));
  }
  no_rule("update_rows", how.kind);
}

template <class T>
void update_all_rows(const optimizer_spec& how, const update_step& step, const update_arrays<T>& at,
                     std::size_t cols, std::span<const std::int64_t> rows,
                     std::span<const std::type_identity_t<T>> values) {
  const auto& [p_in, p_out, in, out] = at;
  switch (how.kind) {
    case optimizer_kind::none:
    case optimizer_kind::sgd:
    case optimizer_kind::momentum:
    case optimizer_kind::adagrad: break; // lazy always
    case optimizer_kind::adam:
      return adam_update_all_rows<T>(p_in, p_out, in[0], out[0], in[1], out[1], cols, rows, values,
                                     step.t, adam_of(how, step));
  }
  no_rule("update_all_rows", how.kind);
}

#define TROUPE_INSTANTIATE(T)                                                                      \
  template void sgd_update<T>(std::span<const T>, std::span<T>, std::span<const T>,                \
                              const sgd_params&);                                                  \
  template void momentum_update<T>(std::span<const T>, std::span<T>, std::span<const T>,           \
                                   std::span<T>, std::span<const T>, const momentum_params&);      \
  template void adagrad_update<T>(std::span<const T>, std::span<T>, std::span<const T>,            \
                                  std::span<T>, std::span<const T>, const adagrad_params&);        \
  template void adam_update<T>(std::span<const T>, std::span<T>, std::span<const T>, std::span<T>, \
                               std::span<const T>, std::span<T>, std::span<const T>,               \
                               std::uint64_t, const adam_params&);                                 \
  template void sgd_update_rows<T>(std::span<T>, std::size_t, std::span<const std::int64_t>,       \
                                   std::span<const T>, const sgd_params&);                         \
  template void momentum_update_rows<T>(std::span<T>, std::span<T>, std::size_t,                   \
                                        std::span<const std::int64_t>, std::span<const T>,         \
                                        const momentum_params&);                                   \
  template void adagrad_update_rows<T>(std::span<T>, std::span<T>, std::size_t,                    \
                                       std::span<const std::int64_t>, std::span<const T>,          \
                                       const adagrad_params&);                                     \
  template void adam_update_rows<T>(std::span<T>, std::span<T>, std::span<T>, std::size_t,         \
                                    std::span<const std::int64_t>, std::span<const T>,             \
                                    std::uint64_t, const adam_params&);                            \
  template void adam_update_all_rows<T>(std::span<const T>, std::span<T>, std::span<const T>,      \
                                        std::span<T>, std::span<const T>, std::span<T>,            \
                                        std::size_t, std::span<const std::int64_t>,                \
                                        std::span<const T>, std::uint64_t, const adam_params&);    \
  template void update<T>(const optimizer_spec&, const update_step&, const update_arrays<T>&,      \
                          std::span<const T>);                                                     \
  template void update_rows<T>(const optimizer_spec&, const update_step&, const update_arrays<T>&, \
                               std::size_t, std::span<const std::int64_t>, std::span<const T>);    \
  template void update_all_rows<T>(const optimizer_spec&, const update_step&,                      \
                                   const update_arrays<T>&, std::size_t,                           \
                                   std::span<const std::int64_t>, std::span<const T>);

TROUPE_INSTANTIATE(float)
TROUPE_INSTANTIATE(double)

#undef TROUPE_INSTANTIATE

} // namespace troupe::kernels
