#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <troupe/core/error.hpp>
#include <troupe/core/payload.hpp>

// Grammar of a saved position (little-endian u64 each):
//   position := magic fingerprint body checksum
// `fingerprint` is of what the position belongs to and `checksum` of all before.

/// Saved positions: numbers one after the other in a frame that shows damage. Any thread.
namespace troupe::detail {

class position_out {
public:
  void put(std::uint64_t x) { bytes_.append(reinterpret_cast<const char*>(&x), sizeof x); }
  /// The length, then the bytes, filled up to whole numbers.
  void put_bytes(std::string_view x);
  const std::string& bytes() const { return bytes_; }

private:
  std::string bytes_{};
};

class position_in {
public:
  explicit position_in(std::string_view bytes) : in_{bytes} {}
  /// The next number; throws `corrupt` naming `field` when there is none or it is over `max`.
  std::uint64_t take(std::string_view field, std::uint64_t max) {
    std::uint64_t x = 0;
    if (in_.rest_bytes() < sizeof x)
      throw_failure(errc::corrupt, "dataset position: truncated before " + std::string{field});
    in_(x);
    if (x > max)
      throw_failure(errc::corrupt, "dataset position: " + std::string{field} + " is "
                                     + std::to_string(x) + ", at most " + std::to_string(max)
                                     + " expected");
    return x;
  }
  std::string take_bytes(std::string_view field);
  bool take_flag(std::string_view field) { return take(field, 1) == 1; }
  std::size_t rest_bytes() const { return in_.rest_bytes(); }

private:
  checked_reader in_;
};

/// FNV-1a, finished with a mix. Source: Fowler, Noll, Vo.
std::uint64_t position_hash(std::string_view bytes);

/// A frame's begin; the body follows.
position_out begin_position(std::uint64_t magic, std::uint64_t fingerprint);
/// The whole, with its checksum.
std::string end_position(position_out body);
/// The body of `bytes`. Throws `corrupt` for a frame that does not hold and `mismatch` for one of
/// another fingerprint, naming `owner`.
position_in open_position(std::string_view bytes, std::uint64_t magic, std::uint64_t fingerprint,
                          const std::string& owner);

} // namespace troupe::detail
