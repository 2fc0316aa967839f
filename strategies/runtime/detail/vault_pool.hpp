#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include <troupe/actors/data_plane/server_vault.hpp>
#include <troupe/core/result.hpp>

/// The program's ways to the servers for checkpoints. Private to strategies/.
namespace troupe {

/// Sessions that saves and restores share, one a server however many shards it holds; one that is
/// in use is its user's alone. Any thread.
class vault_pool {
public:
  using maker = std::function<result<std::unique_ptr<server_vault>>(std::uint32_t server)>;

  explicit vault_pool(maker open) : open_{std::move(open)} {}

  /// Ends the idle sessions; the ones in use end with their users.
  void close();
  /// Sessions that were opened so far, for tests.
  std::uint64_t opened() const;

private:
  friend class vaults;
  result<std::unique_ptr<server_vault>> take(std::uint32_t server);
  void give_back(std::uint32_t server, std::unique_ptr<server_vault> vault);

  const maker open_;
  mutable std::mutex mutex_{};
  std::map<std::uint32_t, std::unique_ptr<server_vault>> idle_{}; ///< at most one a server
  std::uint64_t opened_ = 0;
  bool closed_ = false;
};

/// Sessions that one save or restore borrows of the pool. One thread.
class vaults {
public:
  /// A session that ends in the middle of a call is made anew so often: all calls may be made
  /// twice.
  static constexpr int tries_max = 3;

  explicit vaults(vault_pool& from) : from_{from} {}
  ~vaults();
  vaults(const vaults&) = delete;
  vaults& operator=(const vaults&) = delete;

  /// `call(vault)`, a `result`, on the session of that server.
  template <class F>
  auto ask(std::uint32_t server, F call) -> decltype(call(std::declval<server_vault&>())) {
    for (int left = tries_max;; --left) {
      auto vault = std::exchange(held_[server], nullptr);
      if (!vault) {
        auto made = from_.take(server);
        if (!made)
          return std::move(made.error());
        vault = std::move(*made);
      }
      auto answer = call(*vault);
      if (answer)
        held_[server] = std::move(vault); // else, or when it throws, it may be at its end
      if (answer || answer.error().code != errc::connection_lost || left <= 1)
        return answer;
    }
  }

private:
  vault_pool& from_;
  std::map<std::uint32_t, std::unique_ptr<server_vault>> held_{};
};

} // namespace troupe
