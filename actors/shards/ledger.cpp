#include <troupe/actors/shards/ledger.hpp>

#include <algorithm>

#include <troupe/core/error.hpp>

namespace troupe {

namespace {

constexpr std::uint64_t call_bits = 40;

// Term and thread of a program call, as the id of its call 0: one entry per such id.
closure_id thread_of(const closure_id& id) { return {id.term, id.seq >> call_bits << call_bits}; }

template <class Entries>
auto lower_bound_of(Entries& entries, const closure_id& id) {
  return std::lower_bound(entries.begin(), entries.end(), id,
                          [](const auto& x, const closure_id& y) { return x.id < y; });
}

} // namespace

bool ledger::op_set::contains(op_no op) const {
  if (value_of(op) < 64)
    return (low >> value_of(op) & 1) != 0;
  return std::binary_search(high.begin(), high.end(), op);
}

void ledger::op_set::make_room(op_no op) {
  if (value_of(op) >= 64 && high.size() == high.capacity())
    high.reserve(std::max<std::size_t>(8, 2 * high.capacity()));
}

void ledger::op_set::insert(op_no op) {
  if (value_of(op) < 64)
    low |= std::uint64_t{1} << value_of(op);
  else
    high.insert(std::lower_bound(high.begin(), high.end(), op), op);
}

ledger_verdict ledger::check(const op_key& key) const {
  if (is_program_call(key.closure))
    return check_call(key);
  if (is_settled(key.closure))
    return ledger_verdict::settled;
  auto at = lower_bound_of(closures_, key.closure);
  bool known = at != closures_.end() && at->id == key.closure && at->ops.contains(key.op);
  return known ? ledger_verdict::duplicate : ledger_verdict::fresh;
}

void ledger::prepare(const op_key& key) { entry_of(key).ops.make_room(key.op); }

void ledger::record(const op_key& key) {
  TROUPE_ASSERT(check(key) == ledger_verdict::fresh, "INV-L1");
  entry_of(key).ops.insert(key.op);
}

void ledger::settle(term_no term, std::uint64_t highest, std::span<const std::uint64_t> unsettled) {
  if (any_list_ && (term < term_ || (term == term_ && highest < highest_)))
    return; // overtaken by a later list, which settles all that this one does
  std::vector<std::uint64_t> next;
  next.reserve(unsettled.size());
  for (auto seq : unsettled) {
    // An id that the last list settled can't come back.
    bool was_settled = any_list_ && term == term_ && seq <= highest_
                       && !std::binary_search(unsettled_.begin(), unsettled_.end(), seq);
    if (seq <= highest && !was_settled)
      next.push_back(seq);
  }
  std::sort(next.begin(), next.end());
  next.erase(std::unique(next.begin(), next.end()), next.end());
  term_ = term;
  highest_ = highest;
  any_list_ = true;
  unsettled_ = std::move(next);
  std::erase_if(closures_, [this](const entry& x) { return is_settled(x.id); });
  std::erase_if(calls_, [this](const entry& x) { return x.id.term < term_; });
}

bool ledger::is_settled(const closure_id& id) const {
  if (!any_list_ || id.term > term_)
    return false;
  if (id.term < term_)
    return true;
  return id.seq <= highest_ && !std::binary_search(unsettled_.begin(), unsettled_.end(), id.seq);
}

ledger_verdict ledger::check_call(const op_key& key) const {
  if (any_list_ && key.closure.term < term_)
    return ledger_verdict::settled;
  auto from = thread_of(key.closure);
  auto at = lower_bound_of(calls_, from);
  if (at == calls_.end() || thread_of(at->id) != from || at->id < key.closure)
    return ledger_verdict::fresh;
  if (key.closure < at->id)
    return ledger_verdict::settled;
  return at->ops.contains(key.op) ? ledger_verdict::duplicate : ledger_verdict::fresh;
}

/// Makes it where there is none. A thread's next call begins after its last one was acknowledged,
/// and takes its place.
ledger::entry& ledger::entry_of(const op_key& key) {
  if (is_program_call(key.closure)) {
    auto from = thread_of(key.closure);
    auto at = lower_bound_of(calls_, from);
    if (at == calls_.end() || thread_of(at->id) != from)
      at = calls_.insert(at, entry{key.closure, {}});
    if (at->id != key.closure)
      *at = entry{key.closure, {}};
    return *at;
  }
  auto at = lower_bound_of(closures_, key.closure);
  if (at == closures_.end() || at->id != key.closure)
    at = closures_.insert(at, entry{key.closure, {}});
  return *at;
}

} // namespace troupe
