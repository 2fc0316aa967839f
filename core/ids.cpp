#include <troupe/core/ids.hpp>

namespace troupe {

std::string to_string(job_kind job) {
  switch (job) {
    case job_kind::chief: return "chief";
    case job_kind::worker: return "worker";
    case job_kind::ps: return "ps";
    case job_kind::evaluator: return "evaluator";
  }
  return "job(" + std::to_string(static_cast<unsigned>(job)) + ")";
}

std::string to_string(const task_id& task) {
  return to_string(task.job) + ":" + std::to_string(task.index);
}

} // namespace troupe
