#pragma once

#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include <troupe/core/caf_compat.hpp>
#include <troupe/messages/messages.hpp>

/// Valid values of any message or meta, from its list of fields.
namespace fuzz {

template <class T>
void fill(T& x);

template <class T>
void fill_list(std::vector<T>& xs) {
  xs.resize(2);
  for (auto& x : xs)
    fill(x);
}

/// Gives every member a value of its own kind.
template <class T>
void fill(T& x) {
  static std::uint8_t next = 1;
  if constexpr (std::is_same_v<T, std::string>)
    x = "text" + std::to_string(next++);
  else if constexpr (std::is_same_v<T, bool>)
    x = !x;
  else if constexpr (std::is_enum_v<T>)
    x = static_cast<T>(1);
  else if constexpr (std::is_floating_point_v<T>)
    x = static_cast<T>(next++) / 4;
  else if constexpr (std::is_arithmetic_v<T>)
    x = static_cast<T>(next++);
  else if constexpr (requires { x.fields(); })
    std::apply([](auto&... ys) { (fill(ys), ...); }, x.fields());
  else if constexpr (requires { x.push_back({}); })
    fill_list(x);
  // else it is of this process alone, and does not travel
}

inline void fill(troupe::run_closures& x) {
  fill(x.header);
  fill_list(x.orders);
}
inline void fill(troupe::worker_report& x) {
  fill(x.header);
  fill_list(x.ended);
  fill_list(x.resources);
}

template <class T>
T filled() {
  T out{};
  fill(out);
  return out;
}

} // namespace fuzz
