#include <troupe/strategies/variables/detail/variable_rules.hpp>

#include <array>
#include <cstddef>

namespace troupe::detail {

namespace {

/// One cell for each aggregation: none, sum, mean, only_first_replica.
template <class T>
using by_aggregation = std::array<T, 4>;

/// One row for each synchronization: on_write, on_read.
template <class T>
using rule_table = std::array<by_aggregation<T>, 2>;

template <class T>
const T& cell_of(const rule_table<T>& table, const variable_rules& rules) {
  const bool on_read = rules.synchronization == variable_synchronization::on_read;
  return table[on_read ? 1 : 0][static_cast<std::size_t>(rules.aggregation)];
}

/// Of a tensor, which may differ between replicas, and of a plain number.
struct write_cell {
  variable_action of_tensor;
  variable_action of_number;
};

using act = variable_action;

// clang-format off

/// Reads in cross-replica context of a variable with a copy for each of several replicas.
constexpr rule_table<act> reads_of_copies{{
  //           none                 sum            mean           first
  {{act::own_copy,       act::own_copy, act::own_copy, act::own_copy}},
  {{act::refuse_reading, act::sum,      act::mean,     act::first}},
}};

/// Assignments in cross-replica context to such a variable.
constexpr rule_table<act> assignments_to_copies{{
  {{act::every_copy, act::every_copy, act::every_copy, act::every_copy}},
  {{act::every_copy, act::divide,     act::every_copy, act::every_copy}},
}};

/// Writes of a replica that has a copy of its own.
constexpr rule_table<write_cell> writes_to_copies{{
  {{{act::refuse_diverging, act::same_on_all},
    {act::sum,              act::refuse_number},
    {act::mean,             act::same_on_all},
    {act::first,            act::same_on_all}}},
  {{{act::own_copy,         act::own_copy},
    {act::own_copy,         act::own_copy},
    {act::own_copy,         act::own_copy},
    {act::own_copy,         act::own_copy}}},
}};

/// Writes of a replica to the one copy of several: the synchronization makes no difference.
constexpr by_aggregation<write_cell> writes_to_shared{{
  {act::refuse_shared, act::refuse_shared},
  {act::sum,           act::refuse_number},
  {act::mean,          act::same_on_all},
  {act::first,         act::same_on_all},
}};

/// Rows that a replica of several writes, by placement: copies, shared.
constexpr rule_table<act> scatters{{
  {{act::compared,           act::sum, act::mean, act::first}},
  {{act::refuse_shared_rows, act::sum, act::mean, act::first}},
}};

// clang-format on

} // namespace

variable_action variable_rules::read(variable_context by) const {
  if (by != variable_context::cross || placement != variable_placement::copies)
    return act::own_copy;
  return cell_of(reads_of_copies, *this);
}

variable_action variable_rules::write(variable_context by, mutation_kind kind,
                                      bool is_number) const {
  if (by == variable_context::update)
    return act::own_copy;
  if (by == variable_context::cross) {
    if (placement != variable_placement::copies)
      return act::every_copy;
    const auto out = cell_of(assignments_to_copies, *this);
    return out == act::divide && kind != mutation_kind::assign ? act::refuse_adding_to_sum : out;
  }
  if (placement == variable_placement::single)
    return act::own_copy;
  const auto& cell = placement == variable_placement::shared
                       ? writes_to_shared[static_cast<std::size_t>(aggregation)]
                       : cell_of(writes_to_copies, *this);
  const auto out = is_number ? cell.of_number : cell.of_tensor;
  return out == act::refuse_diverging && allow_divergence ? act::own_copy : out;
}

variable_action variable_rules::scatter(variable_context by, mutation_kind kind) const {
  if (synchronization == variable_synchronization::on_read)
    return act::refuse_rows_of_on_read;
  if (by == variable_context::cross)
    return act::every_copy;
  if (by == variable_context::update || placement == variable_placement::single)
    return act::own_copy;
  const bool shared = placement == variable_placement::shared;
  const auto out = scatters[shared ? 1 : 0][static_cast<std::size_t>(aggregation)];
  if (out == act::compared && allow_divergence)
    return act::own_copy;
  const bool adds_up = kind <= mutation_kind::scatter_div;
  return (out == act::sum || out == act::mean) && !adds_up ? act::refuse_combined_rows : out;
}

std::string refusal_of(variable_action action, variable_aggregation aggregation) {
  switch (action) {
    case act::refuse_shared:
      return "the replicas share this variable: set an aggregation to combine their values";
    case act::refuse_diverging:
      return "with aggregation none the copies could diverge: set an aggregation, or create it "
             "with allow_divergence";
    case act::refuse_number: return "a number is not distributed and cannot be reduced with sum";
    case act::refuse_adding_to_sum:
      return "an on_read variable with aggregation sum supports this only inside replicas";
    case act::refuse_reading:
      return "an on_read variable with aggregation none has no value in cross-replica context";
    case act::refuse_shared_rows: return "the replicas share this variable: set an aggregation";
    case act::refuse_rows_of_on_read: return "not supported for on_read variables";
    case act::refuse_combined_rows:
      return "not supported with aggregation " + std::string{to_string(aggregation)};
    default: return {};
  }
}

const char* name_of(mutation_kind kind) {
  switch (kind) {
    case mutation_kind::assign: return "assign";
    case mutation_kind::assign_add: return "assign_add";
    case mutation_kind::assign_sub: return "assign_sub";
    case mutation_kind::scatter_add: return "scatter_add";
    case mutation_kind::scatter_sub: return "scatter_sub";
    case mutation_kind::scatter_mul: return "scatter_mul";
    case mutation_kind::scatter_div: return "scatter_div";
    case mutation_kind::scatter_min: return "scatter_min";
    case mutation_kind::scatter_max: return "scatter_max";
    case mutation_kind::scatter_update: return "scatter_update";
    default: return "apply";
  }
}

} // namespace troupe::detail
