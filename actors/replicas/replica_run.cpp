#include <troupe/actors/replicas/detail/replica_run.hpp>

#include <troupe/core/thrown.hpp>

namespace troupe::detail {

failure failure_of(const std::exception_ptr& why, const std::string& who) {
  auto out = failure_in([&] { std::rethrow_exception(why); }).value_or(failure{});
  if (!out.text.starts_with("replica ")) // a collective call's failure names one already
    out.text = who + ": " + out.text;
  return out;
}

bool is_consequence(const std::exception_ptr& why) {
  try {
    std::rethrow_exception(why);
  } catch (const error& e) {
    return e.code() == errc::cancelled || e.code() == errc::revoked;
  } catch (...) {
    return false;
  }
}

failure consequence(const std::string& call, const replica_run& run) {
  const auto& why = *run.aborted;
  if (run.calls_differ)
    return why;
  switch (why.code) {
    case errc::mismatch:
    case errc::deadline:
    case errc::peer_lost: return why;
    default: return make_failure(errc::cancelled, call + ": " + why.text);
  }
}

} // namespace troupe::detail
