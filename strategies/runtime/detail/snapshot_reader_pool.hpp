#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include <troupe/actors/data_plane/snapshot_reader.hpp>
#include <troupe/core/result.hpp>

/// The program's ways to the servers for checkpoints. Private to strategies/.
namespace troupe {

/// Sessions that saves and restores share, one a server however many shards it holds; one that is
/// in use is its user's alone. Any thread.
class snapshot_reader_pool {
public:
  using maker = std::function<result<std::unique_ptr<snapshot_reader>>(std::uint32_t server)>;

  explicit snapshot_reader_pool(maker open) : open_{std::move(open)} {}

  /// Ends the idle sessions; the ones in use end with their users.
  void close();
  /// Sessions that were opened so far, for tests.
  std::uint64_t opened() const;

private:
  friend class snapshot_readers;
  result<std::unique_ptr<snapshot_reader>> take(std::uint32_t server);
  void give_back(std::uint32_t server, std::unique_ptr<snapshot_reader> reader);

  const maker open_;
  mutable std::mutex mutex_{};
  std::map<std::uint32_t, std::unique_ptr<snapshot_reader>> idle_{}; ///< at most one a server
  std::uint64_t opened_ = 0;
  bool closed_ = false;
};

/// Sessions that one save or restore borrows of the pool. One thread.
class snapshot_readers {
public:
  /// A session that ends in the middle of a call is made anew so often: all calls may be made
  /// twice.
  static constexpr int tries_max = 3;

  explicit snapshot_readers(snapshot_reader_pool& from) : from_{from} {}
  ~snapshot_readers();
  snapshot_readers(const snapshot_readers&) = delete;
  snapshot_readers& operator=(const snapshot_readers&) = delete;

  /// `call(snapshot reader)`, a `result`, on the session of that server.
  template <class F>
  auto ask(std::uint32_t server, F call) -> decltype(call(std::declval<snapshot_reader&>())) {
    for (int left = tries_max;; --left) {
      auto reader = std::exchange(held_[server], nullptr);
      if (!reader) {
        auto made = from_.take(server);
        if (!made)
          return std::move(made.error());
        reader = std::move(*made);
      }
      auto answer = call(*reader);
      if (answer)
        held_[server] = std::move(reader); // else, or when it throws, it may be at its end
      if (answer || answer.error().code != errc::connection_lost || left <= 1)
        return answer;
    }
  }

private:
  snapshot_reader_pool& from_;
  std::map<std::uint32_t, std::unique_ptr<snapshot_reader>> held_{};
};

} // namespace troupe
