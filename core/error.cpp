#include <troupe/core/error.hpp>

#include <cstdio>
#include <cstdlib>

namespace troupe {

std::string_view to_string(errc code) {
  switch (code) {
    case errc::none: return "none";
    case errc::invalid_argument: return "invalid_argument";
    case errc::shape_mismatch: return "shape_mismatch";
    case errc::dtype_mismatch: return "dtype_mismatch";
    case errc::unknown_name: return "unknown_name";
    case errc::not_registered: return "not_registered";
    case errc::wrong_state: return "wrong_state";
    case errc::out_of_range: return "out_of_range";
    case errc::user_code: return "user_code";
    case errc::end_of_data: return "end_of_data";
    case errc::bad_config: return "bad_config";
    case errc::unavailable: return "unavailable";
    case errc::deadline: return "deadline";
    case errc::cancelled: return "cancelled";
    case errc::aborted: return "aborted";
    case errc::fenced: return "fenced";
    case errc::superseded: return "superseded";
    case errc::task_taken: return "task_taken";
    case errc::wrong_peer: return "wrong_peer";
    case errc::poisoned: return "poisoned";
    case errc::try_again: return "try_again";
    case errc::connection_lost: return "connection_lost";
    case errc::connect_failed: return "connect_failed";
    case errc::address_in_use: return "address_in_use";
    case errc::bad_frame: return "bad_frame";
    case errc::too_large: return "too_large";
    case errc::peer_lost: return "peer_lost";
    case errc::revoked: return "revoked";
    case errc::unknown_variable: return "unknown_variable";
    case errc::mismatch: return "mismatch";
    case errc::wrong_shard_view: return "wrong_shard_view";
    case errc::input_failed: return "input_failed";
    case errc::io_failed: return "io_failed";
    case errc::corrupt: return "corrupt";
    case errc::not_found: return "not_found";
    case errc::no_space: return "no_space";
    case errc::device_lost: return "device_lost";
    case errc::device_memory: return "device_memory";
    case errc::launch_failed: return "launch_failed";
    case errc::device_timeout: return "device_timeout";
    case errc::device_unavailable: return "device_unavailable";
    case errc::collective_failed: return "collective_failed";
    case errc::out_of_memory: return "out_of_memory";
  }
  return "errc(?)";
}

retry_class default_retry(errc code) {
  switch (code) {
    case errc::deadline:
    case errc::cancelled:
    case errc::aborted:
    case errc::try_again:
    case errc::connect_failed:
    case errc::device_memory:
    case errc::wrong_shard_view: return retry_class::yes;
    case errc::unavailable:
    case errc::connection_lost:
    case errc::peer_lost:
    case errc::revoked:
    case errc::device_lost:
    case errc::device_timeout:
    case errc::collective_failed: return retry_class::after_recovery;
    default: return retry_class::no;
  }
}

failure make_failure(errc code, std::string text) {
  return {.code = code, .where = {}, .retry = default_retry(code), .text = std::move(text)};
}

bool is_known(const origin& where) { return where.inc.counter != 0 || where.task != task_id{}; }

std::string to_string(const failure& why) {
  std::string out{to_string(why.code)};
  const auto task = to_string(why.where.task);
  if (why.where.inc.counter != 0)
    out += " at " + task + " (incarnation " + std::to_string(why.where.inc.counter) + ")";
  else if (is_known(why.where) && !why.text.starts_with(task))
    out += " at " + task;
  if (!why.text.empty())
    out += ": " + why.text;
  return out;
}

error::error(failure why) : why_{std::move(why)}, text_{to_string(why_)} {}

void throw_failure(failure why) { throw error{std::move(why)}; }

void throw_failure(errc code, std::string text) {
  throw error{make_failure(code, std::move(text))};
}

void assertion_failed(const char* condition, const char* id, const char* file, int line) {
  std::fprintf(stderr, "troupe: invariant %s broken: %s (%s:%d)\n", id, condition, file, line);
  std::fflush(stderr);
  std::abort();
}

} // namespace troupe
