#pragma once

#include <cstdint>
#include <span>
#include <string>

#include <troupe/core/step_host.hpp>

/// What is wrong with a step's call on a variable, found before anything is sent. Plain functions.
namespace troupe {

/// "variable 'w'", as errors name it.
std::string label_of(const variable_spec& spec);
/// The shape of one row.
shape_t row_shape_of(const variable_spec& spec);

/// `out_of_range` naming `what` and the first index that is no row of the variable.
result<void> check_rows_in_range(std::span<const std::int64_t> rows, const variable_spec& spec,
                                 const char* what);
/// `wrong_state`, `shape_mismatch`, `dtype_mismatch`, `out_of_range` or `invalid_argument` for an
/// operation that the variable cannot take.
result<void> check_mutation(const mutation& op, const variable_spec& spec);

} // namespace troupe
