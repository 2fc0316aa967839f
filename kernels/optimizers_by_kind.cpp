#include <troupe/kernels/detail/strict_math.hpp>

#include <troupe/kernels/optimizers.hpp>

#include <stdexcept>
#include <string>

namespace troupe::kernels {

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
