#pragma once

#include <stdexcept>
#include <string>
#include <tuple>

#include <cereal/types/string.hpp>
#include <cereal/types/vector.hpp>

#include <troupe/core/fields.hpp>
#include <troupe/core/payload.hpp>

#include <caf/error.hpp>
#include <caf/meta/load_callback.hpp>
#include <caf/sec.hpp>

namespace troupe::detail {

/// Reads `to` from all of `bytes`, every length checked; an error when they don't fit.
template <class T>
caf::error read_flat(const std::string& bytes, T& to) {
  try {
    checked_reader in{bytes};
    in(to);
    return in.rest_bytes() == 0 ? caf::error{} : caf::error{caf::sec::invalid_argument};
  } catch (const std::length_error&) {
    return caf::sec::invalid_argument;
  }
}

/// Inspects `x` as one string of plain bytes.
template <class Inspector, class T>
typename Inspector::result_type inspect_flat(Inspector& f, T& x) {
  if constexpr (Inspector::reads_state) {
    plain_writer out;
    out(x);
    return f(out.out.bytes);
  } else {
    std::string bytes;
    auto unpack = [&] { return read_flat(bytes, x); };
    return f(bytes, caf::meta::load_callback(unpack));
  }
}

} // namespace troupe::detail

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
