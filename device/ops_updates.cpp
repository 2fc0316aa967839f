#include <troupe/device/ops.hpp>

#include <string>
#include <vector>

#include <troupe/device/detail/ops_support.hpp>
#include <troupe/kernels/bucket.hpp>
#include <troupe/kernels/cuda.hpp>
#include <troupe/kernels/gather_scatter.hpp>

namespace troupe {

using namespace detail;

// --- update rules

namespace {

std::optional<failure> check_rule(const char* op, const device& on,
                                  std::initializer_list<named_tensor> all) {
  if (auto why = check_here(op, on, all))
    return why;
  if (auto why = check_type(op, *all.begin(), float_types))
    return why;
  return check_alike(op, all);
}

} // namespace

result<void> device_ops::sgd_update(const device_tensor& p, const device_tensor& g,
                                    const kernels::sgd_params& params) {
  if (auto why = check_rule("sgd_update", *on_, {{"p", p}, {"g", g}}))
    return *why;
  result<void> done;
  with_float(p.type(), [&]<class T>(std::type_identity<T>) {
    auto cpu = [=] {
      kernels::sgd_update<T>(span_of<const T>(p), span_of<T>(p), span_of<const T>(g), params);
    };
    auto gpu = [=]([[maybe_unused]] void* stream) {
      return TROUPE_CUDA_LAUNCH(kernels::cuda::sgd_update<T>(
        p.as<T>(), p.as<T>(), g.as<T>(), static_cast<std::size_t>(p.size()), params, stream));
    };
    done = on_->enqueue(stream_, either("sgd_update", cpu, gpu));
  });
  return done;
}

result<void> device_ops::momentum_update(const device_tensor& p, const device_tensor& v,
                                         const device_tensor& g,
                                         const kernels::momentum_params& params) {
  if (auto why = check_rule("momentum_update", *on_, {{"p", p}, {"v", v}, {"g", g}}))
    return *why;
  result<void> done;
  with_float(p.type(), [&]<class T>(std::type_identity<T>) {
    auto cpu = [=] {
      kernels::momentum_update<T>(span_of<const T>(p), span_of<T>(p), span_of<const T>(v),
                                  span_of<T>(v), span_of<const T>(g), params);
    };
    auto gpu = [=]([[maybe_unused]] void* stream) {
      return TROUPE_CUDA_LAUNCH(
        kernels::cuda::momentum_update<T>(p.as<T>(), p.as<T>(), v.as<T>(), v.as<T>(), g.as<T>(),
                                          static_cast<std::size_t>(p.size()), params, stream));
    };
    done = on_->enqueue(stream_, either("momentum_update", cpu, gpu));
  });
  return done;
}

result<void> device_ops::adagrad_update(const device_tensor& p, const device_tensor& acc,
                                        const device_tensor& g,
                                        const kernels::adagrad_params& params) {
  if (auto why = check_rule("adagrad_update", *on_, {{"p", p}, {"acc", acc}, {"g", g}}))
    return *why;
  result<void> done;
  with_float(p.type(), [&]<class T>(std::type_identity<T>) {
    auto cpu = [=] {
      kernels::adagrad_update<T>(span_of<const T>(p), span_of<T>(p), span_of<const T>(acc),
                                 span_of<T>(acc), span_of<const T>(g), params);
    };
    auto gpu = [=]([[maybe_unused]] void* stream) {
      return TROUPE_CUDA_LAUNCH(
        kernels::cuda::adagrad_update<T>(p.as<T>(), p.as<T>(), acc.as<T>(), acc.as<T>(), g.as<T>(),
                                         static_cast<std::size_t>(p.size()), params, stream));
    };
    done = on_->enqueue(stream_, either("adagrad_update", cpu, gpu));
  });
  return done;
}

result<void> device_ops::adam_update(const device_tensor& p, const device_tensor& m,
                                     const device_tensor& v, const device_tensor& g,
                                     std::uint64_t t, const kernels::adam_params& params) {
  if (auto why = check_rule("adam_update", *on_, {{"p", p}, {"m", m}, {"v", v}, {"g", g}}))
    return *why;
  result<void> done;
  with_float(p.type(), [&]<class T>(std::type_identity<T>) {
    auto cpu = [=] {
      kernels::adam_update<T>(span_of<const T>(p), span_of<T>(p), span_of<const T>(m),
                              span_of<T>(m), span_of<const T>(v), span_of<T>(v),
                              span_of<const T>(g), t, params);
    };
    auto gpu = [=]([[maybe_unused]] void* stream) {
      return TROUPE_CUDA_LAUNCH(kernels::cuda::adam_update<T>(
        p.as<T>(), p.as<T>(), m.as<T>(), m.as<T>(), v.as<T>(), v.as<T>(), g.as<T>(),
        static_cast<std::size_t>(p.size()), t, params, stream));
    };
    done = on_->enqueue(stream_, either("adam_update", cpu, gpu));
  });
  return done;
}

namespace {

/// The slots that `how` has, each beside `p` in size and type.
std::optional<failure> check_slots(const char* op, const device& on, const optimizer_spec& how,
                                   const device_tensor& p, std::span<const device_tensor> slots) {
  const auto* row = find_optimizer(how.kind);
  if (!row || how.kind == optimizer_kind::none)
    return make_failure(errc::invalid_argument, std::string{op} + ": optimizer kind "
                                                  + std::to_string(static_cast<unsigned>(how.kind))
                                                  + " has no rule");
  if (slots.size() != row->slots.size())
    return make_failure(errc::invalid_argument,
                        std::string{op} + ": " + std::to_string(slots.size()) + " slots for "
                          + row->name + ", expected " + std::to_string(row->slots.size()));
  for (std::size_t i = 0; i < slots.size(); ++i)
    if (auto why = check_rule(op, on, {{"p", p}, {row->slots[i].name, slots[i]}}))
      return why;
  return {};
}

} // namespace

result<void> device_ops::update(const optimizer_spec& how, const kernels::update_step& step,
                                const device_tensor& p, std::span<const device_tensor> slots,
                                const device_tensor& g) {
  if (auto why = check_rule("update", *on_, {{"p", p}, {"g", g}}))
    return *why;
  if (auto why = check_slots("update", *on_, how, p, slots))
    return *why;
  result<void> done;
  with_float(p.type(), [&]<class T>(std::type_identity<T>) {
    const std::vector<device_tensor> held{slots.begin(), slots.end()};
    auto cpu = [=] {
      kernels::update_arrays<T> at{.p_in = span_of<const T>(p), .p_out = span_of<T>(p)};
      for (std::size_t i = 0; i < held.size(); ++i) {
        at.slots_in[i] = span_of<const T>(held[i]);
        at.slots_out[i] = span_of<T>(held[i]);
      }
      kernels::update<T>(how, step, at, span_of<const T>(g));
    };
    auto gpu = [=]([[maybe_unused]] void* stream) {
      kernels::cuda::update_pointers<T> at{.p_in = p.as<T>(), .p_out = p.as<T>()};
      for (std::size_t i = 0; i < held.size(); ++i)
        at.slots_in[i] = at.slots_out[i] = held[i].as<T>();
      return TROUPE_CUDA_LAUNCH(kernels::cuda::update<T>(
        how, step, at, g.as<T>(), static_cast<std::size_t>(p.size()), stream));
    };
    done = on_->enqueue(stream_, either("update", cpu, gpu));
  });
  return done;
}

// --- rows

namespace {

/// A table and rows of it: `values` holds a row of the table's width for each.
std::optional<failure> check_rows(const char* op, const device& on, const device_tensor& table,
                                  const device_tensor& rows, const char* name,
                                  const device_tensor& values, const device_tensor& bad_rows) {
  if (auto why = check_here(
        op, on, {{"table", table}, {"rows", rows}, {name, values}, {"bad_rows", bad_rows}}))
    return why;
  if (auto why = check_type(op, {"table", table},
                            {dtype::f32, dtype::f64, dtype::i32, dtype::i64, dtype::u8}))
    return why;
  if (auto why = check_type(op, {name, values}, {table.type()}))
    return why;
  for (const auto& each : {named_tensor{"rows", rows}, {"bad_rows", bad_rows}})
    if (auto why = check_type(op, each, {dtype::i64}))
      return why;
  if (auto why = check_size(op, {"bad_rows", bad_rows}, 1))
    return why;
  if (table.shape().empty() || table.shape()[0] == 0)
    return make_failure(errc::shape_mismatch, std::string{op} + ": table has shape "
                                                + to_string(table.shape()) + ", expected rows");
  return check_size(op, {name, values}, rows.size() * (table.size() / table.shape()[0]));
}

template <class F>
void with_row_type(dtype type, F f) {
  if (type == dtype::u8)
    f(std::type_identity<std::uint8_t>{});
  else
    with_number(type, f);
}

/// What the CPU's kernels refuse is left out here, as a GPU does: the good rows, and the count.
template <class T, class F>
void each_good_row(const device_tensor& table, const device_tensor& rows, std::int64_t* bad, F f) {
  const auto height = static_cast<std::uint64_t>(table.shape()[0]);
  *bad = 0;
  const auto all = span_of<const std::int64_t>(rows);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool good = static_cast<std::uint64_t>(all[i]) < height; // negatives are huge here
    *bad += good ? 0 : 1;
    f(i, all[i], good);
  }
}

} // namespace

result<void> device_ops::gather_rows(const device_tensor& table, const device_tensor& rows,
                                     const device_tensor& out, const device_tensor& bad_rows) {
  if (auto why = check_rows("gather_rows", *on_, table, rows, "out", out, bad_rows))
    return *why;
  const auto height = static_cast<std::size_t>(table.shape()[0]);
  const auto cols = static_cast<std::size_t>(table.size()) / height;
  result<void> done;
  with_row_type(table.type(), [&]<class T>(std::type_identity<T>) {
    auto cpu = [=] {
      const auto all = span_of<const std::int64_t>(rows);
      auto* bad = bad_rows.as<std::int64_t>();
      *bad = 0;
      if (kernels::first_bad_row(all, height) == all.size())
        return kernels::gather_rows<T>(span_of<const T>(table), cols, all, span_of<T>(out));
      each_good_row<T>(table, rows, bad, [&](std::size_t i, std::int64_t row, bool good) {
        for (std::size_t c = 0; c < cols; ++c)
          out.as<T>()[i * cols + c] =
            good ? table.as<T>()[static_cast<std::size_t>(row) * cols + c] : T(0);
      });
    };
    auto gpu = [=]([[maybe_unused]] void* stream) -> int {
#ifdef TROUPE_HAS_CUDA
      namespace cuda = kernels::cuda;
      if (int failed = cuda::fill<std::int64_t>(0, bad_rows.as<std::int64_t>(), 1, stream);
          failed != 0)
        return failed;
      return cuda::gather_rows<T>(table.as<T>(), height, cols, rows.as<std::int64_t>(),
                                  static_cast<std::size_t>(rows.size()), out.as<T>(),
                                  bad_rows.as<std::int64_t>(), stream);
#else
      return no_cuda_code;
#endif
    };
    done = on_->enqueue(stream_, either("gather_rows", cpu, gpu));
  });
  return done;
}

result<void> device_ops::scatter_add_rows(const device_tensor& table, const device_tensor& rows,
                                          const device_tensor& values,
                                          const device_tensor& bad_rows) {
  if (auto why = check_rows("scatter_add_rows", *on_, table, rows, "values", values, bad_rows))
    return *why;
  const auto height = static_cast<std::size_t>(table.shape()[0]);
  const auto cols = static_cast<std::size_t>(table.size()) / height;
  auto scratch = scratch_for(*on_, stream_, scatter_scratch(rows.size()));
  if (!scratch)
    return scratch.error();
  result<void> done;
  with_row_type(table.type(), [&]<class T>(std::type_identity<T>) {
    auto cpu = [=] {
      const auto all = span_of<const std::int64_t>(rows);
      auto* bad = bad_rows.as<std::int64_t>();
      *bad = 0;
      const auto add = kernels::scatter_op::add;
      if (kernels::first_bad_row(all, height) == all.size())
        return kernels::scatter_rows<T>(add, span_of<T>(table), cols, all,
                                        span_of<const T>(values));
      each_good_row<T>(table, rows, bad, [&](std::size_t i, std::int64_t row, bool good) {
        if (good)
          kernels::scatter_rows<T>(add, span_of<T>(table), cols, {&row, 1},
                                   span_of<const T>(values).subspan(i * cols, cols));
      });
    };
    auto gpu = [=, memory = *scratch]([[maybe_unused]] void* stream) -> int {
#ifdef TROUPE_HAS_CUDA
      namespace cuda = kernels::cuda;
      if (int failed = cuda::fill<std::int64_t>(0, bad_rows.as<std::int64_t>(), 1, stream);
          failed != 0)
        return failed;
      return cuda::scatter_add_rows<T>(table.as<T>(), height, cols, rows.as<std::int64_t>(),
                                       static_cast<std::size_t>(rows.size()), values.as<T>(),
                                       bad_rows.as<std::int64_t>(), memory.data(), stream);
#else
      return no_cuda_code;
#endif
    };
    done = on_->enqueue(stream_, either("scatter_add_rows", cpu, gpu));
  });
  return done;
}

// --- buckets

namespace {

std::optional<failure> check_bucket(const char* op, const device& on,
                                    std::span<const device_tensor> parts,
                                    const device_tensor& bucket) {
  std::int64_t size = 0;
  for (const auto& part : parts) {
    if (auto why = check_here(op, on, {{"parts", part}}))
      return why;
    if (auto why = check_type(op, {"parts", part}, {dtype::f32}))
      return why;
    size += part.size();
  }
  if (auto why = check_here(op, on, {{"bucket", bucket}}))
    return why;
  if (auto why = check_type(op, {"bucket", bucket}, {dtype::f32, dtype::bf16}))
    return why;
  return check_size(op, {"bucket", bucket}, size);
}

template <class T>
std::vector<std::span<T>> spans_of(const std::vector<device_tensor>& parts) {
  std::vector<std::span<T>> out;
  for (const auto& part : parts)
    out.push_back(span_of<T>(part));
  return out;
}

#ifdef TROUPE_HAS_CUDA
std::vector<kernels::cuda::bucket_part> parts_of(const std::vector<device_tensor>& parts) {
  std::vector<kernels::cuda::bucket_part> out;
  for (const auto& part : parts)
    out.push_back({part.as<float>(), static_cast<std::size_t>(part.size())});
  return out;
}
#endif

} // namespace

result<void> device_ops::pack_bucket(std::span<const device_tensor> parts,
                                     const device_tensor& bucket) {
  if (auto why = check_bucket("pack_bucket", *on_, parts, bucket))
    return *why;
  const std::vector<device_tensor> all(parts.begin(), parts.end());
  const bool plain = bucket.type() == dtype::f32;
  auto cpu = [=] {
    const auto from = spans_of<const float>(all);
    if (plain)
      kernels::pack_bucket(from, span_of<float>(bucket));
    else
      kernels::pack_bucket_bf16(from, span_of<std::uint16_t>(bucket));
  };
  auto gpu = [=]([[maybe_unused]] void* stream) -> int {
#ifdef TROUPE_HAS_CUDA
    return plain
             ? kernels::cuda::pack_bucket(parts_of(all), static_cast<float*>(bucket.data()), stream)
             : kernels::cuda::pack_bucket_bf16(parts_of(all),
                                               static_cast<std::uint16_t*>(bucket.data()), stream);
#else
    return no_cuda_code;
#endif
  };
  return on_->enqueue(stream_, either("pack_bucket", cpu, gpu));
}

result<void> device_ops::unpack_bucket(const device_tensor& bucket,
                                       std::span<const device_tensor> parts, float scale) {
  if (auto why = check_bucket("unpack_bucket", *on_, parts, bucket))
    return *why;
  const std::vector<device_tensor> all(parts.begin(), parts.end());
  const bool plain = bucket.type() == dtype::f32;
  auto cpu = [=] {
    const auto to = spans_of<float>(all);
    if (plain)
      kernels::unpack_bucket(span_of<const float>(bucket), to, scale);
    else
      kernels::unpack_bucket_bf16(span_of<const std::uint16_t>(bucket), to, scale);
  };
  auto gpu = [=]([[maybe_unused]] void* stream) -> int {
#ifdef TROUPE_HAS_CUDA
    return plain ? kernels::cuda::unpack_bucket(static_cast<const float*>(bucket.data()),
                                                parts_of(all), scale, stream)
                 : kernels::cuda::unpack_bucket_bf16(
                   static_cast<const std::uint16_t*>(bucket.data()), parts_of(all), scale, stream);
#else
    return no_cuda_code;
#endif
  };
  return on_->enqueue(stream_, either("unpack_bucket", cpu, gpu));
}

} // namespace troupe
