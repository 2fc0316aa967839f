#pragma once

#include <concepts>
#include <initializer_list>
#include <string>

#include <doctest/doctest.h>

#include <troupe/core/error.hpp>
#include <troupe/core/result.hpp>

#include "thrown.hpp"

/// Checks of what calls say that must fail.
namespace troupe::testing {

/// The failure in `x`, which must have one.
template <class T>
[[nodiscard]] failure failure_of(const result<T>& x) {
  REQUIRE_FALSE(x);
  return x.error();
}

/// The text of what `f` throws, whose code must be `code`; empty when it throws nothing.
template <std::invocable F>
[[nodiscard]] std::string thrown(F&& f, errc code = errc::invalid_argument) {
  const auto why = failure_of(f);
  if (why.code != errc::none)
    CHECK(why.code == code);
  return why.text;
}

/// The text of the failure in `x`, which must have one with this code.
template <class T>
std::string refusal(const result<T>& x, errc code = errc::invalid_argument) {
  const auto why = failure_of(x);
  CHECK(why.code == code);
  return why.text;
}

/// The text of the refusal, whose code must be `code`; empty: nothing was refused.
template <class T>
[[nodiscard]] std::string refused_text(const result<T>& verdict, errc code = errc::bad_config) {
  if (verdict)
    return {};
  CHECK(verdict.error().code == code);
  return verdict.error().text;
}

/// The failure has this code, and its text has all of these.
inline void names(const failure& why, errc code, std::initializer_list<const char*> words) {
  CHECK_MESSAGE(why.code == code, to_string(why));
  for (const char* word : words)
    CHECK_MESSAGE(says(why, word), why.text << " lacks " << word);
}

} // namespace troupe::testing
