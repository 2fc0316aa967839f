#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>

#include <troupe/core/ids.hpp>

namespace troupe {

/// Codes of Troupe's errors, in families of ten. Each comment tells the meaning and whether the
/// same call can succeed later.
enum class errc : std::uint8_t {
  none = 0, ///< no error
  // usage
  invalid_argument = 10, ///< a value out of its domain. retry: no
  shape_mismatch = 11,   ///< a tensor of another shape than the variable's. retry: no
  dtype_mismatch = 12,   ///< a tensor of another element type. retry: no
  unknown_name = 13,     ///< nothing goes by that name. retry: no
  not_registered = 14,   ///< a function without TROUPE_FUNCTION. retry: no
  wrong_state = 15,      ///< the call does not fit what the object is doing. retry: no
  out_of_range = 16,     ///< an index past the end. retry: no
  user_code = 17,        ///< a step threw; the text names the type and quotes what(). retry: no
  end_of_data = 18,      ///< a finite dataset ended. retry: no
  bad_config = 19,       ///< a cluster specification or flag that cannot be used. retry: no
  // cluster
  unavailable = 20, ///< a task that is needed is not there. retry: after recovery
  deadline = 21,    ///< the given time passed. retry: yes
  cancelled = 22,   ///< the closure was cancelled; schedule it again. retry: yes
  aborted = 23,     ///< the value went with its worker. retry: yes
  fenced = 24,      ///< the sender's incarnation is fenced. retry: no, rejoin first
  superseded = 25,  ///< a newer coordinator term is in force. retry: no
  task_taken = 26,  ///< another live process holds the task. retry: no
  wrong_peer = 27,  ///< another version, cluster, token or function table. retry: no
  poisoned = 28,    ///< a closure that took too many workers with it. retry: no
  try_again = 29,   ///< the receiver is not ready. retry: yes
  // transport
  connection_lost = 30, ///< the socket ended. retry: after recovery
  connect_failed = 31,  ///< nobody answers at that address. retry: yes
  address_in_use = 32,  ///< cannot listen there. retry: no
  bad_frame = 33,       ///< a frame that breaks the grammar. retry: no
  too_large = 34,       ///< a length over its limit. retry: no
  peer_lost = 35,       ///< a member of a group is gone. retry: after recovery
  revoked = 36,         ///< the group's epoch was ended. retry: after recovery
  // parameters
  unknown_variable = 40, ///< no such variable or shard. retry: no
  mismatch = 41,         ///< created before with another specification. retry: no
  wrong_shard_view = 42, ///< the shard moved. retry: yes
  input_failed = 43,     ///< a resource that the closure takes could not be built. retry: no
  // checkpoints and files
  io_failed = 50, ///< the storage said no. retry: no
  corrupt = 51,   ///< a checksum or a length does not hold. retry: no
  not_found = 52, ///< no such file or checkpoint. retry: no
  no_space = 53,  ///< the storage is full. retry: no
  // devices
  device_lost = 60,        ///< the device is gone. retry: after recovery
  device_memory = 61,      ///< its memory does not suffice. retry: yes, once some is given back
  launch_failed = 62,      ///< an operation could not be started or broke. retry: no
  device_timeout = 63,     ///< an operation did not end in time. retry: after recovery
  device_unavailable = 64, ///< no such device here, or no library for it. retry: no
  collective_failed = 65,  ///< a collective among devices broke. retry: after recovery
  // the machine
  out_of_memory = 70, ///< the process has no memory for it; the text says for what. retry: no
};

/// "shape_mismatch"; "errc(?)" for a value outside the enum.
std::string_view to_string(errc code);

/// Whether the same call can succeed later.
enum class retry_class : std::uint8_t { no = 0, yes = 1, after_recovery = 2 };

/// The class that the comment of each `errc` tells.
retry_class default_retry(errc code);

/// The task that an error comes from.
struct origin {
  task_id task{};
  incarnation inc{};
  epoch_no epoch{};
  TROUPE_FIELDS(origin, task, inc, epoch)
};

/// Whether `where` names a task: a chief without an incarnation is none.
bool is_known(const origin& where);

/// An error as a value, inside the library and in messages. `text` names the object, the field and
/// the numbers.
struct failure {
  errc code = errc::none;
  origin where{};
  retry_class retry = retry_class::no;
  std::string text{};
  TROUPE_FIELDS(failure, code, where, retry, text)
};

/// A failure with the code's own retry class and no origin yet.
failure make_failure(errc code, std::string text);

/// "shape_mismatch at worker:1 (incarnation 3): ...", "shape_mismatch at worker:1: ..." for a
/// worker of a synchronous strategy, which has no incarnation. A text that begins with the task is
/// not given the task again.
std::string to_string(const failure& why);

/// The exception of blocking public calls: a `failure` with its code, origin and retry class.
class error : public std::exception {
public:
  explicit error(failure why);
  errc code() const noexcept { return why_.code; }
  const origin& where() const noexcept { return why_.where; }
  retry_class retry() const noexcept { return why_.retry; }
  const failure& details() const noexcept { return why_; }
  const char* what() const noexcept override { return text_.c_str(); }

private:
  failure why_;
  std::string text_;
};

/// Throws `troupe::error`.
[[noreturn]] void throw_failure(failure why);
[[noreturn]] void throw_failure(errc code, std::string text);

/// Prints the condition, `id` and the place, and aborts. `id` is the invariant's name or a short
/// sentence. Assertions stay on in release builds.
[[noreturn]] void assertion_failed(const char* condition, const char* id, const char* file,
                                   int line);

} // namespace troupe

#define TROUPE_ASSERT(condition, id)                                  \
  do {                                                                \
    if (!(condition))                                                 \
      ::troupe::assertion_failed(#condition, id, __FILE__, __LINE__); \
  } while (false)
