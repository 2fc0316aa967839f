// What members of a group tell each other beside the data, and the headers of its blocks.
#include <cstring>

#include <troupe/transport/detail/block_header.hpp>
#include <troupe/transport/detail/frame_wire.hpp>
#include <troupe/transport/detail/group_hello.hpp>

#include "frame_decoders.hpp"

namespace fuzz {

namespace {

using namespace troupe;
using namespace troupe::detail;

std::string text_of(const block_header_image& image) {
  return {reinterpret_cast<const char*>(image.data()), image.size()};
}

block_header header_in(const std::byte* at) {
  return {get<std::uint32_t>(at + 4),  get<std::uint32_t>(at + 8),  get<std::uint32_t>(at + 12),
          get<std::uint32_t>(at + 16), get<std::uint32_t>(at + 20), get<std::uint64_t>(at + 24)};
}

/// The header that came, then the one that is expected, whose magic does not matter.
bool decode_header(std::string_view input) {
  if (input.size() < 2 * block_header_bytes)
    return false;
  block_header_image image{};
  block_header_image other{};
  std::memcpy(image.data(), input.data(), image.size());
  std::memcpy(other.data(), input.data() + image.size(), other.size());
  const auto got = header_in(image.data());
  const auto expected = header_in(other.data());
  const bool has_magic = get<std::uint32_t>(image.data()) == block_magic;
  require((encode(got) == image) == has_magic, "a block's header changes when it is written");
  if (image == encode(expected))
    return true;
  const auto found = judge(image, expected);
  require(!found.what.empty() && found.length == got.length, "a verdict has a reason");
  if (found.verdict != block_verdict::malformed)
    require(has_magic && got.length <= block_bytes_max, "only a sound block is believed");
  require((found.verdict == block_verdict::stale)
            == (has_magic && got.length <= block_bytes_max && got.epoch != expected.epoch),
          "a block is stale when its epoch is another");
  return false;
}

std::vector<std::string> header_seeds() {
  const auto image = text_of(encode({5, 9, 77, 1, 4096, 8192}));
  return {image + image};
}

bool decode_group_hello(std::string_view input) {
  auto hello = decode_hello(input);
  if (hello)
    require(encode(*hello) == input, "a hello changes when it is read and written");
  return hello.has_value();
}

std::vector<std::string> group_hello_seeds() {
  group_hello hello;
  hello.group = 1234;
  hello.epoch = group_epoch{3};
  hello.to = 1;
  hello.size = 2;
  hello.locality = {5, 6};
  hello.is_data = true;
  return {encode(group_hello{}), encode(hello)};
}

bool decode_group_notice(std::string_view input) {
  auto notice = decode_notice(input);
  if (!notice)
    return false;
  const auto once = encode(*notice);
  require(once.size() <= input.size(), "a notice grows");
  auto second = decode_notice(once);
  require(second && encode(*second) == once, "a notice changes when it is read and written");
  return true;
}

std::vector<std::string> group_notice_seeds() {
  group_notice notice;
  notice.missing = {1, 3};
  notice.why = make_failure(errc::peer_lost, "member 1 is gone");
  notice.why.where = {.task = {job_kind::worker, 1}, .inc = {2, 3}, .epoch = epoch_no{4}};
  notice.epoch = group_epoch{4};
  notice.doing = "barrier";
  return {encode(group_notice{}), encode(notice)};
}

bool decode_group_proof(std::string_view input) {
  auto proof = decode_proof(input);
  if (proof)
    require(encode(*proof) == input, "a proof changes when it is read and written");
  return proof.has_value();
}

std::vector<std::string> group_proof_seeds() {
  return {encode(group_proof{{1, 2}, std::string(64, 'a')})};
}

bool decode_group_welcome(std::string_view input) {
  auto welcome = decode_welcome(input);
  if (welcome)
    require(encode(welcome->hello) + welcome->code == input,
            "a welcome changes when it is read and written");
  return welcome.has_value();
}

std::vector<std::string> group_welcome_seeds() {
  return {encode(group_hello{}), encode(group_hello{}) + std::string(64, 'a')};
}

} // namespace

void add_groups(std::vector<decoder>& to) {
  to.push_back({"block header", decode_header, header_seeds});
  to.push_back({"group hello", decode_group_hello, group_hello_seeds});
  to.push_back({"group notice", decode_group_notice, group_notice_seeds});
  to.push_back({"group proof", decode_group_proof, group_proof_seeds});
  to.push_back({"group welcome", decode_group_welcome, group_welcome_seeds});
}

} // namespace fuzz
