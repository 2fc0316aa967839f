#include <troupe/transport/detail/group_hello.hpp>

#include <algorithm>
#include <cstddef>

#include <troupe/core/failure_codec.hpp>
#include <troupe/core/mac.hpp>
#include <troupe/kernels/hash.hpp>
#include <troupe/transport/detail/frame_wire.hpp>

namespace troupe::detail {

namespace {

constexpr std::size_t hello_bytes = 68;
constexpr std::size_t notice_text_max = 4096;
constexpr std::size_t notice_missing_max = 1024;
constexpr std::size_t notice_doing_max = 1024;
constexpr std::size_t challenge_bytes = 16;
constexpr std::size_t code_bytes = 64;

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

std::uint64_t hash_of(const std::vector<collective_member>& members) {
  kernels::hasher hash;
  for (const collective_member& m : members) {
    hash.update(&m.id, sizeof m.id);
    hash.update(m.address.data(), m.address.size() + 1);
  }
  return hash.digest();
}

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
  append(out, hello.life);
  append(out, hello.version);
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
  out.life = take<std::uint64_t>(meta);
  out.version = take<std::uint32_t>(meta);
  return is_data <= 1 ? std::optional{out} : std::nullopt;
}

std::string encode(const group_challenge& challenge) {
  std::string out;
  append(out, challenge.first);
  append(out, challenge.second);
  return out;
}

std::optional<group_challenge> decode_challenge(std::string_view meta) {
  if (meta.size() != challenge_bytes)
    return std::nullopt;
  group_challenge out;
  out.first = take<std::uint64_t>(meta);
  out.second = take<std::uint64_t>(meta);
  return out;
}

std::string encode(const group_proof& proof) { return encode(proof.mine) + proof.code; }

std::optional<group_proof> decode_proof(std::string_view meta) {
  if (meta.size() != challenge_bytes + code_bytes)
    return std::nullopt;
  return group_proof{*decode_challenge(meta.substr(0, challenge_bytes)),
                     std::string{meta.substr(challenge_bytes)}};
}

std::string dialer_code(std::string_view token, const group_hello& hello,
                        const group_challenge& to) {
  return message_code(token, "group dialer\n" + encode(hello) + encode(to));
}

std::string answer_code(std::string_view token, const group_hello& welcome,
                        const group_challenge& to) {
  return message_code(token, "group answer\n" + encode(welcome) + encode(to));
}

std::optional<group_welcome> decode_welcome(std::string_view meta) {
  if (meta.size() != hello_bytes && meta.size() != hello_bytes + code_bytes)
    return std::nullopt;
  const auto hello = decode_hello(meta.substr(0, hello_bytes));
  if (!hello)
    return std::nullopt;
  return group_welcome{*hello, std::string{meta.substr(hello_bytes)}};
}

std::string encode(const group_notice& notice) {
  std::string out;
  const std::size_t missing = std::min(notice.missing.size(), notice_missing_max);
  append(out, static_cast<std::uint32_t>(missing));
  append(out, static_cast<std::uint32_t>(notice.epoch));
  const auto doing = std::string_view{notice.doing}.substr(0, notice_doing_max);
  append(out, static_cast<std::uint32_t>(doing.size()));
  for (std::size_t i = 0; i < missing; ++i)
    append(out, notice.missing[i]);
  out += doing;
  auto why = notice.why;
  why.text = why.text.substr(0, notice_text_max);
  return out + encode_failure(why);
}

std::optional<group_notice> decode_notice(std::string_view meta) {
  if (meta.size() < 3 * sizeof(std::uint32_t))
    return std::nullopt;
  group_notice out;
  const auto missing = take<std::uint32_t>(meta);
  const auto epoch = take<std::uint32_t>(meta);
  const auto doing = take<std::uint32_t>(meta);
  if (missing > meta.size() / sizeof(std::uint32_t)
      || doing > meta.size() - missing * sizeof(std::uint32_t))
    return std::nullopt;
  for (std::uint32_t i = 0; i < missing; ++i)
    out.missing.push_back(take<std::uint32_t>(meta));
  out.epoch = static_cast<group_epoch>(epoch);
  out.doing = meta.substr(0, doing);
  auto why = decode_failure(meta.substr(doing));
  if (!why || why->code == errc::none)
    return std::nullopt; // no reason, or none that there is
  out.why = std::move(*why);
  return out;
}

} // namespace troupe::detail
