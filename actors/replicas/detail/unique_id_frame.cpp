#include <troupe/actors/replicas/detail/unique_id_frame.hpp>

#include <cstring>

namespace troupe::detail {

namespace {

constexpr std::uint8_t key_format = 1;
constexpr std::size_t key_bytes = sizeof(unique_id::bytes);
constexpr std::size_t key_begin = 4;

} // namespace

tensor pack_unique_id(const std::optional<unique_id>& key) {
  tensor out = tensor::zeros(dtype::u8, {static_cast<std::int64_t>(key_begin + key_bytes)});
  auto to = out.mutable_as<std::uint8_t>();
  to[0] = key_format;
  to[1] = key ? 1 : 0;
  to[2] = key_bytes & 0xff;
  to[3] = key_bytes >> 8;
  if (key)
    std::memcpy(to.data() + key_begin, key->bytes, key_bytes);
  return out;
}

result<std::optional<unique_id>> unpack_unique_id(const tensor& frame) {
  if (frame.type() != dtype::u8 || frame.size_bytes() != key_begin + key_bytes)
    return make_failure(errc::bad_frame,
                        "the devices' key: a frame of " + std::to_string(frame.size_bytes())
                          + " bytes, expected " + std::to_string(key_begin + key_bytes));
  const auto from = frame.as<std::uint8_t>();
  const std::size_t length = from[2] + (std::size_t{from[3]} << 8);
  if (from[0] != key_format || from[1] > 1 || length != key_bytes)
    return make_failure(errc::bad_frame, "the devices' key: format " + std::to_string(from[0])
                                           + ", " + std::to_string(from[1]) + " keys of "
                                           + std::to_string(length) + " bytes, expected format "
                                           + std::to_string(key_format) + " and at most one of "
                                           + std::to_string(key_bytes));
  if (from[1] == 0)
    return std::optional<unique_id>{};
  unique_id key;
  std::memcpy(key.bytes, from.data() + key_begin, key_bytes);
  return std::optional{key};
}

} // namespace troupe::detail
