// The second half of shard.cpp: what a mutation must look like, and what it does to the rows.
#include <algorithm>
#include <cstring>
#include <numeric>

#include <troupe/actors/shards/detail/kernel_specs.hpp>
#include <troupe/actors/shards/shard.hpp>
#include <troupe/kernels/elementwise.hpp>
#include <troupe/kernels/gather_scatter.hpp>
#include <troupe/kernels/optimizers.hpp>

namespace troupe {

namespace {

constexpr const char* kind_names[] = {"apply",       "assign",         "assign_add",
                                      "assign_sub",  "scatter_add",    "scatter_sub",
                                      "scatter_mul", "scatter_div",    "scatter_min",
                                      "scatter_max", "scatter_update", "set_learning_rate"};

bool has_arithmetic(dtype type) {
  return type == dtype::f32 || type == dtype::f64 || type == dtype::i32 || type == dtype::i64;
}

// Runs f<T>() for the element type. @pre has_arithmetic(type)
template <class F>
void with_type(dtype type, F f) {
  switch (type) {
    case dtype::f32: return f(float{});
    case dtype::f64: return f(double{});
    case dtype::i32: return f(std::int32_t{});
    default: return f(std::int64_t{});
  }
}

template <class T>
std::span<T> elements(std::span<std::byte> bytes) {
  return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
}

template <class T>
std::span<const T> elements(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
}

kernels::scatter_op scatter_op_of(mutation_kind kind) {
  switch (kind) {
    case mutation_kind::scatter_add: return kernels::scatter_op::add;
    case mutation_kind::scatter_sub: return kernels::scatter_op::sub;
    case mutation_kind::scatter_mul: return kernels::scatter_op::mul;
    case mutation_kind::scatter_div: return kernels::scatter_op::div;
    case mutation_kind::scatter_min: return kernels::scatter_op::min;
    case mutation_kind::scatter_max: return kernels::scatter_op::max;
    default: return kernels::scatter_op::update;
  }
}

/// Opens values and slots for an update of all rows. The old contents are read and stay.
template <class T>
kernels::update_arrays<T> begin_update(cow_buffer& values, std::vector<cow_buffer>& slots) {
  kernels::update_arrays<T> out;
  const auto p = values.begin_write();
  out.p_in = elements<T>(p.in);
  out.p_out = elements<T>(p.out);
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const auto s = slots[i].begin_write();
    out.slots_in[i] = elements<T>(s.in);
    out.slots_out[i] = elements<T>(s.out);
  }
  return out;
}

/// Opens values and slots for an update of some rows, in place.
template <class T>
kernels::update_arrays<T> begin_row_update(cow_buffer& values, std::vector<cow_buffer>& slots) {
  kernels::update_arrays<T> out;
  out.p_out = elements<T>(values.begin_partial_write());
  for (std::size_t i = 0; i < slots.size(); ++i)
    out.slots_out[i] = elements<T>(slots[i].begin_partial_write());
  return out;
}

void end_update(cow_buffer& values, std::vector<cow_buffer>& slots) {
  for (auto& slot : slots)
    slot.commit();
  values.commit();
}

} // namespace

failure shard::complaint(errc code, mutation_kind kind, const std::string& what) const {
  auto at = static_cast<std::size_t>(kind);
  auto name =
    at < std::size(kind_names) ? std::string{kind_names[at]} : "kind " + std::to_string(at);
  return make_failure(code, label() + ": " + name + ": " + what);
}

result<void> shard::check(const mutation_piece& piece) const {
  auto kind = piece.kind;
  if (kind > mutation_kind::set_learning_rate)
    return complaint(errc::invalid_argument, kind, "unknown operation");
  bool trains = kind == mutation_kind::apply || kind == mutation_kind::set_learning_rate;
  if (trains && optimizer_.kind == optimizer_kind::none)
    return complaint(errc::wrong_state, kind, "the variable has no optimizer; use assign");
  if (kind == mutation_kind::set_learning_rate) {
    if (piece.values.type() != dtype::f32 || !piece.values.defined() || piece.values.size() != 1)
      return complaint(errc::shape_mismatch, kind,
                       "values are " + type_and_shape(piece.values) + ", expected one f32");
    if (auto why = complaint_of_rate(piece.values.item<float>()))
      return complaint(errc::invalid_argument, kind, *why);
    return {};
  }
  if (piece.indices.defined())
    return check_indices(piece);
  if (takes_indices(kind))
    return complaint(errc::invalid_argument, kind, "indices are missing");
  if (!piece.values.defined())
    return complaint(errc::invalid_argument, kind,
                     "no values given, expected " + to_string(spec_->type) + to_string(shape_));
  if (piece.values.type() != spec_->type)
    return complaint(
      errc::dtype_mismatch, kind,
      "values are " + to_string(piece.values.type()) + ", expected " + to_string(spec_->type));
  if (piece.values.shape() != shape_)
    return complaint(
      errc::shape_mismatch, kind,
      "values have shape " + to_string(piece.values.shape()) + ", expected " + to_string(shape_));
  if (kind != mutation_kind::assign && !has_arithmetic(spec_->type))
    return complaint(errc::dtype_mismatch, kind,
                     "arithmetic is not supported for " + to_string(spec_->type));
  return {};
}

result<void> shard::check_indices(const mutation_piece& piece) const {
  auto kind = piece.kind;
  const auto& indices = piece.indices;
  if (kind != mutation_kind::apply && !takes_indices(kind))
    return complaint(errc::invalid_argument, kind, "does not support indices");
  if (indices.type() != dtype::i64)
    return complaint(errc::dtype_mismatch, kind,
                     "indices are " + to_string(indices.type()) + ", expected i64");
  if (indices.rank() != 1)
    return complaint(errc::shape_mismatch, kind,
                     "indices have shape " + to_string(indices.shape()) + ", expected rank 1");
  if (!has_arithmetic(spec_->type))
    return complaint(errc::dtype_mismatch, kind,
                     "arithmetic is not supported for " + to_string(spec_->type));
  if (indices.size() == 0 && !piece.values.defined())
    return {};
  auto expected = shape_.empty() ? shape_t{1} : shape_;
  expected[0] = indices.size();
  if (!piece.values.defined())
    return complaint(errc::invalid_argument, kind,
                     "no values given, expected " + to_string(spec_->type) + to_string(expected));
  if (piece.values.type() != spec_->type)
    return complaint(
      errc::dtype_mismatch, kind,
      "values are " + to_string(piece.values.type()) + ", expected " + to_string(spec_->type));
  if (piece.values.shape() != expected)
    return complaint(
      errc::shape_mismatch, kind,
      "values have shape " + to_string(piece.values.shape()) + ", expected " + to_string(expected));
  auto rows = indices.as<std::int64_t>();
  auto bad = kernels::first_bad_row(rows, static_cast<std::size_t>(rows_));
  if (bad < rows.size())
    return complaint(errc::out_of_range, kind,
                     "index " + std::to_string(rows[bad]) + " at position " + std::to_string(bad)
                       + ", the shard has " + std::to_string(rows_) + " rows");
  bool integer = spec_->type == dtype::i32 || spec_->type == dtype::i64;
  if (kind == mutation_kind::scatter_div && integer) {
    bool zero = spec_->type == dtype::i32 ? kernels::any_zero(piece.values.as<std::int32_t>())
                                          : kernels::any_zero(piece.values.as<std::int64_t>());
    if (zero)
      return complaint(errc::invalid_argument, kind, "division by zero");
  }
  return {};
}

void shard::change(const mutation_piece& piece) {
  if (piece.kind == mutation_kind::set_learning_rate) {
    set_rate(piece.values.item<float>());
    return;
  }
  const bool all_rows = piece.kind == mutation_kind::apply && updates_all_rows(optimizer_);
  if (piece.indices.defined() && piece.indices.size() == 0 && !all_rows)
    return; // an empty piece: only counters move
  if (piece.kind == mutation_kind::assign)
    return copy_rows(piece);
  if (piece.kind == mutation_kind::apply) {
    auto rows =
      piece.indices.defined() ? piece.indices.as<std::int64_t>() : std::span<const std::int64_t>{};
    if (spec_->type == dtype::f32)
      return piece.indices.defined() ? apply_rows<float>(piece.values, rows)
                                     : apply_dense<float>(piece.values);
    return piece.indices.defined() ? apply_rows<double>(piece.values, rows)
                                   : apply_dense<double>(piece.values);
  }
  with_type(spec_->type, [&](auto zero) {
    using element = decltype(zero);
    takes_indices(piece.kind) ? scatter_with<element>(piece) : assign_with<element>(piece);
  });
}

void shard::copy_rows(const mutation_piece& piece) {
  auto out = values_.begin_write().out;
  if (!out.empty())
    std::memmove(out.data(), piece.values.bytes().data(), out.size());
  values_.commit();
}

template <class T>
void shard::assign_with(const mutation_piece& piece) {
  auto [in, out] = values_.begin_write();
  auto delta = piece.values.as<T>();
  if (piece.kind == mutation_kind::assign_add)
    kernels::add<T>(elements<T>(in), delta, elements<T>(out));
  else
    kernels::sub<T>(elements<T>(in), delta, elements<T>(out));
  values_.commit();
}

template <class T>
void shard::scatter_with(const mutation_piece& piece) {
  auto out = values_.begin_partial_write();
  kernels::scatter_rows<T>(scatter_op_of(piece.kind), elements<T>(out),
                           static_cast<std::size_t>(row_size_), piece.indices.as<std::int64_t>(),
                           piece.values.as<T>());
  values_.commit();
}

template <class T>
void shard::apply_dense(const tensor& gradient) {
  const kernels::update_step step{
    .learning_rate = detail::learning_rate_at(optimizer_.learning_rate, applies_),
    .t = applies_ + 1};
  kernels::update<T>(optimizer_, step, begin_update<T>(values_, slots_), gradient.as<T>());
  end_update(values_, slots_);
}

// Rows that come twice are one update with the sum of their gradients, added up in the order given.
template <class T>
void shard::apply_rows(const tensor& gradient, std::span<const std::int64_t> rows) {
  auto cols = static_cast<std::size_t>(row_size_);
  auto g = rows.empty() ? std::span<const T>{} : gradient.as<T>();
  bool ascending = std::is_sorted(rows.begin(), rows.end(), [](auto a, auto b) { return a <= b; });
  if (!ascending) {
    order_.resize(rows.size());
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    std::stable_sort(order_.begin(), order_.end(),
                     [&](auto a, auto b) { return rows[a] < rows[b]; });
    unique_rows_.clear();
    summed_.resize(rows.size() * cols * sizeof(T));
    auto sums = elements<T>(std::span{summed_});
    for (auto i : order_) {
      auto from = g.subspan(i * cols, cols);
      if (unique_rows_.empty() || unique_rows_.back() != rows[i]) {
        std::copy(from.begin(), from.end(),
                  sums.begin() + static_cast<std::ptrdiff_t>(unique_rows_.size() * cols));
        unique_rows_.push_back(rows[i]);
      } else {
        auto sum = sums.subspan((unique_rows_.size() - 1) * cols, cols);
        kernels::add<T>(sum, from, sum);
      }
    }
    rows = unique_rows_;
    g = sums.first(unique_rows_.size() * cols);
  }
  const kernels::update_step step{
    .learning_rate = detail::learning_rate_at(optimizer_.learning_rate, applies_),
    .t = applies_ + 1};
  if (updates_all_rows(optimizer_))
    kernels::update_all_rows<T>(optimizer_, step, begin_update<T>(values_, slots_), cols, rows, g);
  else
    kernels::update_rows<T>(optimizer_, step, begin_row_update<T>(values_, slots_), cols, rows, g);
  end_update(values_, slots_);
}

} // namespace troupe
