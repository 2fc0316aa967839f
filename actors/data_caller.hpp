#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <troupe/actors/data_session.hpp>
#include <troupe/actors/server_vault.hpp>

namespace troupe {

/// Asks one question at a time over a data channel and waits for the answer: checkpoints and blobs, where nothing is
/// gained by more. One lane or user thread.
class data_caller {
public:
  /// Where the answer's bulk goes, once its meta is known; the memory must hold `bulk_bytes` exactly.
  using place = std::function<result<mutable_bytes>(std::string_view meta, std::uint64_t bulk_bytes)>;

  static result<std::unique_ptr<data_caller>> open(const environment& env, const data_peer& peer, duration reply_max);
  ~data_caller();

  /// The answer's meta. `deadline` after `reply_max`; any failure makes the caller unusable.
  result<std::string> ask(data_kind question, std::string meta, std::vector<bulk_part> bulk, data_kind answer,
                          const place& to = {});
  bool usable() const { return usable_; }

private:
  data_caller(const environment& env, std::unique_ptr<data_session> session, std::string address, duration reply_max);
  result<std::string> exchange(std::uint64_t request, data_kind answer, const place& to);

  const environment env_;
  std::unique_ptr<data_session> session_;
  std::unique_ptr<channel_poller> poller_;
  std::string address_;
  duration reply_max_;
  bool usable_ = true;
};

/// To a server in another process.
class remote_server_vault final : public server_vault {
public:
  explicit remote_server_vault(std::unique_ptr<data_caller> caller) : caller_{std::move(caller)} {}
  result<cut_piece> read_cut(cut_id cut, variable_id variable, shard_index shard, std::uint32_t part) override;
  result<void> restore(variable_id variable, shard_index shard, const tensor& values, std::span<const tensor> slots,
                       std::uint64_t applies) override;

private:
  std::unique_ptr<data_caller> caller_;
};

/// A worker's way to the coordinator's blobs: channels made when needed, kept for the next call. Any lane.
class blob_client {
public:
  blob_client(const environment& env, data_peer peer, duration reply_max)
    : env_{env}, peer_{std::move(peer)}, reply_max_{reply_max} {}
  /// `unavailable` when the coordinator doesn't answer; `corrupt` when the size isn't the one announced.
  result<std::string> get(const blob_key& key, std::uint64_t size_bytes);
  result<void> put(const blob_key& key, std::string bytes);

private:
  result<std::unique_ptr<data_caller>> take();
  void give_back(std::unique_ptr<data_caller> caller);

  const environment env_;
  data_peer peer_;
  duration reply_max_;
  std::mutex mutex_{};
  std::vector<std::unique_ptr<data_caller>> idle_{};
};

} // namespace troupe
