#pragma once

#include <string>
#include <tuple>
#include <vector>

#include <troupe/core/caf_compat.hpp>
#include <troupe/core/flat_fields.hpp>

namespace troupe {

/// A part that is handed over in one process never travels.
template <detail::cereal_archive Archive, class T>
void serialize(Archive&, local_only<T>&) {}

namespace detail {

/// Inspects `head` field by field, and `items` as one string of plain bytes: CAF's own archives
/// make and test an error object for every field, and with a few dozen small structs a message that
/// was a third of what a closure cost between processes. Reading checks every length; broken bytes
/// fail the message.
template <class Inspector, class T, class... Head>
typename Inspector::result_type inspect_packed(Inspector& f, std::vector<T>& items, Head&... head) {
  if constexpr (Inspector::reads_state) {
    plain_writer out;
    out(items);
    return f(head..., out.out.bytes);
  } else {
    std::string bytes;
    auto unpack = [&] { return read_flat(bytes, items); };
    return f(head..., bytes, caf::meta::load_callback(unpack));
  }
}

} // namespace detail
} // namespace troupe

/// TROUPE_FIELDS for a message whose only big part is the list `items`.
#define TROUPE_PACKED_FIELDS(type, items, ...)                                        \
  auto head_fields() { return std::tie(__VA_ARGS__); }                                \
  template <class Inspector>                                                          \
  friend typename Inspector::result_type inspect(Inspector& f, type& x) {             \
    return std::apply(                                                                \
      [&](auto&... ys) { return troupe::detail::inspect_packed(f, x.items, ys...); }, \
      x.head_fields());                                                               \
  }                                                                                   \
  template <troupe::detail::cereal_archive Archive>                                   \
  friend void serialize(Archive& ar, type& x) {                                       \
    std::apply([&ar](auto&... ys) { ar(ys...); }, x.head_fields());                   \
    ar(x.items);                                                                      \
  }
