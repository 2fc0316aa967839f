#pragma once

#include <tuple>
#include <type_traits>

/// Field lists of structs that travel, without CAF's and cereal's headers: for plain values that
/// code without CAF, such as a CUDA kernel, also reads. Whoever serializes them includes
/// fields.hpp, or flat_fields.hpp for what TROUPE_FLAT_FIELDS names.
///
/// `fields()` ties the members, the type stays an aggregate (designated initializers work), and the
/// hidden friends are found by ADL from any namespace. The cereal half is constrained because CAF
/// 0.17's own trait would otherwise pick it up too.

namespace cereal::detail {
class OutputArchiveBase;
class InputArchiveBase;
} // namespace cereal::detail

namespace troupe::detail {

template <class A>
concept cereal_archive =
  std::is_base_of_v<cereal::detail::OutputArchiveBase,
                    A> || std::is_base_of_v<cereal::detail::InputArchiveBase, A>;

/// Inspects `x` as one string of plain bytes. Defined in flat_fields.hpp.
template <class Inspector, class T>
typename Inspector::result_type inspect_flat(Inspector& f, T& x);

} // namespace troupe::detail

#define TROUPE_FIELDS(type, ...)                                           \
  auto fields() { return std::tie(__VA_ARGS__); }                          \
  template <class Inspector>                                               \
  friend typename Inspector::result_type inspect(Inspector& f, type& x) {  \
    return std::apply([&f](auto&... ys) { return f(ys...); }, x.fields()); \
  }                                                                        \
  template <troupe::detail::cereal_archive Archive>                        \
  friend void serialize(Archive& ar, type& x) {                            \
    std::apply([&ar](auto&... ys) { ar(ys...); }, x.fields());             \
  }

/// TROUPE_FIELDS for a struct with floating-point members: CAF gets plain bytes. CAF 0.17 takes a
/// float apart by arithmetic, which never ends for an infinity and makes something else of NaN.
#define TROUPE_FLAT_FIELDS(type, ...)                                     \
  auto fields() { return std::tie(__VA_ARGS__); }                         \
  template <class Inspector>                                              \
  friend typename Inspector::result_type inspect(Inspector& f, type& x) { \
    return troupe::detail::inspect_flat(f, x);                            \
  }                                                                       \
  template <troupe::detail::cereal_archive Archive>                       \
  friend void serialize(Archive& ar, type& x) {                           \
    std::apply([&ar](auto&... ys) { ar(ys...); }, x.fields());            \
  }
