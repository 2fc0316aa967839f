#include <troupe/sim/replay.hpp>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <optional>

#include <troupe/core/error.hpp>

namespace troupe::sim {

namespace {

std::string (*test_arguments)() = nullptr;

std::optional<std::uint64_t> seed_of_environment() {
  const char* set = std::getenv("TROUPE_SIM_SEED");
  if (!set || !*set)
    return std::nullopt;
  const std::string_view text{set};
  std::uint64_t out = 0;
  auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (wrong != std::errc{} || end != text.data() + text.size())
    throw_failure(errc::bad_config, "TROUPE_SIM_SEED: '" + std::string{text}
                                      + "' is not an integer from 0 to 18446744073709551615");
  return out;
}

} // namespace

std::uint64_t seed_or(std::uint64_t otherwise) { return seed_of_environment().value_or(otherwise); }

std::vector<std::uint64_t> seeds(std::uint64_t n, std::uint64_t first) {
  if (auto one = seed_of_environment())
    return {*one};
  std::vector<std::uint64_t> out(n);
  for (std::uint64_t i = 0; i < n; ++i)
    out[i] = first + i;
  return out;
}

bool trace_is_wanted() {
  const char* set = std::getenv("TROUPE_SIM_TRACE");
  return set && *set && std::string_view{set} != "0";
}

void name_tests_by(std::string (*arguments)()) { test_arguments = arguments; }

std::string replay_here(std::uint64_t seed, std::string_view arguments) {
  std::string with{arguments};
  if (with.empty() && test_arguments)
    with = test_arguments();
  return "TROUPE_SIM_SEED=" + std::to_string(seed) + " TROUPE_SIM_TRACE=1 "
         + program_invocation_name + (with.empty() ? "" : " " + with);
}

} // namespace troupe::sim
