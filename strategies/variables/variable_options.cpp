#include <troupe/strategies/variables/variable_options.hpp>

namespace troupe {

std::string_view to_string(variable_synchronization x) {
  switch (x) {
    case variable_synchronization::automatic: return "automatic";
    case variable_synchronization::none: return "none";
    case variable_synchronization::on_write: return "on_write";
    case variable_synchronization::on_read: return "on_read";
  }
  return "variable_synchronization(?)";
}

std::string_view to_string(variable_aggregation x) {
  switch (x) {
    case variable_aggregation::none: return "none";
    case variable_aggregation::sum: return "sum";
    case variable_aggregation::mean: return "mean";
    case variable_aggregation::only_first_replica: return "only_first_replica";
  }
  return "variable_aggregation(?)";
}

} // namespace troupe
