#include <array>
#include <utility>

#include <troupe/kernels/hash.hpp>
#include <troupe/transport/detail/group_core.hpp>
#include <troupe/transport/detail/inproc_engine.hpp>
#include <troupe/transport/detail/network_engine.hpp>
#include <troupe/transport/detail/pause.hpp>
#include <troupe/transport/detail/shm_engine.hpp>

/// What the members of an epoch share, and what carries an operation therefore.
namespace troupe::detail {

namespace {

constexpr std::size_t plans_max = 32;

std::uint64_t key_of(const epoch_spec& spec, std::uint64_t group) {
  kernels::hasher hash{group};
  hash.update(&spec.epoch, sizeof spec.epoch);
  for (const collective_member& m : spec.members) {
    hash.update(&m.id, sizeof m.id);
    hash.update(m.address.data(), m.address.size() + 1);
  }
  return hash.digest();
}

} // namespace

group_core::~group_core() = default;

result<void> group_core::share_memory(time_point deadline) {
  bool one_process = spec_.locality.process != 0;
  bool one_host = spec_.locality.host != 0;
  for (std::uint32_t peer = 0; peer < size(); ++peer) {
    if (peer == rank())
      continue;
    const group_locality& other = channels_->locality(peer);
    one_process = one_process && other == spec_.locality;
    one_host = one_host && other.host == spec_.locality.host;
  }
  if (size() > 1 && one_process) {
    process_ = find_inproc_area(key_of(spec_, door_.group()), size());
    class_ = group_class::process;
    keeps_core_ = have_cores(size());
  } else if (size() > 1 && one_host) {
    return share_host_memory(deadline);
  }
  return {};
}

// Member 0 makes the memory and tells where it is; it is used if all could map it.
result<void> group_core::share_host_memory(time_point deadline) {
  const std::size_t bytes = shm_segment::bytes_for(size(), options_.arena_bytes);
  host_memory memory;
  std::array<std::int64_t, 3> where{};
  std::int64_t ok = 0;
  if (rank() == 0)
    if (auto made = host_memory::create(bytes)) {
      memory = std::move(*made);
      where = {own_pid(), memory.fd(), static_cast<std::int64_t>(bytes)};
      ok = 1;
    }
  collective_task tell;
  tell.kind = collective_kind::broadcast;
  tell.type = dtype::i64;
  tell.count = where.size();
  tell.algorithm = collective_algorithm::flat;
  tell.output = reinterpret_cast<std::byte*>(where.data());
  tell.input = tell.output;
  tell.options.deadline = time_until(deadline);
  if (auto told = run(tell); !told)
    return told;
  if (rank() != 0 && where[2] == static_cast<std::int64_t>(bytes))
    if (auto found = host_memory::open(where[0], where[1], bytes)) {
      memory = std::move(*found);
      ok = 1;
    }
  const reduction all{reduce_op::min};
  collective_task agree;
  agree.kind = collective_kind::all_reduce;
  agree.type = dtype::i64;
  agree.count = 1;
  agree.how = &all;
  agree.algorithm = collective_algorithm::exchange;
  agree.output = reinterpret_cast<std::byte*>(&ok);
  agree.input = agree.output;
  agree.options.deadline = time_until(deadline);
  if (auto agreed = run(agree); !agreed)
    return agreed;
  memory.close_door();
  if (ok == 0)
    return {};
  host_ = std::make_unique<shm_segment>(std::move(memory), size(), rank(), options_.arena_bytes,
                                        options_.table);
  class_ = group_class::host;
  return {};
}

tensor group_core::allocate(dtype type, shape_t shape) {
  return host_ ? host_->arena().allocate(type, std::move(shape)) : tensor{type, std::move(shape)};
}

duration group_core::time_until(time_point deadline) const {
  const time_point now = env_.clock.now();
  return now < deadline ? deadline - now : duration::zero();
}

std::unique_ptr<collective_engine> group_core::engine_for(const collective_task& task,
                                                          std::uint64_t description) {
  if (process_)
    return std::make_unique<inproc_engine>(*process_, *channels_, task, description, rank(),
                                           operation_);
  if (host_)
    return std::make_unique<shm_engine>(*host_, *channels_, task, description, rank(), operation_);
  const collective_plan& plan = plan_for(task, description);
  return std::make_unique<network_engine>(plan, data_for(task, description, plan), links_,
                                          counters_);
}

const collective_plan& group_core::plan_for(const collective_task& task,
                                            std::uint64_t description) {
  for (const cached_plan& known : plans_)
    if (known.description == description)
      return *known.plan;
  plan_task what;
  what.kind = task.kind;
  what.algorithm = task.algorithm;
  what.rank = rank();
  what.size = size();
  what.root = task.root;
  what.count = task.count;
  what.parts = task.parts;
  what.encoded = task.options.wire != kernels::encoding::plain;
  if (plans_.size() < plans_max)
    plans_.emplace_back();
  cached_plan& out = plans_[next_plan_++ % plans_.size()];
  out.description = description;
  out.plan = std::make_unique<collective_plan>(make_plan(what));
  return *out.plan;
}

operation_data group_core::data_for(const collective_task& task, std::uint64_t description,
                                    const collective_plan& plan) {
  operation_data out;
  out.input = task.input;
  out.output = task.output;
  out.scratch = scratch_.at_least(plan.scratch_count * size_of(task.type));
  out.merge = merge_spec_of(task, size());
  out.user = user_of(task);
  out.epoch = static_cast<std::uint32_t>(spec_.epoch);
  out.operation = operation_;
  out.description = static_cast<std::uint32_t>(description);
  return out;
}

} // namespace troupe::detail
