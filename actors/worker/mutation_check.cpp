#include <troupe/actors/worker/mutation_check.hpp>

#include <troupe/kernels/elementwise.hpp>
#include <troupe/kernels/gather_scatter.hpp>

namespace troupe {

std::string label_of(const variable_spec& spec) { return "variable '" + spec.name + "'"; }

shape_t row_shape_of(const variable_spec& spec) {
  return spec.shape.empty() ? shape_t{} : shape_t{spec.shape.begin() + 1, spec.shape.end()};
}

result<void> check_rows_in_range(std::span<const std::int64_t> rows, const variable_spec& spec,
                                 const char* what) {
  auto bad = kernels::first_bad_row(rows, static_cast<std::size_t>(spec.rows()));
  if (bad == rows.size())
    return {};
  return make_failure(errc::out_of_range, label_of(spec) + ": " + what + ": index "
                                            + std::to_string(rows[bad]) + " at position "
                                            + std::to_string(bad) + ", the variable has "
                                            + std::to_string(spec.rows()) + " rows");
}

namespace {

/// Of integers, which can't be divided by it.
bool has_zero(const tensor& x) {
  if (x.type() == dtype::i32)
    return kernels::any_zero(x.as<std::int32_t>());
  return x.type() == dtype::i64 && kernels::any_zero(x.as<std::int64_t>());
}

result<void> check_rows(const mutation& op, const variable_spec& spec) {
  auto refuse = [&](errc code, const std::string& what) {
    return make_failure(code, label_of(spec) + ": " + what);
  };
  if (!op.indices.defined())
    return refuse(errc::invalid_argument, "a scatter requires indices");
  if (op.kind != mutation_kind::apply && !takes_indices(op.kind))
    return refuse(errc::invalid_argument, "an assignment does not support indices");
  if (op.indices.type() != dtype::i64)
    return refuse(errc::dtype_mismatch,
                  "indices are " + to_string(op.indices.type()) + ", expected i64");
  if (op.indices.rank() != 1)
    return refuse(errc::shape_mismatch,
                  "indices have shape " + to_string(op.indices.shape()) + ", expected rank 1");
  auto expected = row_shape_of(spec);
  expected.insert(expected.begin(), op.indices.size());
  if (op.values.shape() != expected)
    return refuse(errc::shape_mismatch, "values have shape " + to_string(op.values.shape())
                                          + ", expected " + to_string(expected));
  if (op.kind == mutation_kind::scatter_div
      && has_zero(op.values)) // in the rows of one server only
    return refuse(errc::invalid_argument, "scatter_div: division by zero");
  return check_rows_in_range(op.indices.as<std::int64_t>(), spec, "scatter");
}

} // namespace

result<void> check_mutation(const mutation& op, const variable_spec& spec) {
  auto refuse = [&](errc code, const std::string& what) {
    return make_failure(code, label_of(spec) + ": " + what);
  };
  if (op.kind > mutation_kind::set_learning_rate)
    return refuse(errc::invalid_argument,
                  "operation kind " + std::to_string(static_cast<unsigned>(op.kind)));
  const bool trains =
    op.kind == mutation_kind::apply || op.kind == mutation_kind::set_learning_rate;
  if (trains && spec.optimizer.kind == optimizer_kind::none) // before any of them is changed
    return refuse(errc::wrong_state, "the variable has no optimizer; use assign");
  if (op.kind == mutation_kind::set_learning_rate) {
    if (!op.values.defined() || op.values.type() != dtype::f32 || op.values.size() != 1)
      return refuse(errc::shape_mismatch, "learning rate: values are " + type_and_shape(op.values)
                                            + ", expected one f32");
    if (auto why = complaint_of_rate(op.values.item<float>()))
      return refuse(errc::invalid_argument, "set_learning_rate: " + *why);
    return {};
  }
  if (!op.values.defined())
    return refuse(errc::invalid_argument,
                  "no values given, expected " + to_string(spec.type) + to_string(spec.shape));
  if (op.values.type() != spec.type)
    return refuse(errc::dtype_mismatch, "values are " + to_string(op.values.type()) + ", expected "
                                          + to_string(spec.type));
  if (op.indices.defined() || takes_indices(op.kind))
    return check_rows(op, spec);
  if (op.values.shape() != spec.shape)
    return refuse(errc::shape_mismatch, "values have shape " + to_string(op.values.shape())
                                          + ", expected " + to_string(spec.shape));
  return {};
}

} // namespace troupe
