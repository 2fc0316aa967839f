// Names of machines, as they stand in traces and failure files.
#include <troupe/sim/names.hpp>

namespace troupe::sim {

std::string to_string(const node_name& name) {
  switch (name.task.job) {
    case job_kind::chief:
      return name.task.index == 0 ? "chief" : "chief" + std::to_string(name.task.index);
    case job_kind::worker: return "worker" + std::to_string(name.task.index);
    case job_kind::ps: return "ps" + std::to_string(name.task.index);
    default: return "evaluator" + std::to_string(name.task.index);
  }
}

} // namespace troupe::sim
