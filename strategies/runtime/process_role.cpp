#include <troupe/strategies/runtime/detail/process_role.hpp>

namespace troupe::detail {

result<bool> process_role::serve() {
  throw_failure(errc::wrong_state,
                "serve: this process is the coordinator and must run the program");
}

const std::string& process_role::address() const {
  static const std::string none;
  return none;
}

} // namespace troupe::detail
