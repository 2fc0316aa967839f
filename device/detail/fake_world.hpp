#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include <troupe/device/fake_backend.hpp>

/// The made-up devices behind `fake_backend`, as plain data that moves on with the clock.
/// Everything here is under `mutex`.
namespace troupe::detail {

struct fake_record {
  std::optional<time_point> passed_at{};
};

struct fake_event {
  std::uint32_t device = 0;
  std::shared_ptr<fake_record> last{};
};

struct fake_group;

struct fake_comm {
  std::shared_ptr<fake_group> of{};
  std::uint32_t device = 0;
  std::uint32_t rank = 0;
  std::uint64_t calls = 0; ///< collectives so far
  bool aborted = false;
};

/// An all_reduce of all members.
struct fake_round {
  std::map<std::uint32_t, time_point> arrived{}; ///< by rank, when its stream got there
  std::vector<void*> data{};
  bool done = false;
};

struct fake_group {
  std::uint32_t size = 0;
  std::set<std::uint32_t> joined{};
  std::map<std::uint64_t, fake_round> rounds{};
};

struct fake_item {
  enum class what : std::uint8_t { operation, record, wait, post, collective };
  what is = what::operation;
  time_point submitted{};
  duration takes{};
  const char* name = "op";
  std::function<device_answer(const launch_site&)> run{};
  std::shared_ptr<fake_record> record{};
  void (*call)(void*) = nullptr;
  void* argument = nullptr;
  fake_comm* comm = nullptr;
  std::uint64_t round = 0;
  std::uint64_t count = 0;
  bool bf16 = false;
  bool hangs = false;
  bool counted = false;     ///< its fault was looked for
  std::uint64_t run_no = 0; ///< not 0: somebody runs it
};

struct fake_stream {
  std::uint32_t device = 0;
  std::deque<fake_item> items{};
  time_point free_at{};
};

struct planted_fault {
  device_fault what{};
  std::uint64_t seen = 0;
};

struct fake_world {
  fake_world(const environment& e, fake_options o);

  /// Counts the call; the answer that a fault or a broken device gives, if any. A call that hangs
  /// waits here.
  std::optional<device_answer> hit(std::unique_lock<std::mutex>& lock, const std::string& function,
                                   std::uint32_t device, bool works_when_broken = false);
  /// Whether a fault hits this operation now.
  const device_fault* fault_of(const std::string& function, std::uint32_t device);
  void put(fake_stream& s, fake_item item);
  /// Moves all streams on to the present. Calls that streams hold are made without the lock, by
  /// the caller: they are appended to `calls`.
  void advance(std::unique_lock<std::mutex>& lock,
               std::vector<std::pair<void (*)(void*), void*>>& calls);
  bool step(std::unique_lock<std::mutex>& lock, fake_stream& s, time_point now,
            std::vector<std::pair<void (*)(void*), void*>>& calls);
  bool step_operation(std::unique_lock<std::mutex>& lock, fake_stream& s, fake_item& item,
                      time_point now);
  /// Runs the stream's first item without the lock: it is a user's. False when the item has gone
  /// meanwhile.
  bool run_unlocked(std::unique_lock<std::mutex>& lock, fake_stream& s, fake_item& item,
                    device_answer& answer);
  bool step_collective(fake_stream& s, fake_item& item, time_point now);
  void break_device(std::uint32_t device, device_answer why);
  /// Lets go of what operations that are over owned, without the lock: it may be the last to hold a
  /// tensor, whose memory comes back here.
  void bury(std::unique_lock<std::mutex>& lock);

  const environment env;
  const fake_options options;
  mutable std::mutex mutex{};
  const std::unique_ptr<wait_point> changed;
  std::vector<device_answer> broken; ///< by device; `ok`: well
  std::vector<std::unique_ptr<fake_stream>> streams{};
  std::vector<std::unique_ptr<fake_event>> events{};
  std::vector<std::unique_ptr<fake_comm>> comms{};
  std::vector<std::unique_ptr<fake_comm>> aborted_comms{}; ///< streams may still name them
  std::map<std::string, std::weak_ptr<fake_group>> groups{};
  struct block {
    std::unique_ptr<std::byte[]> bytes{};
    std::size_t size = 0;
    std::uint32_t device = 0;
  };
  std::map<void*, block> blocks{};
  std::map<void*, block> host_blocks{};
  std::vector<planted_fault> faults{};
  std::map<std::string, duration> durations{};
  std::map<std::string, std::uint64_t> called{};
  std::uint64_t released = 0; ///< grows with each `release_hangs`
  std::vector<std::function<device_answer(const launch_site&)>> over{};
  std::uint64_t hanging = 0;
  std::uint64_t runs = 0;
  std::uint64_t keys = 0;
};

} // namespace troupe::detail
