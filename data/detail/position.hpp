#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <troupe/core/error.hpp>
#include <troupe/core/payload.hpp>

/// Saved positions: numbers one after the other, little-endian u64 each. The whole is framed in
/// iterator.cpp.
namespace troupe::detail {

class position_out {
public:
  void put(std::uint64_t x) { out_(x); }
  const std::string& bytes() const { return out_.out.bytes; }

private:
  plain_writer out_;
};

class position_in {
public:
  explicit position_in(std::string_view bytes) : in_{bytes} {}
  /// The next number; throws `corrupt` naming `field` when there is none or it is over `max`.
  std::uint64_t take(std::string_view field, std::uint64_t max) {
    std::uint64_t x = 0;
    if (in_.rest_bytes() < sizeof x)
      throw_failure(errc::corrupt, "dataset position: ends before " + std::string{field});
    in_(x);
    if (x > max)
      throw_failure(errc::corrupt, "dataset position: " + std::string{field} + " is "
                                     + std::to_string(x) + ", over " + std::to_string(max));
    return x;
  }
  bool take_flag(std::string_view field) { return take(field, 1) == 1; }
  std::size_t rest_bytes() const { return in_.rest_bytes(); }

private:
  checked_reader in_;
};

} // namespace troupe::detail
