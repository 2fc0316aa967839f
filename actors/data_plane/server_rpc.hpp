#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <troupe/actors/data_plane/data_session.hpp>
#include <troupe/actors/data_plane/snapshot_reader.hpp>
#include <troupe/actors/support/blob_table.hpp>
#include <troupe/core/limits.hpp>

namespace troupe {

/// A client of a server event loop, one question at a time: blobs, parts of snapshots, restores,
/// statistics. Waits on the calling thread for as long as the server takes or sends something;
/// `deadline` once it does neither for `answer_max`. One thread at a time. A call that fails by its
/// channel ends this client: `connection_lost` from then on.
class server_rpc final : public snapshot_reader {
public:
  /// Dials and greets; errors as `data_session::open`.
  static result<std::unique_ptr<server_rpc>> connect(const environment& env, const data_peer& peer,
                                                     time_point deadline,
                                                     duration answer_max = limits::request);
  ~server_rpc() override;

  /// Stores a blob. `too_large` when the table is full. `bytes` are copied to the channel from
  /// where they are.
  result<void> put_blob(const blob_key& key, std::string bytes);
  /// The bytes of a blob. `not_found` names the closure.
  result<std::string> get_blob(const blob_key& key);
  result<void> drop_blob(const blob_key& key);

  result<snapshot_piece> read_snapshot(snapshot_id snapshot, variable_id variable,
                                       shard_index shard, std::uint32_t part) override;
  result<void> restore(variable_id variable, shard_index shard, const tensor& values,
                       std::span<const tensor> slots, std::uint64_t applies,
                       std::optional<float> rate = {}) override;
  result<void> check_restore(variable_id variable, shard_index shard, dtype type,
                             const shape_t& shape, std::size_t slots,
                             std::optional<float> rate) override;
  result<store_stats> stats();

private:
  struct answer {
    std::string meta{};
    tensor bulk{}; // u8 [n]; undefined without bulk
  };
  server_rpc(const environment& env, std::unique_ptr<data_session> session, duration answer_max);
  result<answer> call(data_kind kind, std::string meta, std::vector<bulk_part> bulk,
                      data_kind expected);
  result<answer> wait_answer(std::uint64_t request, data_kind expected);
  result<void> call_done(data_kind kind, std::string meta, std::vector<bulk_part> bulk);

  const environment env_;
  std::unique_ptr<data_session> session_; // null: ended
  std::unique_ptr<channel_poller> poller_;
  duration answer_max_;
};

} // namespace troupe
