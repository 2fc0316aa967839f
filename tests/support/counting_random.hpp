#pragma once

#include <cstdint>
#include <string_view>

#include <troupe/core/environment.hpp>

namespace troupe::testing {

/// A different word at every draw: `first` and those that follow.
class counting_random final : public random_port {
public:
  explicit counting_random(std::uint64_t first = 1) : next_{first} {}
  std::uint64_t draw(std::string_view) override {
    ++draws;
    return next_++;
  }
  int draws = 0;

private:
  std::uint64_t next_;
};

} // namespace troupe::testing
