#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <caf/actor.hpp>
#include <caf/actor_system.hpp>

#include <troupe/core/environment.hpp>

/// A script of actors on three processes that talk to each other in every way that production code
/// uses, and the outcome of each. The same script runs on simulated links and on CAF's network.
namespace compat {

/// One process of the script.
struct place {
  caf::actor_system& system;
  const troupe::environment& env;
  caf::actor network; ///< speaks the protocol of CAF's middleman
  std::string host{}; ///< what others dial to reach it
};

/// What the processes of one script share: who listens where, and what came out. Any thread.
class script {
public:
  struct address {
    std::string host{};
    std::uint16_t port = 0; ///< 0: nobody listens there yet
  };
  void listens(const std::string& name, address at);
  address find(const std::string& name) const;
  void outcome(std::string what, std::string how);
  /// In the order of the script.
  std::vector<std::pair<std::string, std::string>> outcomes() const;

private:
  mutable std::mutex mutex_;
  std::map<std::string, address> addresses_{};
  std::vector<std::pair<std::string, std::string>> outcomes_{};
};

/// Runs on the calling thread until the script has ended. `beta` and `gamma` serve, `gamma`
/// also keeps the membership of a cluster; `alpha` asks.
void run_alpha(const place& here, script& shared);
void run_beta(const place& here, script& shared);
void run_gamma(const place& here, script& shared);

} // namespace compat
