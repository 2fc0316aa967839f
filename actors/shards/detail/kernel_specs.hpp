#pragma once

#include <cstdint>

#include <troupe/core/result.hpp>
#include <troupe/core/specs.hpp>

/// From the descriptions that travel (core/specs.hpp) to the kernels that interpret them.
namespace troupe::detail {

/// The learning rate of the update after `applies` updates.
float learning_rate_at(const schedule_spec& spec, std::uint64_t applies);

/// `invalid_argument` when the kernels can't interpret initializer or schedule, or the optimizer
/// can't update the type.
result<void> check_kernel_specs(const variable_spec& spec);

/// Fills `out`, rows [row_begin, row_begin + out.rows()) of the variable. @pre `check_kernel_specs`
/// held.
void fill_initial_rows(const variable_spec& spec, std::int64_t row_begin, tensor& out);

} // namespace troupe::detail
