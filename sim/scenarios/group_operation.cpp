#include <troupe/sim/scenarios/group_operation.hpp>

#include <algorithm>
#include <array>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <troupe/kernels/casts.hpp>
#include <troupe/kernels/merge.hpp>
#include <troupe/sim/run_hash.hpp>

namespace troupe::sim {

namespace {

/// Whole numbers as elements of a type, divided there, and rounded as what travelled in 16 bits.
tensor made_of(const std::vector<std::int64_t>& values, dtype type, std::int64_t divide_by = 1,
               kernels::encoding round = kernels::encoding::plain) {
  tensor out{type, {static_cast<std::int64_t>(values.size())}};
  auto fill = [&](auto to) {
    using element = std::remove_reference_t<decltype(to[0])>;
    for (std::size_t i = 0; i < to.size(); ++i)
      to[i] = static_cast<element>(values[i]) / static_cast<element>(divide_by);
  };
  if (type == dtype::f64)
    fill(out.mutable_as<double>());
  if (type == dtype::i64)
    fill(out.mutable_as<std::int64_t>());
  if (type == dtype::f64 || type == dtype::i64)
    return out;
  std::vector<float> wide(values.size());
  fill(std::span{wide});
  if (type == dtype::f16 || type == dtype::bf16) {
    kernels::encode(type == dtype::f16 ? kernels::encoding::f16 : kernels::encoding::bf16,
                    reinterpret_cast<const std::byte*>(wide.data()), out.mutable_bytes().data(),
                    wide.size());
    return out;
  }
  auto to = out.mutable_as<float>();
  for (std::size_t i = 0; i < wide.size(); ++i)
    to[i] = round == kernels::encoding::f16 ? kernels::f32_from_f16(kernels::f16_from_f32(wide[i]))
            : round == kernels::encoding::bf16
              ? kernels::f32_from_bf16(kernels::bf16_from_f32(wide[i]))
              : wide[i];
  return out;
}

/// What member `id` gives: so small that results are exact in any order.
std::vector<std::int64_t> values_of(std::uint64_t id, std::int64_t count, std::int64_t salt) {
  std::vector<std::int64_t> out;
  for (std::int64_t i = 0; i < count; ++i)
    out.push_back(static_cast<std::int64_t>((id * 7 + static_cast<std::uint64_t>(i * 3 + salt)) % 5)
                  + 1);
  return out;
}

tensor given_by(std::uint64_t id, dtype type, std::int64_t count, std::int64_t salt) {
  return made_of(values_of(id, count, salt), type);
}

/// The merge of what all members give, by hand.
tensor merged(const operation_plan& plan, std::span<const collective_member> members,
              std::int64_t salt) {
  auto out = values_of(members[0].id, plan.count, salt);
  for (const auto& m : members.subspan(1)) {
    auto with = values_of(m.id, plan.count, salt);
    for (std::size_t i = 0; i < out.size(); ++i)
      switch (plan.op) {
        case reduce_op::min: out[i] = std::min(out[i], with[i]); break;
        case reduce_op::max: out[i] = std::max(out[i], with[i]); break;
        case reduce_op::prod: out[i] *= with[i]; break;
        default: out[i] += with[i]; break;
      }
  }
  return made_of(out, plan.type,
                 plan.op == reduce_op::mean ? static_cast<std::int64_t>(members.size()) : 1,
                 plan.options.wire);
}

std::uint64_t digest_of(std::span<const tensor> xs) {
  run_hash h;
  for (const auto& x : xs)
    h.fold(reinterpret_cast<const char*>(x.bytes().data()), x.size_bytes());
  return h.value();
}

/// What an operation gave, and what it should have.
struct outcome_of {
  std::vector<tensor> got{};
  std::vector<tensor> wanted{};
};

/// One member's part in one operation.
class operation {
public:
  operation(collective_group& group, const operation_plan& plan) : group_{group}, plan_{plan} {}

  result<outcome_of> run() {
    switch (plan_.kind) {
      case collective_kind::all_reduce: return all_reduce();
      case collective_kind::reduce_scatter: return reduce_scatter();
      case collective_kind::all_gather: return gather(true);
      case collective_kind::gather: return gather(false);
      case collective_kind::broadcast: return broadcast();
      case collective_kind::reduce: return reduce();
      case collective_kind::barrier: break;
    }
    if (auto ok = group_.barrier(plan_.options); !ok)
      return ok.error();
    return outcome_of{};
  }

private:
  std::uint64_t me() const { return group_.members()[group_.rank()].id; }
  tensor mine(std::int64_t salt) const { return given_by(me(), plan_.type, plan_.count, salt); }

  result<outcome_of> all_reduce() {
    outcome_of out;
    for (std::int64_t t = 0; t < plan_.tensors; ++t) {
      out.got.push_back(mine(t));
      out.wanted.push_back(merged(plan_, group_.members(), t));
    }
    if (auto ok = group_.all_reduce(out.got, plan_.op, plan_.options); !ok)
      return ok.error();
    return out;
  }
  result<outcome_of> reduce_scatter() {
    auto segment = [&](std::uint32_t rank) {
      return static_cast<std::int64_t>(
        segment_begin(static_cast<std::size_t>(plan_.count), group_.size(), rank));
    };
    auto from = segment(group_.rank()), to = segment(group_.rank() + 1);
    outcome_of out;
    out.wanted.push_back(merged(plan_, group_.members(), 0).rows(from, to));
    out.got.emplace_back(plan_.type, shape_t{to - from});
    if (auto ok = group_.reduce_scatter(mine(0), out.got[0], plan_.op, plan_.options); !ok)
      return ok.error();
    return out;
  }
  result<outcome_of> reduce() {
    outcome_of out;
    bool root = group_.rank() == plan_.root;
    out.got.push_back(mine(0));
    out.wanted.push_back(root ? merged(plan_, group_.members(), 0) : mine(0));
    if (auto ok = group_.reduce(out.got[0], plan_.root, plan_.op, plan_.options); !ok)
      return ok.error();
    return out;
  }
  result<outcome_of> broadcast() {
    outcome_of out;
    auto root = group_.members()[plan_.root].id;
    out.got.push_back(mine(0));
    out.wanted.push_back(given_by(root, plan_.type, plan_.count, 0));
    if (auto ok = group_.broadcast(out.got[0], plan_.root, plan_.options); !ok)
      return ok.error();
    return out;
  }
  /// Member i gives i elements more than the first.
  result<outcome_of> gather(bool to_all) {
    std::vector<std::size_t> counts;
    outcome_of out;
    std::int64_t sum = 0;
    for (std::uint32_t i = 0; i < group_.size(); ++i) {
      counts.push_back(static_cast<std::size_t>(plan_.count + i));
      out.wanted.push_back(given_by(group_.members()[i].id, plan_.type, plan_.count + i, 0));
      sum += plan_.count + i;
    }
    auto give = given_by(me(), plan_.type, plan_.count + group_.rank(), 0);
    out.got.emplace_back(plan_.type, shape_t{sum});
    auto ok = to_all ? group_.all_gather(give, out.got[0], counts, plan_.options)
                     : group_.gather(give, out.got[0], plan_.root, counts, plan_.options);
    if (!ok)
      return ok.error();
    if (!to_all && group_.rank() != plan_.root)
      return outcome_of{};
    return joined(std::move(out));
  }
  /// One tensor of what was wanted, as `got` is one.
  outcome_of joined(outcome_of out) const {
    tensor all{plan_.type, out.got[0].shape()};
    auto at = all.mutable_bytes().begin();
    for (const auto& part : out.wanted)
      at = std::copy(part.bytes().begin(), part.bytes().end(), at);
    out.wanted = {std::move(all)};
    return out;
  }

  collective_group& group_;
  const operation_plan& plan_;
};

} // namespace

operation_plan draw_operation(const draw_stream& run, const collective_group& group,
                              std::uint64_t number) {
  auto draws = run.at(value_of(group.epoch())).at(number);
  operation_plan out;
  out.kind = static_cast<collective_kind>(draws.below(7));
  out.op = static_cast<reduce_op>(draws.below(5));
  constexpr std::array types{dtype::f32, dtype::f64, dtype::i64, dtype::bf16, dtype::f16};
  out.type = types[draws.below(types.size())];
  constexpr std::array<std::uint64_t, 4> sizes{1, 40, 500, 6'000};
  out.count = static_cast<std::int64_t>(draws.below(sizes[draws.below(sizes.size())]));
  out.root = static_cast<std::uint32_t>(draws.below(group.size()));
  out.tensors = 1 + static_cast<std::int64_t>(draws.below(3));
  if (draws.below(3) == 0 && out.type == dtype::f32)
    out.options.wire = draws.below(2) == 0 ? kernels::encoding::bf16 : kernels::encoding::f16;
  if (draws.below(3) == 0)
    out.options.order = reduction_order::fixed;
  out.options.bucket_bytes = draws.below(2) == 0 ? 512 : std::size_t{1} << 20;
  return out;
}

result<operation_outcome> run_operation(collective_group& group, const operation_plan& plan) {
  auto out = operation{group, plan}.run();
  if (!out)
    return out.error();
  return operation_outcome{.got = digest_of(out->got), .wanted = digest_of(out->wanted)};
}

} // namespace troupe::sim
