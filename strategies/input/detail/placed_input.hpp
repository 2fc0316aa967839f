#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include <troupe/actors/devices/device_plane.hpp>
#include <troupe/data/distributed_input.hpp>
#include <troupe/device/tensor.hpp>

namespace troupe::detail {

class replica_engine;

/// A replica's piece of a step on its device. No parts: it was not put there.
struct placed_piece {
  element host{};
  std::vector<device_tensor> parts{};
  stream_event done{}; ///< behind the copies
};

/// A step's pieces on the replicas' devices. Immutable once made; any thread.
class placed_input {
public:
  explicit placed_input(std::vector<placed_piece> pieces) : pieces_{std::move(pieces)} {}
  const placed_piece& piece(std::size_t replica) const { return pieces_.at(replica); }
  /// The device that the piece was put on.
  std::optional<device_id> where(std::size_t replica) const;
  /// The copy of host tensor `x`, which is a part of the replica's piece; null: there is none.
  const device_tensor* find(std::size_t replica, const tensor& x) const;

private:
  const std::vector<placed_piece> pieces_;
};

/// Puts pieces on the GPUs of a strategy's replicas, by a stream of its own on each; what is for a
/// CPU stays where it is, in host memory. One thread at a time.
class device_feeder {
public:
  /// Null when no replica is on a GPU. Pieces for a GPU that can't be had, or has no stream left,
  /// stay in host memory (`input.not_placed` is traced).
  static std::unique_ptr<device_feeder> make(replica_engine& of);
  device_feeder(const device_feeder&) = delete;
  device_feeder& operator=(const device_feeder&) = delete;
  ~device_feeder();

  /// Starts the copies and does not wait for them. A piece that a device does not take stays in
  /// host memory: the replica that asks for it is told why.
  std::shared_ptr<const placed_input> place(const std::vector<input_piece>& pieces) const;

private:
  struct target {
    std::shared_ptr<device> on{}; ///< null: a CPU
    device_stream stream{};
  };
  static result<target> target_on(device_plane& devices, const device_id& id,
                                  std::uint32_t replica);
  device_feeder(const environment& env, std::vector<target> targets)
    : env_{env}, targets_{std::move(targets)} {}
  result<placed_piece> placed(const target& to, const element& x) const;
  const environment env_;
  const std::vector<target> targets_;
};

} // namespace troupe::detail
