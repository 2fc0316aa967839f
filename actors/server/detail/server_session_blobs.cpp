// Questions about blobs: bytes that are kept for others.
#include <troupe/actors/server/detail/server_session.hpp>

#include <utility>

namespace troupe {

namespace {

failure no_blobs() { return make_failure(errc::wrong_state, "this process does not store blobs"); }

} // namespace

result<void> server_session::on_put_blob() {
  auto key = decode_meta<blob_key>(in_.meta(), "put_blob");
  if (!key)
    return key.error();
  auto bytes = std::exchange(blob_, {});
  answer_done(options_.blobs ? options_.blobs->put(*key, std::move(bytes))
                             : result<void>{no_blobs()});
  return {};
}

result<void> server_session::on_get_blob() {
  auto key = decode_meta<blob_key>(in_.meta(), "get_blob");
  if (!key)
    return key.error();
  outcome_meta out;
  std::vector<bulk_part> bulk;
  auto found = options_.blobs ? options_.blobs->get(*key) : nullptr;
  if (found)
    bulk.push_back({std::as_bytes(std::span{*found}), found});
  else if (options_.blobs)
    out.why =
      make_failure(errc::not_found, "no blob of closure " + std::to_string(key->closure.seq)
                                      + " attempt " + std::to_string(value_of(key->attempt)));
  else
    out.why = no_blobs();
  answer(data_kind::blob_reply, encode_meta(std::move(out)), std::move(bulk));
  return {};
}

result<void> server_session::on_drop_blob() {
  auto key = decode_meta<blob_key>(in_.meta(), "drop_blob");
  if (!key)
    return key.error();
  if (options_.blobs)
    options_.blobs->drop(*key);
  answer_done(options_.blobs ? result<void>{} : result<void>{no_blobs()});
  return {};
}

} // namespace troupe
