#pragma once

#include <tuple>
#include <type_traits>

#include <cereal/cereal.hpp>

/// A field list for each struct, from which both CAF's `inspect` and cereal's `serialize` come.
/// `fields()` ties the members, the type stays an aggregate (designated initializers work), and the
/// hidden friends are found by ADL from any namespace. The cereal half is constrained because CAF
/// 0.17's own trait would otherwise pick it up too.
namespace troupe::detail {

template <class A>
concept cereal_archive =
  std::is_base_of_v<cereal::detail::OutputArchiveBase,
                    A> || std::is_base_of_v<cereal::detail::InputArchiveBase, A>;

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
