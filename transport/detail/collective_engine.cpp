#include <troupe/transport/detail/collective_engine.hpp>

#include <algorithm>
#include <array>
#include <cstring>

#include <troupe/kernels/hash.hpp>

namespace troupe::detail {

namespace {

kernels::merge_op merge_op_of(reduce_op op) {
  switch (op) {
    case reduce_op::min: return kernels::merge_op::min;
    case reduce_op::max: return kernels::merge_op::max;
    case reduce_op::prod: return kernels::merge_op::prod;
    case reduce_op::sum:
    case reduce_op::mean:
    case reduce_op::user: break;
  }
  return kernels::merge_op::sum;
}

} // namespace

kernels::merge_spec merge_spec_of(const collective_task& task, std::uint32_t size) {
  kernels::merge_spec out;
  out.type = task.type;
  if (task.how == nullptr)
    return out;
  out.op = merge_op_of(task.how->op);
  out.divide_by = task.how->op == reduce_op::mean ? size : 1;
  out.round = task.options.wire;
  return out;
}

const user_reduction* user_of(const collective_task& task) {
  return task.how != nullptr && task.how->op == reduce_op::user ? &task.how->user : nullptr;
}

std::uint64_t describe(const collective_task& task, std::uint32_t size) {
  const std::uint64_t how = task.how != nullptr ? 1 + static_cast<std::uint64_t>(task.how->op) : 0;
  const std::array<std::uint64_t, 9> words{static_cast<std::uint64_t>(task.kind),
                                           static_cast<std::uint64_t>(task.type),
                                           task.count,
                                           task.root,
                                           static_cast<std::uint64_t>(task.algorithm),
                                           static_cast<std::uint64_t>(task.options.order),
                                           static_cast<std::uint64_t>(task.options.wire),
                                           how,
                                           size};
  std::uint64_t out = kernels::hash64(words.data(), sizeof words);
  if (!task.parts.empty())
    out = kernels::hash64(task.parts.data(), task.parts.size() * sizeof(task.parts[0]), out);
  if (const user_reduction* user = user_of(task))
    out = kernels::hash64_text(user->name, out);
  if (!task.options.what.empty())
    out = kernels::hash64_text(task.options.what, out);
  return out;
}

std::string doing(const collective_task& task) {
  return task.options.what.empty() ? to_string(task) : task.options.what + task.options.detail;
}

std::string to_string(const collective_task& task) {
  std::string out{troupe::to_string(task.kind)};
  if (task.kind == collective_kind::barrier)
    return out;
  if (task.how != nullptr)
    out += " "
           + (task.how->op == reduce_op::user ? task.how->user.name
                                              : std::string{troupe::to_string(task.how->op)});
  return out + " " + troupe::to_string(task.type) + "[" + std::to_string(task.count) + "]";
}

void merge_task(const kernels::merge_spec& spec, const user_reduction* user,
                std::span<const kernels::merge_source> sources, std::span<std::byte* const> outs,
                std::size_t count) {
  if (user == nullptr || sources.size() == 1) {
    kernels::merge(spec, sources, outs, count);
    return;
  }
  alignas(64) std::array<std::byte, 8192> sum;
  const std::size_t element = size_of(spec.type);
  const std::size_t len_max = sum.size() / element;
  for (std::size_t at = 0; at < count; at += len_max) {
    const std::size_t len = std::min(len_max, count - at);
    std::memcpy(sum.data(), sources[0].data + at * element, len * element);
    for (const kernels::merge_source& source : sources.subspan(1))
      user->merge(sum.data(), source.data + at * element, len);
    for (std::byte* out : outs)
      std::memcpy(out + at * element, sum.data(), len * element);
  }
}

} // namespace troupe::detail
