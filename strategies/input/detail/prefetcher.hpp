#pragma once

#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <troupe/strategies/input/detail/distributed_source.hpp>
#include <troupe/strategies/input/detail/placed_input.hpp>

namespace troupe::detail {

/// A step of an iterator, or what making it threw.
struct prefetched_batch {
  input_step step{};
  std::shared_ptr<const placed_input> placed{}; ///< null: nothing was put on a device
  std::vector<std::string> positions{};         ///< behind it, one a pipeline
  std::exception_ptr error{};
  /// Whether no step follows: the data has ended here, or broke.
  bool is_last() const { return error || !step.has_data; }
};

/// The pipelines that make steps. One thread at a time, except for the calls that describe a
/// pipeline.
struct batch_producer {
  piece_pipelines pipelines{};
  std::vector<std::uint32_t> order{}; ///< whose the pieces of one pipeline are; empty: in order
  std::unique_ptr<device_feeder> feeder{};
  /// The next step of all replicas here; without positions.
  prefetched_batch make();
  /// Throws `wrong_state` after an error.
  std::vector<std::string> positions() const;
};

/// The queue between an iterator and its thread, which makes steps until so many are ready.
/// Thread-safe.
class input_queue final : public strategy_part {
public:
  input_queue(const environment& env, std::shared_ptr<batch_producer> maker, std::uint32_t steps);
  /// A thread will `serve`. False: the strategy was closed.
  bool begin();
  /// The thread's body. @pre `begin`
  void serve();
  /// The thread that was to serve could not be started.
  void never_began();
  /// The oldest step, once it is ready. `wrong_state` when the strategy was closed meanwhile.
  prefetched_batch take();
  /// The thread ends behind what it is making; waits for that until `deadline`. False: it still
  /// runs.
  bool stop(time_point deadline);
  /// Drops what is ready. @pre no thread runs
  void clear();
  bool close(time_point deadline) override;

private:
  const environment env_;
  const std::shared_ptr<batch_producer> maker_; ///< the thread's, while one runs
  const std::uint32_t steps_;
  std::mutex mutex_{};
  const std::unique_ptr<wait_point> changed_;
  std::deque<prefetched_batch> ready_{};
  bool stopping_ = false;
  bool closed_ = false;
  bool runs_ = false;
};

/// An iterator's place, with the steps that a thread makes ahead of it. The program's threads, one
/// at a time. What is ready does not show: positions are those behind what `next` gave, and an
/// error is thrown by the `next` that it belongs to.
class prefetcher {
public:
  /// Begins no thread before the first `next`.
  explicit prefetcher(std::shared_ptr<distributed_source> source);
  /// Ends the thread. One whose dataset function does not return in ten seconds is left behind, as
  /// the runtime's end will tell.
  ~prefetcher();
  prefetcher(const prefetcher&) = delete;
  prefetcher& operator=(const prefetcher&) = delete;

  /// Throws what the datasets throw; `wrong_state` once the runtime has ended.
  prefetched_batch next();
  void start_pass(std::uint64_t pass);
  std::uint64_t pass() const { return pass_; }
  /// The positions, one for each pipeline. Throws `wrong_state` after an error.
  std::vector<std::string> positions() const;
  /// Goes to saved positions. @pre as many as pipelines. Throws `corrupt`, `mismatch`, and then
  /// stays as it was.
  void restore(const std::vector<std::string>& positions);
  std::size_t pipelines() const { return maker_->pipelines.size(); }
  /// The first pipeline, for the calls that describe it.
  const pipeline_pieces& first() const { return maker_->pipelines.front(); }

private:
  bool has_thread();
  void end_thread(time_point deadline);
  const std::shared_ptr<distributed_source> source_;
  const std::shared_ptr<batch_producer> maker_;
  std::shared_ptr<input_queue> queue_{}; ///< null: nothing is made ahead
  std::unique_ptr<thread_handle> thread_{};
  /// The positions behind the last step that `next` gave, while there is a thread; else the
  /// pipelines tell.
  std::optional<std::vector<std::string>> given_{};
  std::uint64_t pass_ = 0;
  bool begun_ = false;
  bool direct_ = false; ///< no thread in the rest of this pass
};

} // namespace troupe::detail
