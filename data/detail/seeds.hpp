#pragma once

#include <cstdint>
#include <string_view>

#include <troupe/core/environment.hpp>
#include <troupe/core/random.hpp>

namespace troupe::detail {

/// Seeds for shuffles that follow from one seed: the same wherever and whenever they are drawn. One
/// thread at a time.
class derived_random final : public random_port {
public:
  explicit derived_random(std::uint64_t seed) : seed_{seed} {}
  std::uint64_t draw(std::string_view) override { return derive_seed(seed_, drawn_++); }

private:
  std::uint64_t seed_;
  std::uint64_t drawn_ = 0;
};

} // namespace troupe::detail
