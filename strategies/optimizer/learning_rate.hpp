#pragma once

#include <troupe/core/learning_rate.hpp>
#include <troupe/core/result.hpp>

/// The rules that a learning rate obeys. The schedules are in core/learning_rate.hpp.
namespace troupe {

/// Whether a schedule can be used. `invalid_argument` names the field and the value: rates are
/// finite and not negative, steps ascend, decays divide by at least 1.
result<void> validate(const schedule_spec& schedule);

} // namespace troupe
