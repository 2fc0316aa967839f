#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include <troupe/core/result.hpp>
#include <troupe/data/compression.hpp>

/// gzip and zlib streams, and how they are told from plain bytes.
namespace troupe::detail {

/// Unpacks a stream piece by piece: one or more gzip members (RFC 1952), or one zlib stream (RFC
/// 1950), both with their checksums. Holds a window of 32 KiB and no more. One thread at a time.
class inflater {
public:
  /// `kind` is gzip or zlib; `what` stands in front of errors ("csv a.gz").
  inflater(compression kind, std::string what);
  ~inflater();
  inflater(inflater&&) noexcept;
  inflater& operator=(inflater&&) noexcept;

  struct step {
    std::size_t taken = 0; ///< of `in`
    std::size_t made = 0;  ///< in `to`
  };
  /// Goes on until `in` is used up or `to` is full. `corrupt`, naming the byte, for what is no such
  /// stream, whose checksum does not hold, or that is followed by something else.
  result<step> run(std::span<const std::byte> in, std::span<std::byte> to);
  /// No more bytes will come: `corrupt` when the stream is not at an end.
  result<void> finish() const;

private:
  struct state;
  std::unique_ptr<state> state_;
};

/// The compression that a file's first bytes tell, `whole` when they are all of it. gzip is told by
/// its first four bytes. Two bytes are too few to tell zlib, text may begin with them: what follows
/// must have control characters as no text has, or unpack to its end.
compression detected(std::span<const std::byte> head, bool whole);

/// How many bytes `detected` looks at.
inline constexpr std::size_t detect_bytes = std::size_t{1} << 16;

} // namespace troupe::detail
