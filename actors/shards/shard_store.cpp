#include <troupe/actors/shards/shard_store.hpp>

#include <mutex>
#include <new>
#include <sstream>

#include <cereal/types/string.hpp>
#include <cereal/types/vector.hpp>

#include <troupe/core/payload.hpp>
#include <troupe/core/planted.hpp>

namespace troupe {

namespace {

std::string bytes_of(variable_spec spec) {
  plain_writer out;
  out(spec);
  return std::move(out.out.bytes);
}

std::string describe(const variable_spec& spec) {
  std::ostringstream out;
  out << "'" << spec.name << "' " << to_string(spec.type) << to_string(spec.shape) << " in "
      << spec.shards.size() << " shards (optimizer " << static_cast<unsigned>(spec.optimizer.kind)
      << " at " << spec.optimizer.learning_rate.initial << ", initializer "
      << static_cast<unsigned>(spec.initializer.kind) << " with " << spec.initializer.a << ", "
      << spec.initializer.b << ", seed " << spec.initializer.seed << ")";
  return out.str();
}

std::string name_of(variable_id variable, shard_index index) {
  return "variable " + std::to_string(value_of(variable)) + " shard "
         + std::to_string(value_of(index));
}

failure superseded(term_no given, term_no seen) {
  return make_failure(errc::superseded, "term " + std::to_string(value_of(given))
                                          + ": the server follows term "
                                          + std::to_string(value_of(seen)));
}

} // namespace

// -- shards
// -------------------------------------------------------------------------------------------------------------

result<bool> shard_store::create(const variable_spec& spec, shard_index index, shard_making* how) {
  auto same = [&](const shard& there) -> result<bool> {
    if (bytes_of(there.spec()) == bytes_of(spec))
      return false;
    auto ours = describe(there.spec());
    auto theirs = describe(spec);
    return make_failure(errc::mismatch, name_of(spec.id, index) + " exists as " + ours
                                          + ", requested as " + theirs
                                          + (ours == theirs ? " with different details" : ""));
  };
  if (auto there = find(spec.id, index))
    return same(*there);
  // Made outside the lock: filling takes time.
  auto made = shard::create(std::make_shared<const variable_spec>(spec), index, how);
  if (!made)
    return made.error();
  std::unique_lock lock{map_mutex_};
  auto [at, is_new] = shards_.try_emplace({spec.id, index}, *made);
  if (is_new)
    event("server.shard_made", {{"variable", spec.id}, {"shard", index}});
  return is_new ? result<bool>{true} : same(*at->second);
}

result<void> shard_store::create_all(const std::vector<variable_spec>& specs, std::uint32_t server,
                                     shard_making* how) {
  std::vector<shard_key> made;
  auto one = [&](const variable_spec& spec, shard_index index) -> result<bool> {
    try {
      made.reserve(made.size() + 1);
      return create(spec, index, how);
    } catch (const std::bad_alloc&) {
      return make_failure(errc::out_of_memory, name_of(spec.id, index) + ": out of memory");
    }
  };
  for (const auto& spec : specs)
    for (std::uint32_t i = 0; i < spec.shards.size(); ++i) {
      if (spec.shards[i].server != server)
        continue;
      auto is_new = one(spec, shard_index{i});
      if (is_new && *is_new)
        made.emplace_back(spec.id, shard_index{i});
      if (is_new)
        continue;
      std::unique_lock lock{map_mutex_};
      for (const auto& key : made)
        shards_.erase(key);
      generation_.fetch_add(1, std::memory_order_release);
      return std::move(is_new.error());
    }
  return {};
}

void shard_store::drop(variable_id variable) {
  std::unique_lock lock{map_mutex_};
  std::erase_if(shards_, [&](const auto& x) { return x.first.first == variable; });
  generation_.fetch_add(1, std::memory_order_release);
}

void shard_store::clear() {
  {
    // counters start again under another coordinator; the next view tells the fences that still
    // hold
    std::unique_lock gate{gate_mutex_};
    fences_.clear();
    any_fence_.store(false, std::memory_order_release);
  }
  std::unique_lock lock{map_mutex_};
  shards_.clear();
  snapshots_.clear();
  generation_.fetch_add(1, std::memory_order_release);
  event("server.cleared", {});
}

std::shared_ptr<shard> shard_store::find(variable_id variable, shard_index index) const {
  std::shared_lock lock{map_mutex_};
  auto at = shards_.find({variable, index});
  return at == shards_.end() ? nullptr : at->second;
}

result<std::shared_ptr<shard>> shard_store::get(variable_id variable, shard_index index) const {
  if (auto there = find(variable, index))
    return there;
  return make_failure(errc::unknown_variable, name_of(variable, index) + " is not on this server");
}

std::vector<std::shared_ptr<shard>> shard_store::all() const {
  std::shared_lock lock{map_mutex_};
  std::vector<std::shared_ptr<shard>> out;
  out.reserve(shards_.size());
  for (const auto& [key, there] : shards_)
    out.push_back(there);
  return out;
}

// -- the data path
// ------------------------------------------------------------------------------------------------------

shard_snapshot shard_store::read(shard& at) {
  reads_.fetch_add(1, std::memory_order_relaxed);
  return at.read();
}

result<std::uint64_t> shard_store::gather(shard& at, std::span<const std::int64_t> rows,
                                          mutable_bytes to) {
  reads_.fetch_add(1, std::memory_order_relaxed);
  return at.gather(rows, to);
}

result<mutation_answer> shard_store::mutate(shard& at, const mutation_piece& piece,
                                            const origin& from) {
  ledger_verdict verdict = ledger_verdict::fresh;
  auto answer = at.mutate(piece, from, this, &verdict);
  if (!answer)
    return answer;
  if (verdict == ledger_verdict::fresh) {
    applied_.fetch_add(1, std::memory_order_relaxed);
    if (trace_)
      trace_applied(piece, from, answer->version);
  } else if (verdict == ledger_verdict::duplicate) {
    duplicates_.fetch_add(1, std::memory_order_relaxed);
    mark("server.duplicate_dropped");
  } else {
    settled_.fetch_add(1, std::memory_order_relaxed);
    mark("server.settled_dropped");
  }
  return answer;
}

result<shard_snapshot> shard_store::read(variable_id variable, shard_index index) {
  auto at = get(variable, index);
  return at ? result<shard_snapshot>{read(**at)} : at.error();
}

result<std::uint64_t> shard_store::gather(variable_id variable, shard_index index,
                                          std::span<const std::int64_t> rows, mutable_bytes to) {
  auto at = get(variable, index);
  return at ? gather(**at, rows, to) : at.error();
}

result<mutation_answer> shard_store::mutate(const mutation_piece& piece, const origin& from) {
  auto at = get(piece.variable, piece.shard);
  return at ? mutate(**at, piece, from) : at.error();
}

std::optional<failure> shard_store::refuse(const mutation_piece& piece, const origin& from) const {
  auto given = piece.key.closure.term;
  auto seen = term();
  bool fenced = false;
  if (any_fence_.load(std::memory_order_acquire)) {
    std::shared_lock lock{gate_mutex_};
    auto at = fences_.find(from.task);
    fenced =
      at != fences_.end() && from.inc.counter <= at->second && !planted(planted_bug::missing_fence);
  }
  if (given >= seen && !fenced)
    return std::nullopt;
  refused_.fetch_add(1, std::memory_order_relaxed);
  if (!fenced) {
    mark("server.old_term_dropped");
    return superseded(given, seen);
  }
  mark("server.fenced_refused");
  return make_failure(errc::fenced, to_string(from.task) + " incarnation "
                                      + std::to_string(from.inc.counter)
                                      + " is fenced: an operation on "
                                      + name_of(piece.variable, piece.shard) + " was rejected");
}

// -- orders of the coordinator
// ------------------------------------------------------------------------------------------

result<void> shard_store::grant_term(term_no term, std::uint64_t holder) {
  std::unique_lock lock{gate_mutex_};
  auto seen = this->term();
  if (term < seen)
    return superseded(term, seen);
  if (term == granted_ && any_grant_ && holder != holder_)
    return make_failure(errc::superseded, "term " + std::to_string(value_of(term))
                                            + " was granted to another coordinator");
  granted_ = term;
  holder_ = holder;
  any_grant_ = true;
  term_.store(value_of(term), std::memory_order_release);
  event("server.term_granted", {{"term", term}, {"holder", holder}});
  return {};
}

result<void> shard_store::settle(term_no term, std::uint64_t highest,
                                 std::span<const std::uint64_t> unsettled) {
  auto seen = this->term();
  if (term < seen)
    return superseded(term, seen);
  for (const auto& there : all())
    there->settle(term, highest, unsettled);
  return {};
}

void shard_store::fence(task_id task, std::uint32_t counter) {
  {
    std::unique_lock lock{gate_mutex_};
    auto& highest = fences_[task];
    if (counter > highest)
      highest = counter;
    any_fence_.store(true, std::memory_order_release);
  }
  event("server.fenced", {{"job", task.job}, {"task", task.index}, {"counter", counter}});
  for (const auto& there : all())
    there->barrier();
}

result<void> shard_store::admit(task_id task, const incarnation& inc) const {
  std::shared_lock lock{gate_mutex_};
  auto at = fences_.find(task);
  if (at == fences_.end() || inc.counter > at->second || planted(planted_bug::missing_fence))
    return {};
  return make_failure(errc::fenced, to_string(task) + " incarnation " + std::to_string(inc.counter)
                                      + " is fenced, as are all incarnations up to "
                                      + std::to_string(at->second));
}

// -- snapshots
// ---------------------------------------------------------------------------------------------------------------

result<std::vector<snapshot_entry>> shard_store::take_snapshot(snapshot_id id) {
  std::unique_lock lock{map_mutex_};
  auto at = snapshots_.find(id);
  if (at == snapshots_.end()) {
    if (snapshots_.size() >= snapshots_max)
      return make_failure(errc::wrong_state, "snapshot " + std::to_string(value_of(id)) + ": "
                                               + std::to_string(snapshots_max)
                                               + " snapshots already exist; drop one first");
    kept_snapshot taken;
    for (const auto& [key, there] : shards_)
      taken.parts.emplace(key, there->state());
    at = snapshots_.emplace(id, std::move(taken)).first;
  }
  std::vector<snapshot_entry> out;
  for (const auto& [key, part] : at->second.parts)
    out.push_back({key.first, key.second, static_cast<std::uint32_t>(part.slots.size()),
                   part.applies, part.version});
  return out;
}

result<snapshot_piece> shard_store::read_snapshot(snapshot_id id, variable_id variable,
                                                  shard_index index, std::uint32_t part) const {
  std::shared_lock lock{map_mutex_};
  auto at = snapshots_.find(id);
  if (at == snapshots_.end())
    return make_failure(errc::not_found,
                        "snapshot " + std::to_string(value_of(id)) + " does not exist");
  auto found = at->second.parts.find({variable, index});
  if (found == at->second.parts.end() || part > found->second.slots.size())
    return make_failure(errc::not_found, "snapshot " + std::to_string(value_of(id))
                                           + " has no part " + std::to_string(part) + " of "
                                           + name_of(variable, index));
  const auto& state = found->second;
  return snapshot_piece{part == 0 ? state.values : state.slots[part - 1], state.applies,
                        state.rate};
}

result<tensor> shard_store::snapshot_part(snapshot_id id, variable_id variable, shard_index index,
                                          std::uint32_t part) const {
  auto got = read_snapshot(id, variable, index, part);
  return got ? result<tensor>{std::move(got->rows)} : got.error();
}

void shard_store::drop_snapshot(snapshot_id id) {
  std::unique_lock lock{map_mutex_};
  snapshots_.erase(id);
}

result<void> shard_store::restore(variable_id variable, shard_index index, const tensor& values,
                                  std::span<const tensor> slots, std::uint64_t applies,
                                  std::optional<float> rate) {
  auto at = get(variable, index);
  if (!at)
    return at.error();
  auto done = (*at)->restore(values, slots, applies, rate);
  if (done)
    event("server.restored", {{"variable", variable}, {"shard", index}});
  return done;
}

result<void> shard_store::check_restore(variable_id variable, shard_index index, dtype type,
                                        const shape_t& shape, std::size_t slots,
                                        std::optional<float> rate) const {
  auto at = get(variable, index);
  return at ? (*at)->check_restore(type, shape, slots, rate) : at.error();
}

store_stats shard_store::stats() const {
  store_stats out;
  out.pushes_applied = applied_.load(std::memory_order_relaxed);
  out.duplicates_dropped = duplicates_.load(std::memory_order_relaxed);
  out.settled_dropped = settled_.load(std::memory_order_relaxed);
  out.refused = refused_.load(std::memory_order_relaxed);
  out.reads = reads_.load(std::memory_order_relaxed);
  for (const auto& there : all()) {
    out.bytes += there->size_bytes();
    ++out.shards;
  }
  return out;
}

void shard_store::mark(std::string_view id) const {
  if (trace_)
    trace_->mark(id);
}

void shard_store::event(std::string_view id, std::initializer_list<trace_field> fields) const {
  if (trace_)
    trace_->event(id, {fields.begin(), fields.size()});
}

void shard_store::trace_applied(const mutation_piece& piece, const origin& from,
                                std::uint64_t version) const {
  event("server.applied", {{"term", piece.key.closure.term},
                           {"closure", piece.key.closure.seq},
                           {"op", piece.key.op},
                           {"attempt", piece.attempt},
                           {"variable", piece.variable},
                           {"shard", piece.shard},
                           {"bytes", piece.values.size_bytes()},
                           {"job", from.task.job},
                           {"task", from.task.index},
                           {"incarnation", from.inc.counter},
                           {"version", version}});
}

} // namespace troupe
