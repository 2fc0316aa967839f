#include <troupe/actors/data_plane/blob_client.hpp>

namespace troupe {

result<std::unique_ptr<server_rpc>> blob_client::take() {
  {
    std::lock_guard lock{mutex_};
    if (!idle_.empty()) {
      auto out = std::move(idle_.back());
      idle_.pop_back();
      return out;
    }
  }
  return server_rpc::connect(env_, peer_, after(env_.clock.now(), reply_max_), reply_max_);
}

void blob_client::give_back(std::unique_ptr<server_rpc> client) {
  std::lock_guard lock{mutex_};
  idle_.push_back(std::move(client));
}

result<std::string> blob_client::get(const blob_key& key, std::uint64_t size_bytes) {
  auto client = take();
  if (!client)
    return client.error();
  auto bytes = (*client)->get_blob(key);
  if (!bytes)
    return bytes.error(); // the channel may be at its end: the next call dials anew
  give_back(std::move(*client));
  if (bytes->size() != size_bytes)
    return make_failure(errc::corrupt, "blob of closure " + std::to_string(key.closure.seq)
                                         + " has " + std::to_string(bytes->size()) + " bytes, "
                                         + std::to_string(size_bytes) + " were announced");
  return bytes;
}

result<void> blob_client::put(const blob_key& key, std::string bytes) {
  auto client = take();
  if (!client)
    return client.error();
  auto ok = (*client)->put_blob(key, std::move(bytes));
  if (ok)
    give_back(std::move(*client));
  return ok;
}

} // namespace troupe
