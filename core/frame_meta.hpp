#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include <troupe/core/payload.hpp>
#include <troupe/core/result.hpp>

namespace troupe {

/// A struct with TROUPE_FIELDS as the meta of a frame (transport/frame.hpp): plain bytes, little
/// endian, as cereal writes them.
template <class T>
std::string encode_meta(T x) {
  plain_writer out;
  out(x);
  return std::move(out.out.bytes);
}

/// The struct in a frame's meta; `bad_frame` naming `what` when counts or lengths don't hold or
/// bytes are left. Nothing is allocated that the bytes don't bear out.
template <class T>
result<T> decode_meta(std::string_view bytes, const char* what) {
  T out{};
  try {
    checked_reader in{bytes};
    in(out);
    if (in.rest_bytes() == 0)
      return out;
    return make_failure(errc::bad_frame,
                        std::string{what} + ": " + std::to_string(in.rest_bytes()) + " bytes left");
  } catch (const std::length_error& e) {
    return make_failure(errc::bad_frame, std::string{what} + ": " + e.what());
  }
}

} // namespace troupe
