#include <troupe/actors/replicas/collective_order_checker.hpp>

#include <algorithm>
#include <utility>

namespace troupe {

std::string to_string(const replica_call& call) {
  std::string out = call.kind;
  if (!call.how.empty())
    out += " " + call.how;
  if (call.on_devices)
    out += " on devices";
  for (std::size_t i = 0; i < call.shapes.size(); ++i)
    out += (i == 0 ? " " : ", ") + to_string(call.type) + to_string(call.shapes[i]);
  return out;
}

collective_order_checker::collective_order_checker(std::uint32_t first_id, std::uint32_t replicas)
  : first_id_{first_id}, states_(replicas) {}

std::string collective_order_checker::name(std::uint32_t local) const {
  return "replica " + std::to_string(first_id_ + local);
}

/// Parts that do not go together in a gather are bad values and no other call.
static errc how_they_differ(const replica_call& a, const replica_call& b) {
  if (a.kind != "all_gather" || a.kind != b.kind || a.how != b.how || a.on_devices != b.on_devices)
    return errc::mismatch;
  return a.type == b.type ? errc::shape_mismatch : errc::dtype_mismatch;
}

std::optional<failure> collective_order_checker::begin(std::uint32_t local, replica_call call) {
  auto& own = states_.at(local);
  const auto number = ++own.calls;
  own.in_call = true;
  if (number - forgotten_ > made_.size()) {
    made_.push_back(std::move(call));
    made_by_.push_back(local);
  } else if (!(at(number) == call)) {
    return make_failure(how_they_differ(call, at(number)),
                        "call " + std::to_string(number) + ": " + name(local) + " calls "
                          + to_string(call) + ", " + name(made_by_[number - 1 - forgotten_])
                          + " calls " + to_string(at(number)));
  }
  for (std::uint32_t i = 0; i < states_.size(); ++i)
    if (states_[i].ended && states_[i].well && states_[i].calls < number)
      return make_failure(errc::mismatch, "call " + std::to_string(number) + ": " + name(local)
                                            + " calls " + to_string(at(number)) + ", but " + name(i)
                                            + " has ended after " + std::to_string(states_[i].calls)
                                            + " calls");
  return std::nullopt;
}

void collective_order_checker::done(std::uint32_t local) {
  states_.at(local).in_call = false;
  forget();
}

std::optional<failure> collective_order_checker::end(std::uint32_t local, bool well) {
  auto& own = states_.at(local);
  own.in_call = false;
  own.ended = true;
  own.well = well;
  if (!well)
    return std::nullopt;
  for (std::uint32_t i = 0; i < states_.size(); ++i)
    if (states_[i].calls > own.calls && !(states_[i].ended && !states_[i].well))
      return make_failure(errc::mismatch, "call " + std::to_string(own.calls + 1) + ": " + name(i)
                                            + " calls " + to_string(at(own.calls + 1)) + ", but "
                                            + name(local) + " has ended after "
                                            + std::to_string(own.calls) + " calls");
  forget();
  return std::nullopt;
}

const replica_call* collective_order_checker::next(std::uint32_t local) const {
  const auto number = states_.at(local).calls + 1;
  return number - forgotten_ <= made_.size() ? &at(number) : nullptr;
}

bool collective_order_checker::all_ended() const {
  return std::all_of(states_.begin(), states_.end(), [](const state& s) { return s.ended; });
}

bool collective_order_checker::all_in_call() const {
  return std::all_of(states_.begin(), states_.end(),
                     [this](const state& s) { return s.in_call && s.calls == states_[0].calls; });
}

std::string collective_order_checker::waiting() const {
  std::uint64_t most = 0;
  for (const auto& s : states_)
    if (s.in_call)
      most = std::max(most, s.calls);
  if (most == 0)
    return {};
  std::string missing;
  for (std::uint32_t i = 0; i < states_.size(); ++i)
    if (states_[i].calls < most)
      missing += (missing.empty() ? "" : ", ") + std::to_string(first_id_ + i);
  if (missing.empty())
    return "op " + std::to_string(most) + " " + to_string(at(most)) + " runs";
  return "op " + std::to_string(most) + " " + to_string(at(most)) + " waits for {" + missing + "}";
}

/// Calls that nobody will be compared with any more.
void collective_order_checker::forget() {
  std::uint64_t least = ~std::uint64_t{0};
  for (const auto& s : states_)
    least = std::min(least, s.in_call ? s.calls - 1 : s.calls);
  for (; forgotten_ < least && made_.size() > 0; ++forgotten_) {
    made_.pop_front();
    made_by_.pop_front();
  }
}

} // namespace troupe
