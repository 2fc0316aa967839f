// Metas of the data plane's frames, and what a server makes room for because of them.
#include <cstring>

#include <troupe/actors/data_plane/parameter_protocol.hpp>

#include "message_decoders.hpp"
#include "samples.hpp"

namespace fuzz {

namespace {

using namespace troupe;

template <class T>
bool decode(std::string_view input) {
  auto meta = decode_meta<T>(input, "meta");
  if (!meta) {
    require(meta.error().code == errc::bad_frame, "a meta that is refused is a bad frame");
    return false;
  }
  require(encode_meta(std::move(*meta)) == input, "a meta changes when it is read and written");
  return true;
}

template <class T>
std::vector<std::string> seeds() {
  return {encode_meta(T{}), encode_meta(filled<T>())};
}

template <class T>
void add(std::vector<decoder>& to, const char* name) {
  to.push_back({std::string{"meta "} + name, decode<T>, seeds<T>});
}

/// The bulk's length as a peer would say it (8 bytes), then the meta.
bool decode_push(std::string_view input) {
  if (input.size() < 8)
    return false;
  std::uint64_t bulk_bytes = 0;
  std::memcpy(&bulk_bytes, input.data(), 8);
  bulk_bytes &= (std::uint64_t{1} << 23) - 1; // the codec has a limit as well
  auto meta = decode_meta<mutate_meta>(input.substr(8), "mutate");
  if (!meta)
    return false;
  tensor_pool pool;
  auto staged = stage_pieces(*meta, bulk_bytes, pool);
  if (!staged) {
    require(staged.error().code == errc::bad_frame, "a push that is refused is a bad frame");
    return false;
  }
  std::uint64_t room = 0;
  for (auto& part : parts_of(*staged)) {
    std::memset(part.data(), 0x5a, part.size());
    room += part.size();
  }
  require(room == bulk_bytes, "a push is staged in as many bytes as come");
  // The same where it lies, at any address.
  const std::vector<std::byte> bulk(bulk_bytes, std::byte{0x5a});
  const auto in_place = pieces_in(*meta, bulk);
  require(in_place.size() == staged->size(), "a push has as many pieces in place");
  for (std::size_t i = 0; i < in_place.size(); ++i)
    require(
      in_place[i].values == (*staged)[i].values && in_place[i].indices == (*staged)[i].indices,
      "a push has the same values in place");
  return true;
}

std::vector<std::string> push_seeds() {
  std::vector<mutation_piece> pieces(3);
  pieces[0].values = tensor::zeros(dtype::f32, {2, 3});
  pieces[1].kind = mutation_kind::scatter_add;
  pieces[1].values = tensor::zeros(dtype::f32, {2, 4});
  pieces[1].indices = tensor::zeros(dtype::i64, {2});
  pieces[2].kind = mutation_kind::set_learning_rate;
  pieces[2].values = tensor::scalar(0.5f);
  std::vector<std::string> out;
  for (std::size_t n = 1; n <= pieces.size(); ++n) {
    const auto frame = make_push(std::span{pieces}.first(n), 1);
    std::uint64_t bytes = 0;
    for (const auto& part : frame.bulk)
      bytes += part.bytes.size();
    std::string head(8, '\0');
    std::memcpy(head.data(), &bytes, 8);
    out.push_back(head + frame.meta);
  }
  return out;
}

} // namespace

void add_data_metas(std::vector<decoder>& to) {
  add<hello_meta>(to, "hello");
  add<welcome_meta>(to, "welcome");
  add<outcome_meta>(to, "outcome");
  add<read_meta>(to, "read");
  add<gather_meta>(to, "gather");
  add<blocks_meta>(to, "blocks");
  add<mutate_meta>(to, "mutate");
  add<ack_meta>(to, "ack");
  add<blob_key>(to, "blob_key");
  add<read_snapshot_meta>(to, "read_cut");
  add<snapshot_meta>(to, "cut");
  add<restore_meta>(to, "restore");
  add<store_stats>(to, "stats");
  to.push_back({"push", decode_push, push_seeds});
}

} // namespace fuzz
