#pragma once

#include <cstddef>

namespace troupe::kernels::detail {

/// Throws std::invalid_argument "kernels::<function>: <what> is <value>, expected <expected>".
[[noreturn]] void fail_size(const char* function, const char* what, std::size_t value,
                            std::size_t expected);

/// Throws std::invalid_argument "kernels::<function>: <what>[<index>] is <value>, outside [0,
/// <bound>)".
[[noreturn]] void fail_index(const char* function, const char* what, std::size_t index,
                             long long value, std::size_t bound);

/// Precondition on a size. A kernel checks before it writes, so a refused call changes nothing.
inline void expect_size(const char* function, const char* what, std::size_t value,
                        std::size_t expected) {
  if (value != expected)
    fail_size(function, what, value, expected);
}

} // namespace troupe::kernels::detail
