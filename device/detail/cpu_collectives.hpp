#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <troupe/core/device_port.hpp>
#include <troupe/core/environment.hpp>
#include <troupe/transport/collective_group.hpp>

namespace troupe::detail {

/// Collectives among the CPU devices of one process: each communicator is a member of an in-process
/// `collective_group`, formed on a thread of its own and driven by its stream's thread.
class cpu_collectives final : public collective_backend {
public:
  using push = std::function<device_answer(native_stream, device_op)>;

  cpu_collectives(const environment& env, push run);
  ~cpu_collectives() override;

  device_answer get_unique_id(unique_id& out) override;
  device_answer open(std::uint32_t device, const unique_id& key, std::uint32_t size,
                     std::uint32_t rank, native_comm& out) override;
  device_answer status(native_comm comm) override;
  device_answer all_reduce(native_comm comm, void* data, std::uint64_t count, bool bf16,
                           native_stream stream) override;
  device_answer close(native_comm comm) override { return abort(comm); }
  device_answer abort(native_comm comm) override;

private:
  /// The meeting point of the members of one key.
  struct room {
    std::mutex mutex{};
    std::unique_ptr<wait_point> changed{};
    std::vector<collective_member> members{}; ///< by rank; an empty address: not there yet
    std::size_t missing = 0;
  };
  struct member {
    std::shared_ptr<room> at{};
    std::uint32_t rank = 0;
    std::mutex mutex{};
    device_answer answer{.status = device_status::not_ready};
    bool aborted = false;
    std::unique_ptr<collective_group> group{}; ///< made before the answer is `ok`
    std::unique_ptr<thread_handle> forming{};
  };
  /// The member of a handle; null: it was ended. A handle is a number, which no other communicator
  /// gets: calls may come while it is aborted.
  std::shared_ptr<member> find(native_comm comm);
  static void form(environment& env, const std::string& name, member& m);
  std::shared_ptr<room> room_of(const unique_id& key, std::uint32_t size);

  environment env_; ///< a group wants one that it may change
  const push run_;
  std::mutex mutex_{};
  std::map<std::string, std::weak_ptr<room>> rooms_{};
  std::map<std::uintptr_t, std::shared_ptr<member>> members_{};
  std::uintptr_t last_ = 0;
};

} // namespace troupe::detail
