#pragma once

#include "../replicas/support.hpp"

/// What the tests of replicas' variables share.
namespace replicas_test {

/// A scalar made in the strategy's scope.
inline distributed_variable scalar(
  const strategy& s, float initial, variable_aggregation how = variable_aggregation::none,
  variable_synchronization when = variable_synchronization::automatic, bool diverge = false) {
  return s.scope([&] {
    return make_variable({.name = "v",
                          .initial = tensor::scalar(initial),
                          .synchronization = when,
                          .aggregation = how,
                          .allow_divergence = diverge});
  });
}

/// Its value on each replica.
inline std::vector<float> copies(const distributed_variable& v) {
  std::vector<float> out;
  for (std::size_t i = 0; i < v.components(); ++i)
    out.push_back(v.component(i).item<float>());
  return out;
}

} // namespace replicas_test
