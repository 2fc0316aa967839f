#pragma once

#include <stdexcept>
#include <string>

#include <cereal/types/string.hpp>
#include <cereal/types/vector.hpp>

#include <troupe/core/fields.hpp>
#include <troupe/core/payload.hpp>

#include <caf/error.hpp>
#include <caf/meta/load_callback.hpp>
#include <caf/sec.hpp>

/// What TROUPE_FLAT_FIELDS (field_lists.hpp) stands on.
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
