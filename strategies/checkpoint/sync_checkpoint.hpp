#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <troupe/strategies/replicas/strategy.hpp>
#include <troupe/strategies/variables/distributed_variable.hpp>

/// Saving and restoring the state of a synchronous program.
namespace troupe {

/// How many checkpoints are kept.
struct sync_checkpoint_options {
  std::uint32_t keep = 2; ///< checkpoints that stay, the newest included; at least 1
};

/// Checkpoints of a program under one strategy: distributed variables with their optimizers' slots
/// and step counts, numbers of the program, and positions of its input. Every worker makes the same
/// one and calls `save` and `restore` together with the others; worker 0 writes and reads the
/// files, in the format of actors/checkpoint/checkpoint_format.hpp: under a temporary name that is
/// renamed once all of it is on the disk, with checksums. A crash at any time leaves the checkpoint
/// before or the new one; a damaged one is passed over for the one before it.
///
/// The saved values do not depend on the number of replicas. In cross-replica context, one thread
/// at a time. What a call throws, it throws on every worker.
class sync_checkpoint {
public:
  /// `invalid_argument`: an empty directory, `keep` 0, or the default strategy.
  sync_checkpoint(const strategy& of, std::string directory, sync_checkpoint_options options = {});
  ~sync_checkpoint();
  sync_checkpoint(sync_checkpoint&&) noexcept;
  sync_checkpoint& operator=(sync_checkpoint&&) noexcept;

  /// Adds a variable under its name. `invalid_argument` for a name that is taken, or a variable of
  /// another strategy.
  sync_checkpoint& add(distributed_variable variable);
  sync_checkpoint& add(const distributed_variables& variables);
  /// Adds a number of the program, the same on all workers: worker 0's is saved. `value` outlives
  /// the checkpoint object. `invalid_argument` for a name that is empty or taken.
  sync_checkpoint& add_counter(std::string name, std::int64_t& value);
  /// Adds an opaque text of each worker's own, as `distributed_iterator::save_position` gives.
  /// `invalid_argument` for a name that is empty or taken. A checkpoint of another number of
  /// workers is refused.
  sync_checkpoint& add_position(std::string name, std::function<std::string()> save,
                                std::function<void(const std::string&)> restore);

  /// Writes a checkpoint and returns its path. Throws the storage's errors (`io_failed`,
  /// `no_space`), naming the path; what a position throws, naming it and the worker.
  std::string save();
  /// Takes the newest checkpoint that is whole and returns its path; none when there is no
  /// checkpoint. Throws `corrupt` when there are some and none is whole; `mismatch` naming what
  /// does not fit; what a position throws, naming it and the worker: nothing has changed then.
  std::optional<std::string> restore();
  /// Why `restore` passed over newer checkpoints: "path: reason". On worker 0.
  const std::vector<std::string>& refused() const;

  const std::string& directory() const;
  troupe::strategy strategy() const;

private:
  friend class preemption_checkpoint;
  /// A counter whose number is kept here, for one user at a time: it stays when the user goes, and
  /// the next one finds it. `invalid_argument` while another one has it.
  std::shared_ptr<std::int64_t> own_counter(const std::string& name);

  struct state;
  std::unique_ptr<state> state_;
};

} // namespace troupe
