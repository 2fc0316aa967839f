#pragma once

#include <cstdint>

#include <troupe/core/fields.hpp>

/// What an actor tells itself.
namespace troupe {

/// A timer of the receiving actor. `what` is the actor's own enum.
struct tick {
  std::uint8_t what = 0;
  std::uint64_t number = 0;
  TROUPE_FIELDS(tick, what, number)
};

} // namespace troupe
