#include <troupe/kernels/detail/check.hpp>

#include <stdexcept>
#include <string>

namespace troupe::kernels::detail {

void fail_size(const char* function, const char* what, std::size_t value, std::size_t expected) {
  throw std::invalid_argument(std::string("kernels::") + function + ": " + what + " is "
                              + std::to_string(value) + ", expected " + std::to_string(expected));
}

void fail_index(const char* function, const char* what, std::size_t index, long long value,
                std::size_t bound) {
  throw std::invalid_argument(std::string("kernels::") + function + ": " + what + "["
                              + std::to_string(index) + "] is " + std::to_string(value)
                              + ", outside [0, " + std::to_string(bound) + ")");
}

} // namespace troupe::kernels::detail
