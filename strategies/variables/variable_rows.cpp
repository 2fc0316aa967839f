#include <troupe/strategies/variables/detail/variable_core.hpp>

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>

/// Changes of some rows of a variable.
namespace troupe::detail {

namespace {

/// The same for the same rows; different ones hardly ever meet.
std::int64_t fingerprint(mutation_kind kind, const tensor& indices, const tensor& values) {
  const std::hash<std::string_view> hash_of{};
  auto out =
    hash_of(std::string{name_of(kind)} + to_string(values.type()) + to_string(values.shape()));
  for (const auto* each : {&indices, &values})
    out =
      out * 31 + hash_of({reinterpret_cast<const char*>(each->bytes().data()), each->size_bytes()});
  return static_cast<std::int64_t>(out);
}

} // namespace

/// Every copy takes its replica's rows, which have to be the same ones (where TensorFlow lets the
/// copies drift apart without a word).
void variable_core::scatter_compared(const variable_caller& by, mutation_kind kind,
                                     const tensor& indices, const tensor& values) const {
  const auto prints =
    by.ctx->all_gather(tensor::vector<std::int64_t>({fingerprint(kind, indices, values)}));
  const auto all = prints.as<std::int64_t>();
  if (std::any_of(all.begin(), all.end(), [&](auto x) { return x != all[0]; }))
    throw_failure(complaint(errc::invalid_argument, name_of(kind),
                            "the replicas' rows differ, and with aggregation none the copies would "
                            "diverge: set an aggregation, or create it with allow_divergence"));
  settle(by, kind, values, indices);
}

/// The rows of all replicas, one after the other.
void variable_core::scatter_combined(const variable_caller& by, mutation_kind kind, reduce_op op,
                                     const tensor& indices, const tensor& values) const {
  const auto all = by.ctx->all_reduce(op, sparse_gradient{.indices = indices, .values = values});
  settle(by, kind, all.values, all.indices);
}

void variable_core::scatter_first(const variable_caller& by, mutation_kind kind,
                                  const tensor& indices, const tensor& values) const {
  const auto counts = by.ctx->all_gather(tensor::vector<std::int64_t>({indices.size()}));
  const auto first = counts.as<std::int64_t>()[0];
  const auto rows = by.ctx->all_gather(indices).rows(0, first);
  const auto with = by.ctx->all_gather(values).rows(0, first);
  settle(by, kind, with, rows);
}

void variable_core::scatter(mutation_kind kind, const tensor& indices, const tensor& values) const {
  const char* what = name_of(kind);
  if (synchronization_ == variable_synchronization::on_read) // whoever calls
    refuse(what, variable_action::refuse_rows_of_on_read);
  const auto by = caller(what);
  if (of_->policy().row_updates_without_aggregation_only
      && aggregation_ != variable_aggregation::none)
    throw_failure(complaint(errc::invalid_argument, what,
                            "aggregation is " + std::string{to_string(aggregation_)}
                              + "; variables of " + of_->text()
                              + " support row updates with aggregation none only"));
  const auto how = rules().scatter(by.what, kind);
  switch (how) {
    case variable_action::every_copy:
      for (const auto& each : copies_)
        change(*each, kind, values, indices);
      return;
    case variable_action::own_copy: return change(*copies_[by.component], kind, values, indices);
    case variable_action::compared: return scatter_compared(by, kind, indices, values);
    case variable_action::sum: return scatter_combined(by, kind, reduce_op::sum, indices, values);
    case variable_action::mean: return scatter_combined(by, kind, reduce_op::mean, indices, values);
    case variable_action::first: return scatter_first(by, kind, indices, values);
    default: refuse(what, how);
  }
}

} // namespace troupe::detail
