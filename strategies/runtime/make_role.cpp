#include <troupe/strategies/runtime/detail/make_role.hpp>

#include <troupe/strategies/runtime/detail/chief_role.hpp>
#include <troupe/strategies/runtime/detail/embedded_role.hpp>
#include <troupe/strategies/runtime/detail/member_role.hpp>
#include <troupe/strategies/runtime/detail/peer_role.hpp>

namespace troupe::detail {

std::unique_ptr<process_role> make_role(const process_context& context) {
  const auto& options = context.options;
  if (!options.peers.empty())
    return std::make_unique<peer_role>(context);
  if (!options.task)
    return std::make_unique<embedded_role>(context);
  switch (options.task->job) {
    case job_kind::chief: return std::make_unique<chief_role>(context);
    case job_kind::ps: return std::make_unique<server_role>(context);
    default: return std::make_unique<worker_role>(context);
  }
}

} // namespace troupe::detail
