#pragma once

#include <concepts>
#include <string_view>

#include <troupe/core/error.hpp>

/// What is thrown, and what it says; without doctest, for the fuzz targets too.
namespace troupe::testing {

/// What `f` throws; the code `none` when it throws nothing.
template <std::invocable F>
[[nodiscard]] failure failure_of(F&& f) {
  try {
    f();
  } catch (const error& e) {
    return e.details();
  }
  return {};
}

/// The code of what `f` throws; `none` when it throws nothing.
template <std::invocable F>
[[nodiscard]] errc code_of(F&& f) {
  return failure_of(f).code;
}

[[nodiscard]] inline bool says(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

[[nodiscard]] inline bool says(const failure& why, std::string_view part) {
  return says(why.text, part);
}

} // namespace troupe::testing
