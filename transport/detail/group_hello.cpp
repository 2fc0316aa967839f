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
constexpr std::size_t list_bytes_max = 8192;
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
  append(out, std::uint32_t{hello.compares ? 2u : hello.is_data ? 1u : 0u});
  append(out, hello.session);
  append(out, hello.version);
  if (!hello.list.empty()) {
    append(out, static_cast<std::uint32_t>(hello.list.size()));
    out += hello.list;
  }
  return out;
}

std::optional<group_hello> decode_hello(std::string_view meta) {
  if (meta.size() < hello_bytes)
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
  const auto purpose = take<std::uint32_t>(meta);
  out.is_data = purpose == 1;
  out.compares = purpose == 2;
  out.session = take<std::uint64_t>(meta);
  out.version = take<std::uint32_t>(meta);
  if (purpose > 2)
    return std::nullopt;
  if (meta.empty())
    return out;
  if (meta.size() <= sizeof(std::uint32_t) || meta.size() > sizeof(std::uint32_t) + list_bytes_max)
    return std::nullopt;
  const auto list_bytes = take<std::uint32_t>(meta);
  if (list_bytes != meta.size())
    return std::nullopt;
  out.list = meta;
  return out;
}

namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find('\n', at), text.size());
    auto& line = out.emplace_back(text.substr(at, end - at));
    for (char& c : line) // what others send is shown
      c = c < ' ' || c > '~' ? '?' : c;
    at = end + 1;
  }
  return out;
}

} // namespace

std::string list_text(const std::vector<collective_member>& members) {
  std::string out;
  for (const collective_member& m : members) {
    out += m.name + " " + m.address + "\n";
    if (out.size() > list_bytes_max)
      return {};
  }
  return out;
}

std::string difference(const named_list& ours, const named_list& theirs) {
  const auto a = lines_of(ours.text);
  const auto b = lines_of(theirs.text);
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    if (a[i] != b[i])
      return "at index " + std::to_string(i) + " " + ours.whose + " has " + a[i] + ", "
             + theirs.whose + " has " + b[i];
  return ours.whose + " has " + std::to_string(a.size()) + " members, " + theirs.whose + " has "
         + std::to_string(b.size());
}

std::pair<std::string, std::string> list_line(const std::string& text, std::uint32_t rank) {
  const auto lines = lines_of(text);
  if (rank >= lines.size())
    return {};
  const auto space = lines[rank].rfind(' ');
  if (space == std::string::npos)
    return {};
  return {lines[rank].substr(0, space), lines[rank].substr(space + 1)};
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
