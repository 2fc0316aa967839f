#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <troupe/core/data_port.hpp>
#include <troupe/core/result.hpp>
#include <troupe/core/time.hpp>

/// The ports: everything through which production code reaches the world outside. An actor or a
/// thread gets them at construction. Production and simulation differ only in who stands behind
/// them.
namespace troupe {

// --- time
// -------------------------------------------------------------------------------------------------------

/// Any thread.
/// The clock. Any thread.
class clock_port {
public:
  virtual ~clock_port() = default;
  /// Steady; the origin is the port's own and never 0.
  virtual time_point now() const = 0;
  /// Wall time, milliseconds since 1970, for people and file names only.
  virtual std::int64_t unix_ms() const = 0;
};

// --- randomness
// -------------------------------------------------------------------------------------------------

/// Any thread.
/// The source of random numbers. Any thread.
class random_port {
public:
  virtual ~random_port() = default;
  /// 64 fresh bits. `purpose` names the stream, so that the simulator's draws for one purpose don't
  /// shift another's.
  virtual std::uint64_t draw(std::string_view purpose) = 0;
};

// --- storage
// ----------------------------------------------------------------------------------------------------

/// A file being written. One thread at a time. Destroying it closes it; what was not synced may be
/// lost at a crash.
class file_writer {
public:
  virtual ~file_writer() = default;
  virtual result<void> write(std::span<const std::byte> bytes) = 0;
  /// Makes the file durable: on return what was written survives a crash of the machine.
  virtual result<void> sync() = 0;
  /// Closes the file and reports the errors that a destructor could not. No call may follow.
  virtual result<void> close() = 0;
};

/// A file being read. One thread at a time.
class file_reader {
public:
  virtual ~file_reader() = default;
  virtual std::uint64_t size_bytes() const = 0;
  /// Fills `to` from `offset_bytes`; fewer bytes than asked is `corrupt`.
  virtual result<void> read_at(std::uint64_t offset_bytes, std::span<std::byte> to) = 0;
};

/// The kind of thing under a name. `other`: a FIFO, a socket or a device.
enum class file_kind : std::uint8_t { none = 0, file = 1, directory = 2, link = 3, other = 4 };

/// "a file", "a link", ...
std::string_view to_string(file_kind kind);

/// A lock that is held until this is destroyed or its process ends, however it ends.
class file_lock {
public:
  virtual ~file_lock() = default;
};

/// Paths are as the operating system's. Errors name the path. Any thread. No call waits for another
/// process: opening a FIFO fails.
class storage_port {
public:
  virtual ~storage_port() = default;
  /// Creates or truncates.
  virtual result<std::unique_ptr<file_writer>> create(const std::string& path) = 0;
  /// `io_failed` for what is no plain file: a directory, a FIFO, a socket, a device.
  virtual result<std::unique_ptr<file_reader>> open(const std::string& path) = 0;
  /// Atomic within a directory; durable after `sync_directory`.
  virtual result<void> rename(const std::string& from, const std::string& to) = 0;
  /// A missing file is no error. Directories are removed when empty.
  virtual result<void> remove(const std::string& path) = 0;
  virtual result<void> make_directories(const std::string& path) = 0;
  virtual result<void> sync_directory(const std::string& path) = 0;
  /// Names in a directory (no path), sorted; `not_found` when there is none.
  virtual result<std::vector<std::string>> list(const std::string& path) = 0;
  virtual bool exists(const std::string& path) = 0;

  /// The kind of thing that the name itself is: a link is a `link`, wherever it leads.
  virtual result<file_kind> kind(const std::string& path) = 0;
  /// The storage below `directory`, which is there. Paths are relative to it and go without "..".
  /// No link is followed below it: a call whose path has one fails with `io_failed` and names it;
  /// `remove` and `rename` act on the link itself. Errors give the whole path. This storage
  /// outlives the returned one. `not_found`, or `io_failed` where `directory` is none.
  virtual result<std::unique_ptr<storage_port>> folder(const std::string& directory);
  /// Takes the lock called `path` without waiting: `try_again` while it is held, in this process or
  /// in any other. A file of that name may exist meanwhile. On a file system without locks every
  /// call succeeds.
  virtual result<std::unique_ptr<file_lock>> lock(const std::string& path) = 0;
};

// --- waits
// ------------------------------------------------------------------------------------------------------

/// A point at which user threads and compute threads wait: a condition variable in production, a
/// switch back to the world in simulation. Never used by an actor's handler.
class wait_point {
public:
  virtual ~wait_point() = default;
  /// @pre `lock` is held. Returns with it held, after a notification, spuriously, or (false) once
  /// `deadline` passed.
  virtual bool wait_until(std::unique_lock<std::mutex>& lock, time_point deadline) = 0;
  virtual void notify_one() = 0;
  virtual void notify_all() = 0;
};

class wait_port {
public:
  virtual ~wait_port() = default;
  virtual std::unique_ptr<wait_point> make_point() = 0;
};

/// Waits until `pred()` holds or `deadline` passed; returns `pred()`.
template <class Pred>
bool wait_for(wait_point& at, std::unique_lock<std::mutex>& lock, time_point deadline, Pred pred) {
  while (!pred())
    if (!at.wait_until(lock, deadline))
      return pred();
  return true;
}

// --- threads
// ----------------------------------------------------------------------------------------------

/// Handle of a running thread: an OS thread in production, a fiber in simulation.
class thread_handle {
public:
  /// @pre joined or abandoned.
  virtual ~thread_handle() = default;
  virtual bool ended() const = 0;
  /// Waits for the body's end. Owner's thread only.
  virtual void join() = 0;
  /// Gives the thread up: nobody will wait for it. The body must own everything that it still uses.
  virtual void abandon() = 0;
};

/// The threads of a process: compute threads and those of event loops.
class thread_port {
public:
  virtual ~thread_port() = default;
  /// Runs `body` on a thread of its own. `name` shows in debuggers and traces (15 characters are
  /// kept).
  virtual std::unique_ptr<thread_handle> start(std::string name, std::function<void()> body) = 0;
  /// Ends this process at once, as a crash would (a fenced worker with a hung step leaves like
  /// this). In simulation the node is crashed and the call does not return either.
  [[noreturn]] virtual void leave_now(int code) = 0;
  /// Lets other threads run; on a compute thread or a user thread.
  virtual void yield() = 0;
  /// Asks that the calling thread runs on part `part` of `parts` equal parts of the cores that this
  /// process may use, so that threads that compute at the same time are not put on one core while
  /// another is idle. A thread may still move within its part; threads that it starts keep to none,
  /// but a thread that it makes by other means has its part. Nothing where there are fewer cores
  /// than parts, and in simulation.
  virtual void keep_to_part(std::uint32_t part, std::uint32_t parts) {
    (void)part;
    (void)parts;
  }
  /// Takes `d` of virtual time on the calling thread in simulation; nothing in production. 0: the
  /// cost of a step that names none.
  virtual void spend(duration d) { (void)d; }
};

// --- tracing
// ----------------------------------------------------------------------------------------------------

struct trace_field {
  std::string_view key;
  std::variant<std::int64_t, std::uint64_t, double, std::string_view> value;
  trace_field(std::string_view k, std::string_view v) : key{k}, value{v} {}
  trace_field(std::string_view k, const char* v) : key{k}, value{std::string_view{v}} {}
  trace_field(std::string_view k, const std::string& v) : key{k}, value{std::string_view{v}} {}
  trace_field(std::string_view k, double v) : key{k}, value{v} {}
  template <class T>
  requires std::is_integral_v<T> trace_field(std::string_view k, T v) : key{k} {
    if constexpr (std::is_signed_v<T>)
      value = static_cast<std::int64_t>(v);
    else
      value = static_cast<std::uint64_t>(v);
  }
  template <class T>
  requires std::is_enum_v<T> trace_field(std::string_view k, T v) : trace_field{k, value_of(v)} {}
};

/// Takes named events and coverage marks. Any thread; must not block and must not throw.
class tracer {
public:
  virtual ~tracer() = default;
  virtual void event(std::string_view id, std::span<const trace_field> fields) = 0;
  /// A rare branch was taken (`worker.after_pull`). Tests hang faults on marks.
  virtual void mark(std::string_view id) = 0;
};

class device_port; // core/device_port.hpp

/// The ports of an actor or thread. The referenced ports outlive every actor that holds the
/// environment.
struct environment {
  clock_port& clock;
  random_port& random;
  storage_port& storage;
  thread_port& threads;
  wait_port& waits;
  data_transport& transport;
  tracer* trace = nullptr;        ///< null: nobody listens, and events cost a test of this pointer
  device_port* devices = nullptr; ///< null: this machine's own
};

inline void trace(const environment& env, std::string_view id,
                  std::initializer_list<trace_field> fields) {
  if (env.trace)
    env.trace->event(id, {fields.begin(), fields.size()});
}

inline void mark(const environment& env, std::string_view id) {
  if (env.trace)
    env.trace->mark(id);
}

} // namespace troupe
