#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// Replays of a test, as worlds and `why_failed` print in their reports:
///
///   TROUPE_SIM_SEED=7    worlds take this seed, whatever the test gives them
///   TROUPE_SIM_TRACE=1   and print one line an event to the standard output
namespace troupe::sim {

/// The seed of TROUPE_SIM_SEED; `otherwise` where it is not set. `bad_config`: it is no seed.
std::uint64_t seed_or(std::uint64_t otherwise);
/// `n` seeds from `first` on, for a test that runs many; where TROUPE_SIM_SEED is set, that one.
std::vector<std::uint64_t> seeds(std::uint64_t n, std::uint64_t first = 1);
/// Whether TROUPE_SIM_TRACE asks for a trace.
bool trace_is_wanted();

/// The command that runs `seed` again: this program with `arguments`, and the variables above.
/// Empty `arguments`: those of the test that runs now.
std::string replay_here(std::uint64_t seed, std::string_view arguments = {});
/// Names the test that runs now, as arguments of its program. `sim/doctest.hpp` does it for
/// doctest; null: nobody does.
void name_tests_by(std::string (*arguments)());

} // namespace troupe::sim
