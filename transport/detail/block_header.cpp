#include <troupe/transport/detail/block_header.hpp>

#include <troupe/transport/detail/frame_wire.hpp>

namespace troupe::detail {

namespace {

std::string differ(const char* field, std::uint64_t got, std::uint64_t expected) {
  return std::string{field} + " " + std::to_string(got) + ", expected " + std::to_string(expected);
}

} // namespace

block_header_image encode(const block_header& header) {
  block_header_image out{};
  put(out.data(), block_magic);
  put(out.data() + 4, header.epoch);
  put(out.data() + 8, header.operation);
  put(out.data() + 12, header.description);
  put(out.data() + 16, header.segment);
  put(out.data() + 20, header.length);
  put(out.data() + 24, header.offset);
  return out;
}

block_judgement judge(const block_header_image& image, const block_header& expected) {
  const auto u32 = [&](std::size_t at) { return get<std::uint32_t>(image.data() + at); };
  block_judgement out;
  out.length = u32(20);
  if (u32(0) != block_magic) {
    out.what = differ("magic", u32(0), block_magic);
    return out;
  }
  if (out.length > block_bytes_max) {
    out.what = differ("length", out.length, block_bytes_max) + " at most";
    return out;
  }
  if (u32(4) != expected.epoch) {
    out.verdict = block_verdict::stale;
    out.what = differ("group epoch", u32(4), expected.epoch);
    return out;
  }
  if (u32(8) != expected.operation || u32(12) != expected.description) {
    out.verdict = block_verdict::mismatch;
    out.what = u32(8) != expected.operation ? differ("operation", u32(8), expected.operation)
                                            : differ("description", u32(12), expected.description);
    return out;
  }
  const auto offset = get<std::uint64_t>(image.data() + 24);
  out.what = u32(16) != expected.segment     ? differ("segment", u32(16), expected.segment)
             : out.length != expected.length ? differ("length", out.length, expected.length)
                                             : differ("offset", offset, expected.offset);
  return out;
}

} // namespace troupe::detail
