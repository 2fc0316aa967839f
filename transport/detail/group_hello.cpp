#include <troupe/transport/detail/group_hello.hpp>

#include <algorithm>
#include <cstddef>

#include <troupe/transport/detail/frame_wire.hpp>

namespace troupe::detail {

namespace {

constexpr std::size_t hello_bytes = 56;
constexpr std::size_t notice_text_max = 4096;
constexpr std::size_t notice_missing_max = 1024;

template <class T>
void append(std::string& to, T value) {
  std::byte bytes[sizeof(T)];
  put(bytes, value);
  to.append(reinterpret_cast<const char*>(bytes), sizeof(T));
}

template <class T>
T take(std::string_view& from) {
  const T out = get<T>(reinterpret_cast<const std::byte*>(from.data()));
  from.remove_prefix(sizeof(T));
  return out;
}

} // namespace

std::string encode(const group_hello& hello) {
  std::string out;
  append(out, hello.group);
  append(out, static_cast<std::uint32_t>(hello.epoch));
  append(out, hello.from);
  append(out, hello.to);
  append(out, hello.size);
  append(out, hello.members);
  append(out, hello.locality.host);
  append(out, hello.locality.process);
  append(out, hello.attempt);
  append(out, std::uint32_t{hello.is_data});
  return out;
}

std::optional<group_hello> decode_hello(std::string_view meta) {
  if (meta.size() != hello_bytes)
    return std::nullopt;
  group_hello out;
  out.group = take<std::uint64_t>(meta);
  out.epoch = static_cast<group_epoch>(take<std::uint32_t>(meta));
  out.from = take<std::uint32_t>(meta);
  out.to = take<std::uint32_t>(meta);
  out.size = take<std::uint32_t>(meta);
  out.members = take<std::uint64_t>(meta);
  out.locality.host = take<std::uint64_t>(meta);
  out.locality.process = take<std::uint64_t>(meta);
  out.attempt = take<std::uint32_t>(meta);
  const auto is_data = take<std::uint32_t>(meta);
  out.is_data = is_data == 1;
  return is_data <= 1 ? std::optional{out} : std::nullopt;
}

std::string encode(const group_notice& notice) {
  std::string out;
  const std::size_t missing = std::min(notice.missing.size(), notice_missing_max);
  append(out, std::uint32_t{static_cast<std::uint8_t>(notice.code)});
  append(out, static_cast<std::uint32_t>(missing));
  for (std::size_t i = 0; i < missing; ++i)
    append(out, notice.missing[i]);
  out.append(notice.text, 0, notice_text_max);
  return out;
}

std::optional<group_notice> decode_notice(std::string_view meta) {
  if (meta.size() < 2 * sizeof(std::uint32_t))
    return std::nullopt;
  group_notice out;
  const auto code = take<std::uint32_t>(meta);
  const auto missing = take<std::uint32_t>(meta);
  if (code > 0xff || missing > meta.size() / sizeof(std::uint32_t))
    return std::nullopt;
  out.code = static_cast<errc>(code);
  if (out.code == errc::none || to_string(out.code) == to_string(static_cast<errc>(0xff)))
    return std::nullopt; // no reason, or none that there is
  for (std::uint32_t i = 0; i < missing; ++i)
    out.missing.push_back(take<std::uint32_t>(meta));
  out.text = std::string{meta};
  return out;
}

} // namespace troupe::detail
