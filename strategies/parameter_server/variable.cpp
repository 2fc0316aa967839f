#include <troupe/strategies/parameter_server/variable.hpp>

#include <troupe/core/execution_context.hpp>
#include <troupe/strategies/runtime/detail/coordinator_client.hpp>

namespace troupe {

namespace {

step_host* running_step() { return current_context().step; }

} // namespace

const variable_spec& variable::spec() const {
  if (!spec_)
    throw_failure(errc::wrong_state,
                  "this variable handle is empty: create variables in a strategy's scope");
  return *spec_;
}

variable_value variable::read_blocks() const {
  auto own = id();
  if (auto* step = running_step())
    return std::move(step->read({&own, 1}).front());
  return std::move(owner_->read({&own, 1}).front());
}

tensor variable::read() const { return read_blocks().to_tensor(); }

const variable& variable::change(mutation_kind kind, const tensor& values,
                                 const tensor& indices) const {
  mutation op{.variable = id(), .kind = kind, .values = values, .indices = indices};
  if (auto* step = running_step())
    step->mutate({&op, 1});
  else
    owner_->mutate({&op, 1});
  return *this;
}

const variable& variable::assign(const tensor& value) const {
  check_value(value, spec()).value_or_throw();
  return change(mutation_kind::assign, value);
}

const variable& variable::assign_add(const tensor& value) const {
  check_value(value, spec()).value_or_throw();
  return change(mutation_kind::assign_add, value);
}

const variable& variable::assign_sub(const tensor& value) const {
  check_value(value, spec()).value_or_throw();
  return change(mutation_kind::assign_sub, value);
}

const variable& variable::scatter_add(const tensor& indices, const tensor& values) const {
  return change(mutation_kind::scatter_add, values, indices);
}
const variable& variable::scatter_sub(const tensor& indices, const tensor& values) const {
  return change(mutation_kind::scatter_sub, values, indices);
}
const variable& variable::scatter_mul(const tensor& indices, const tensor& values) const {
  return change(mutation_kind::scatter_mul, values, indices);
}
const variable& variable::scatter_div(const tensor& indices, const tensor& values) const {
  return change(mutation_kind::scatter_div, values, indices);
}
const variable& variable::scatter_min(const tensor& indices, const tensor& values) const {
  return change(mutation_kind::scatter_min, values, indices);
}
const variable& variable::scatter_max(const tensor& indices, const tensor& values) const {
  return change(mutation_kind::scatter_max, values, indices);
}
const variable& variable::scatter_update(const tensor& indices, const tensor& values) const {
  return change(mutation_kind::scatter_update, values, indices);
}

tensor variable::gather(const tensor& indices) const {
  if (auto* step = running_step())
    return step->gather(id(), indices);
  return owner_->gather(id(), indices);
}

tensor variable::slice(std::span<const slice_item> items) const {
  auto plan = plan_slice(shape(), items).value_or_throw();
  if (shape().empty())
    return apply_slice(plan, read());
  auto rows = tensor::of<std::int64_t>({static_cast<std::int64_t>(plan.rows.size())},
                                       std::span<const std::int64_t>{plan.rows});
  return apply_slice(plan, gather(rows));
}

void variable::set_learning_rate(float value) const {
  change(mutation_kind::set_learning_rate, tensor::scalar(value));
}

// --- look-ups and arithmetic
// ------------------------------------------------------------------------------------

namespace {

gather_unique_rows rows_of(const variable& table) {
  return [table](std::span<const std::int64_t> ids) {
    return table.gather(tensor::of<std::int64_t>({static_cast<std::int64_t>(ids.size())}, ids));
  };
}

} // namespace

tensor embedding_lookup(const variable& table, const tensor& ids, std::optional<float> max_norm) {
  return embedding_lookup(ids, table_of(table.spec()), rows_of(table), max_norm);
}

tensor embedding_lookup_sparse(const variable& table, const sparse_ids& ids, const tensor& weights,
                               const sparse_lookup_options& options) {
  return embedding_lookup_sparse(ids, weights, table_of(table.spec()), rows_of(table), options);
}

tensor safe_embedding_lookup_sparse(const variable& table, const sparse_ids& ids,
                                    const tensor& weights, const sparse_lookup_options& options,
                                    std::optional<std::int64_t> default_id) {
  return safe_embedding_lookup_sparse(ids, weights, table_of(table.spec()), rows_of(table), options,
                                      default_id);
}

tensor operator+(const variable& a, const variable& b) { return a + b.read(); }
tensor operator-(const variable& a, const variable& b) { return a - b.read(); }
tensor operator*(const variable& a, const variable& b) { return a * b.read(); }
tensor operator/(const variable& a, const variable& b) { return a / b.read(); }
tensor operator+(const variable& a, const tensor& b) {
  return apply_binary(binary_op::add, a.read(), b);
}
tensor operator-(const variable& a, const tensor& b) {
  return apply_binary(binary_op::sub, a.read(), b);
}
tensor operator*(const variable& a, const tensor& b) {
  return apply_binary(binary_op::mul, a.read(), b);
}
tensor operator/(const variable& a, const tensor& b) {
  return apply_binary(binary_op::div, a.read(), b);
}
tensor equal(const variable& a, const variable& b) { return equal(a, b.read()); }
tensor equal(const variable& a, const tensor& b) {
  return apply_binary(binary_op::equal, a.read(), b);
}

} // namespace troupe
