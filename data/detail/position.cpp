#include <troupe/data/detail/position.hpp>

#include <cstring>

#include <troupe/core/random.hpp>

namespace troupe::detail {

namespace {

constexpr std::size_t word_bytes = sizeof(std::uint64_t);

} // namespace

void position_out::put_bytes(std::string_view x) {
  put(x.size());
  while (!x.empty()) {
    auto n = x.size() < word_bytes ? x.size() : word_bytes;
    std::uint64_t word = 0;
    std::memcpy(&word, x.data(), n);
    put(word);
    x.remove_prefix(n);
  }
}

std::string position_in::take_bytes(std::string_view field) {
  auto size_bytes = take(field, rest_bytes());
  std::string out(size_bytes, '\0');
  for (std::size_t at = 0; at < out.size(); at += word_bytes) {
    auto word = take(field, UINT64_MAX);
    auto left = out.size() - at;
    std::memcpy(out.data() + at, &word, left < word_bytes ? left : word_bytes);
  }
  return out;
}

std::uint64_t position_hash(std::string_view bytes) {
  std::uint64_t h = 0xcbf29ce484222325;
  for (unsigned char c : bytes)
    h = (h ^ c) * 0x100000001b3;
  return mix_bits(h);
}

position_out begin_position(std::uint64_t magic, std::uint64_t fingerprint) {
  position_out out;
  out.put(magic);
  out.put(fingerprint);
  return out;
}

std::string end_position(position_out body) {
  body.put(position_hash(body.bytes()));
  return body.bytes();
}

position_in open_position(std::string_view bytes, std::uint64_t magic, std::uint64_t fingerprint,
                          const std::string& owner) {
  position_in head{bytes};
  if (auto found = head.take("magic", UINT64_MAX); found != magic)
    throw_failure(errc::corrupt, "dataset position: magic is " + std::to_string(found));
  auto of = head.take("fingerprint", UINT64_MAX);
  if (head.rest_bytes() < word_bytes)
    throw_failure(errc::corrupt, "dataset position: truncated before the checksum, at "
                                   + std::to_string(bytes.size()) + " bytes");
  auto body = bytes.substr(0, bytes.size() - word_bytes);
  position_in tail{bytes.substr(body.size())};
  if (tail.take("checksum", UINT64_MAX) != position_hash(body))
    throw_failure(errc::corrupt, "dataset position: checksum of " + std::to_string(bytes.size())
                                   + " bytes does not match");
  if (of != fingerprint)
    throw_failure(errc::mismatch, "dataset position: belongs to a dataset other than " + owner);
  return position_in{body.substr(2 * word_bytes)};
}

} // namespace troupe::detail
