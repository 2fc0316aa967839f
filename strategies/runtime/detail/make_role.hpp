#pragma once

#include <memory>

#include <troupe/strategies/runtime/detail/process_role.hpp>

namespace troupe::detail {

/// The role that the context's options ask for. @pre `validate_on_host(options)`.
std::unique_ptr<process_role> make_role(const process_context& context);

} // namespace troupe::detail
