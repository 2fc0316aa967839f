#pragma once

#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

#include <troupe/core/error.hpp>

namespace troupe {

/// A value or a `failure`. Use only what CAF's and std's `expected` share: `if (x)`, `*x`, `x->`,
/// `x.error()`.
template <class T>
class [[nodiscard]] result {
public:
  result(T value) : data_{std::in_place_index<0>, std::move(value)} {}
  result(failure why) : data_{std::in_place_index<1>, std::move(why)} {}

  explicit operator bool() const noexcept { return data_.index() == 0; }
  T& operator*() & { return std::get<0>(data_); }
  const T& operator*() const& { return std::get<0>(data_); }
  T operator*() && {
    return std::get<0>(std::move(data_));
  } // by value: a range-for over a temporary must not dangle
  T* operator->() { return &std::get<0>(data_); }
  const T* operator->() const { return &std::get<0>(data_); }
  failure& error() { return std::get<1>(data_); }
  const failure& error() const { return std::get<1>(data_); }

  /// The value; throws `troupe::error` instead when there is none. For the blocking public API
  /// only.
  T value_or_throw() && {
    if (!*this)
      throw_failure(std::move(error()));
    return std::get<0>(std::move(data_));
  }

private:
  std::variant<T, failure> data_;
};

/// The outcome of a call without a value: done, or a `failure`.
template <>
class [[nodiscard]] result<void> {
public:
  result() = default;
  result(failure why) : why_{std::move(why)} {}

  explicit operator bool() const noexcept { return !why_.has_value(); }
  failure& error() { return *why_; }
  const failure& error() const { return *why_; }

  void value_or_throw() && {
    if (why_)
      throw_failure(std::move(*why_));
  }

private:
  std::optional<failure> why_;
};

} // namespace troupe
