#include <troupe/transport/collective_types.hpp>

#include <algorithm>
#include <cctype>
#include <string>

#include <troupe/core/error.hpp>

namespace troupe {

std::string_view to_string(collective_kind kind) {
  switch (kind) {
    case collective_kind::all_reduce: return "all_reduce";
    case collective_kind::reduce_scatter: return "reduce_scatter";
    case collective_kind::all_gather: return "all_gather";
    case collective_kind::broadcast: return "broadcast";
    case collective_kind::reduce: return "reduce";
    case collective_kind::gather: return "gather";
    case collective_kind::barrier: return "barrier";
  }
  return "collective(?)";
}

std::string_view to_string(reduce_op op) {
  switch (op) {
    case reduce_op::sum: return "sum";
    case reduce_op::mean: return "mean";
    case reduce_op::min: return "min";
    case reduce_op::max: return "max";
    case reduce_op::prod: return "prod";
    case reduce_op::user: return "user";
  }
  return "reduce(?)";
}

reduce_op parse_reduce_op(std::string_view text) {
  std::string low{text};
  std::transform(low.begin(), low.end(), low.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (auto op : {reduce_op::sum, reduce_op::mean, reduce_op::min, reduce_op::max, reduce_op::prod})
    if (low == to_string(op))
      return op;
  throw_failure(errc::invalid_argument, "reduction '" + std::string{text}
                                          + "' is unknown; expected sum, mean, min, max or prod");
}

std::string_view to_string(collective_algorithm algorithm) {
  switch (algorithm) {
    case collective_algorithm::exchange: return "exchange";
    case collective_algorithm::direct: return "direct";
    case collective_algorithm::recursive_doubling: return "recursive_doubling";
    case collective_algorithm::halving_doubling: return "halving_doubling";
    case collective_algorithm::ring: return "ring";
    case collective_algorithm::flat: return "flat";
    case collective_algorithm::spread: return "spread";
  }
  return "algorithm(?)";
}

std::string_view to_string(group_class which) {
  switch (which) {
    case group_class::network: return "network";
    case group_class::host: return "host";
    case group_class::process: return "process";
  }
  return "class(?)";
}

} // namespace troupe
