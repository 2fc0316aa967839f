#pragma once

#include <string>

#include <doctest/doctest.h>

#include <troupe/sim/replay.hpp>

/// Support for tests with doctest: the report of a failed world names the test case too. Including
/// this header is enough.
namespace troupe::sim {

/// `--test-case='NAME'` of the test case that runs now; empty: none does.
inline std::string doctest_arguments() {
  const auto* options = doctest::getContextOptions();
  if (!options || !options->currentTest)
    return {};
  std::string name{options->currentTest->m_name};
  for (auto& c : name)
    if (c == ',' || c == '\'' || c == '\\' || c == '"') // doctest's and the shell's own
      c = '?';                                          // any character
  return "--test-case='" + name + "'";
}

inline const bool doctest_names_tests = (name_tests_by(doctest_arguments), true);

} // namespace troupe::sim
