#include <troupe/actors/shards/shard.hpp>

#include <algorithm>
#include <cstring>
#include <new>

#include <troupe/actors/shards/detail/kernel_specs.hpp>
#include <troupe/actors/support/detail/spin_lock_guard.hpp>
#include <troupe/core/limits.hpp>
#include <troupe/core/planted.hpp>
#include <troupe/kernels/elementwise.hpp>
#include <troupe/kernels/gather_scatter.hpp>

namespace troupe {

namespace {

result<void> check_rows(const variable_spec& spec) {
  auto refuse = [&](const std::string& what) {
    return make_failure(errc::invalid_argument, "variable '" + spec.name + "': " + what);
  };
  if (!is_sane(spec.shape, spec.type))
    return refuse("shape " + to_string(spec.shape) + " of " + to_string(spec.type)
                  + " is negative or too large");
  std::int64_t at = 0;
  for (std::size_t i = 0; i < spec.shards.size(); ++i) {
    const auto& part = spec.shards[i];
    if (part.row_begin != at || part.row_end < part.row_begin)
      return refuse("shard " + std::to_string(i) + " has rows [" + std::to_string(part.row_begin)
                    + ", " + std::to_string(part.row_end) + "), expected them to begin at "
                    + std::to_string(at));
    at = part.row_end;
  }
  if (at != spec.rows())
    return refuse("its shards end at row " + std::to_string(at) + " of "
                  + std::to_string(spec.rows()));
  return {};
}

} // namespace

result<std::shared_ptr<shard>> shard::create(std::shared_ptr<const variable_spec> spec,
                                             shard_index index, shard_making* how) {
  if (auto ok = check_rows(*spec); !ok)
    return ok.error();
  if (value_of(index) >= spec->shards.size())
    return make_failure(errc::invalid_argument, "variable '" + spec->name + "': shard "
                                                  + std::to_string(value_of(index)) + " of "
                                                  + std::to_string(spec->shards.size()));
  if (auto ok = detail::check_kernel_specs(*spec); !ok)
    return ok.error();
  std::shared_ptr<shard> made{new shard{std::move(spec), index}};
  try {
    if (!made->start(how))
      return make_failure(errc::cancelled, made->label() + " was cancelled during its creation");
  } catch (const std::bad_alloc&) {
    return make_failure(errc::out_of_memory, made->label() + ": out of memory for "
                                               + std::to_string(made->size_bytes())
                                               + " bytes of values and slots");
  }
  return made;
}

shard::shard(std::shared_ptr<const variable_spec> spec, shard_index index)
  : spec_{std::move(spec)},
    index_{index},
    row_size_{spec_->row_size()},
    optimizer_{spec_->optimizer} {
  const auto& part = spec_->shards[value_of(index_)];
  rows_ = part.row_end - part.row_begin;
  shape_ = spec_->shape;
  if (!shape_.empty())
    shape_[0] = rows_;
}

namespace {

/// Counts `bytes` more; false when nobody wants the shard any more.
bool goes_on(shard_making* how, std::size_t bytes) {
  if (!how)
    return true;
  if (how->made_piece)
    how->made_piece(bytes);
  how->made_bytes.fetch_add(bytes, std::memory_order_relaxed);
  return !how->unwanted.load(std::memory_order_relaxed);
}

} // namespace

/// Piece by piece, so that whoever waits sees it grow and can end it.
bool shard::start(shard_making* how) { return start_values(how) && start_slots(how); }

bool shard::start_values(shard_making* how) {
  values_ = cow_buffer{spec_->type, shape_};
  auto out = values_.begin_write().out;
  const auto row_bytes = static_cast<std::size_t>(row_size_) * size_of(spec_->type);
  const auto step = static_cast<std::int64_t>(
    std::max<std::uint64_t>(1, limits::make_piece_bytes / std::max<std::size_t>(1, row_bytes)));
  const auto first = spec_->shards[value_of(index_)].row_begin;
  for (std::int64_t at = 0; at < rows_ && !out.empty(); at += step) {
    auto shape = shape_;
    if (!shape.empty())
      shape[0] = std::min(step, rows_ - at);
    tensor rows{spec_->type, shape};
    detail::fill_initial_rows(*spec_, first + at, rows);
    std::memcpy(out.data() + static_cast<std::size_t>(at) * row_bytes, rows.bytes().data(),
                rows.size_bytes());
    if (!goes_on(how, rows.size_bytes()))
      return false;
  }
  values_.commit();
  return true;
}

bool shard::start_slots(shard_making* how) {
  const auto kept = slots_of(optimizer_.kind);
  slots_.resize(kept.size());
  for (std::size_t i = 0; i < kept.size(); ++i) {
    auto& slot = slots_[i];
    const float start = kept[i].start ? optimizer_.*kept[i].start : 0.0f;
    if (slot.size_bytes() == 0)
      slot = cow_buffer{spec_->type, shape_};
    auto out = slot.begin_write().out;
    for (std::size_t at = 0; at < out.size(); at += limits::make_piece_bytes) {
      auto piece =
        out.subspan(at, std::min<std::size_t>(limits::make_piece_bytes, out.size() - at));
      auto n = piece.size() / size_of(spec_->type);
      if (spec_->type == dtype::f32)
        kernels::fill<float>(start, {reinterpret_cast<float*>(piece.data()), n});
      else
        kernels::fill<double>(start, {reinterpret_cast<double*>(piece.data()), n});
      if (!goes_on(how, piece.size()))
        return false;
    }
    slot.commit();
  }
  return true;
}

std::string shard::label() const {
  return "variable '" + spec_->name + "' shard " + std::to_string(value_of(index_));
}

std::size_t shard::size_bytes() const {
  auto one = static_cast<std::size_t>(count_of(shape_)) * size_of(spec_->type);
  return one * (1 + slot_count(spec_->optimizer.kind));
}

shard_snapshot shard::read() {
  detail::spin_lock_guard lock{mutex_};
  return {values_.snapshot(), version_};
}

result<std::uint64_t> shard::gather(std::span<const std::int64_t> rows, mutable_bytes to) {
  auto row_bytes = static_cast<std::size_t>(row_size_) * size_of(spec_->type);
  if (to.size() != rows.size() * row_bytes)
    return make_failure(errc::invalid_argument, label() + ": gather of "
                                                  + std::to_string(rows.size()) + " rows of "
                                                  + std::to_string(row_bytes) + " bytes into "
                                                  + std::to_string(to.size()) + " bytes");
  auto bad = kernels::first_bad_row(rows, static_cast<std::size_t>(rows_));
  if (bad < rows.size())
    return make_failure(errc::out_of_range, label() + ": gather of row " + std::to_string(rows[bad])
                                              + " of " + std::to_string(rows_) + " rows");
  detail::spin_lock_guard lock{mutex_};
  if (row_bytes > 0 && !rows.empty())
    kernels::gather_row_bytes(values_.bytes(), row_bytes, rows, to);
  return version_;
}

result<mutation_answer> shard::mutate(const mutation_piece& piece, const origin& from,
                                      const piece_gate* gate, ledger_verdict* verdict) {
  detail::spin_lock_guard lock{mutex_};
  if (gate)
    if (auto why = gate->refuse(piece, from))
      return std::move(*why);
  auto known = piece.at_least_once ? ledger_verdict::fresh : ledger_.check(piece.key);
  bool keeps = !piece.at_least_once;
  if ((planted(planted_bug::double_apply) && known == ledger_verdict::duplicate)
      || (planted(planted_bug::settled_applied) && known == ledger_verdict::settled)) {
    known = ledger_verdict::fresh;
    keeps = false;
  }
  if (verdict)
    *verdict = known;
  if (known != ledger_verdict::fresh)
    return mutation_answer{true, version_};
  if (auto ok = check(piece); !ok)
    return ok.error();
  if (keeps)
    ledger_.prepare(piece.key); // may lack memory; from its kernel on nothing does
  change(piece);
  if (keeps)
    ledger_.record(piece.key);
  ++version_;
  if (piece.kind == mutation_kind::apply)
    ++applies_;
  return mutation_answer{false, version_};
}

void shard::settle(term_no term, std::uint64_t highest, std::span<const std::uint64_t> unsettled) {
  std::lock_guard lock{mutex_};
  ledger_.settle(term, highest, unsettled);
}

void shard::barrier() { std::lock_guard lock{mutex_}; }

shard_state shard::state() {
  std::lock_guard lock{mutex_};
  shard_state out{values_.snapshot(), {}, applies_, version_, rate_};
  for (auto& slot : slots_)
    out.slots.push_back(slot.snapshot());
  return out;
}

result<void> shard::check_restored(const std::string& what, troupe::dtype type,
                                   const shape_t& shape) const {
  if (type != spec_->type)
    return make_failure(errc::dtype_mismatch, label() + ": restore of " + what + " of "
                                                + to_string(type) + ", expected "
                                                + to_string(spec_->type));
  if (shape != shape_)
    return make_failure(errc::shape_mismatch, label() + ": restore of " + what + " of shape "
                                                + to_string(shape) + ", expected "
                                                + to_string(shape_));
  return {};
}

result<void> shard::check_restore(troupe::dtype type, const shape_t& shape, std::size_t slots,
                                  std::optional<float> rate) const {
  if (auto expected = slot_count(spec_->optimizer.kind); slots != 0 && slots != expected)
    return make_failure(errc::invalid_argument, label() + ": restore of " + std::to_string(slots)
                                                  + " slots, expected " + std::to_string(expected));
  if (auto why = rate ? complaint_of_rate(*rate) : std::nullopt)
    return make_failure(errc::invalid_argument, label() + ": restore: " + *why);
  return check_restored("values", type, shape);
}

void shard::set_rate(std::optional<float> rate) {
  rate_ = rate;
  optimizer_.learning_rate = spec_->optimizer.learning_rate;
  if (!rate)
    return;
  optimizer_.learning_rate = schedule_spec{};
  optimizer_.learning_rate.initial = *rate;
}

result<void> shard::restore(const tensor& values, std::span<const tensor> slots,
                            std::uint64_t applies, std::optional<float> rate) {
  std::lock_guard lock{mutex_};
  const auto given = [&](const tensor& x, const std::string& what) -> result<void> {
    if (x.defined())
      return {};
    return make_failure(errc::invalid_argument, label() + ": restore of " + what
                                                  + ": missing, expected " + to_string(spec_->type)
                                                  + to_string(shape_));
  };
  if (auto ok = given(values, "values"); !ok)
    return ok;
  for (std::size_t i = 0; i < slots.size(); ++i)
    if (auto ok = given(slots[i], "slot " + std::to_string(i)); !ok)
      return ok;
  if (auto ok = check_restore(values.type(), values.shape(), slots.size(), rate); !ok)
    return ok;
  for (std::size_t i = 0; i < slots.size(); ++i)
    if (auto ok = check_restored("slot " + std::to_string(i), slots[i].type(), slots[i].shape());
        !ok)
      return ok;
  auto put = [](cow_buffer& to, const tensor& x) {
    auto out = to.begin_write().out;
    if (!out.empty())
      std::memmove(out.data(), x.bytes().data(), out.size());
    to.commit();
  };
  put(values_, values);
  for (std::size_t i = 0; i < slots.size(); ++i)
    put(slots_[i], slots[i]);
  if (slots.empty())
    start_slots();
  applies_ = applies;
  set_rate(rate);
  ++version_;
  return {};
}

float shard::learning_rate() {
  std::lock_guard lock{mutex_};
  return detail::learning_rate_at(optimizer_.learning_rate, applies_);
}

std::size_t shard::ledger_size() {
  std::lock_guard lock{mutex_};
  return ledger_.size();
}

} // namespace troupe
