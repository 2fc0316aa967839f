#include <troupe/strategies/checkpoint/sync_checkpoint.hpp>

#include <algorithm>
#include <charconv>
#include <map>
#include <new>
#include <utility>

#include <troupe/actors/checkpoint/checkpoint_format.hpp>
#include <troupe/core/thrown.hpp>
#include <troupe/strategies/parameter_server/detail/parameter_server_strategy_state.hpp>
#include <troupe/strategies/replicas/detail/worker_calls.hpp>
#include <troupe/strategies/variables/detail/variable_core.hpp>

namespace troupe {

using detail::replica_engine;

namespace {

struct counter {
  std::string name{};
  std::int64_t* value = nullptr;
};

struct position {
  std::string name{};
  std::function<std::string()> save{};
  std::function<void(const std::string&)> restore{};
};

/// A variable's part of a checkpoint.
struct saved_variable {
  tensor values{}; ///< of worker 0's; on others something of this type and shape
  std::vector<tensor> slots{};
  std::uint64_t steps = 0;
  std::optional<float> rate{}; ///< the learning rate that was set by hand
};

constexpr const char* workers_key = "workers";
std::string counter_key(const std::string& name) { return "counter/" + name; }
std::string position_key(const std::string& name, std::size_t worker) {
  return "position/" + std::to_string(worker) + "/" + name;
}

std::int64_t number_in(const std::string& key, const std::string& text) {
  std::int64_t out = 0;
  auto [at, failed] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (failed != std::errc{} || at != text.data() + text.size())
    throw_failure(errc::corrupt, "checkpoint: " + key + " is '" + text + "', not a number");
  return out;
}

/// What a user's function throws, with its name in front.
template <class F>
auto named(const char* doing, const std::string& name, F f) -> decltype(f()) {
  try {
    return f();
  } catch (...) {
    if (ends_the_thread())
      throw;
    auto why = current_failure();
    why.text = std::string{doing} + " '" + name + "': " + why.text;
    throw_failure(std::move(why));
  }
}

} // namespace

struct sync_checkpoint::state {
  std::shared_ptr<replica_engine> of{};
  std::string directory{};
  sync_checkpoint_options options{};
  std::vector<distributed_variable> variables{};
  std::vector<counter> counters{};
  std::map<std::string, std::shared_ptr<std::int64_t>> own_counters{}; ///< some of `counters`
  std::vector<position> positions{};
  std::vector<std::string> refused{};

  bool is_chief() const { return of->options().worker == 0; }
  storage_port& storage() const { return of->env().storage; }

  void check_name(const std::string& kind, const std::string& name, bool taken) const {
    if (name.empty())
      throw_failure(errc::invalid_argument, "checkpoint: a " + kind + " needs a name");
    if (taken)
      throw_failure(errc::invalid_argument,
                    "checkpoint: " + kind + " '" + name + "' was already added");
  }

  saved_variable read(const distributed_variable& v) const;
  std::string write(const std::vector<saved_variable>& values,
                    const std::vector<std::vector<std::string>>& places) const;
  std::vector<std::vector<std::string>> gather_positions() const;

  void check(const checkpoint_reader& from) const;
  void check_variable(const checkpoint_reader& from, const distributed_variable& v) const;
  saved_variable load(const checkpoint_reader& from, const distributed_variable& v) const;
  saved_variable form_of(const distributed_variable& v) const;
  void take_variable(const distributed_variable& v, saved_variable from) const;
  void take_counters(const checkpoint_reader* from) const;
  void take_positions(const checkpoint_reader* from) const;
  std::vector<std::string> own_positions(const checkpoint_reader* from) const;
};

sync_checkpoint::sync_checkpoint(const troupe::strategy& of, std::string directory,
                                 sync_checkpoint_options options)
  : state_{std::make_unique<state>()} {
  if (of.state()->is_standard())
    throw_failure(errc::invalid_argument, "checkpoint: the default strategy has no storage");
  if (directory.empty())
    throw_failure(errc::invalid_argument, "checkpoint: directory is empty");
  if (options.keep == 0)
    throw_failure(errc::invalid_argument, "checkpoint: keep is 0, must be at least 1");
  state_->of = of.state();
  state_->directory = std::move(directory);
  state_->options = options;
}

sync_checkpoint::~sync_checkpoint() = default;
sync_checkpoint::sync_checkpoint(sync_checkpoint&&) noexcept = default;
sync_checkpoint& sync_checkpoint::operator=(sync_checkpoint&&) noexcept = default;

const std::string& sync_checkpoint::directory() const { return state_->directory; }
troupe::strategy sync_checkpoint::strategy() const { return troupe::strategy{state_->of}; }
const std::vector<std::string>& sync_checkpoint::refused() const { return state_->refused; }

sync_checkpoint& sync_checkpoint::add(distributed_variable variable) {
  const auto& name = variable.name();
  state_->check_name("variable", name,
                     std::any_of(state_->variables.begin(), state_->variables.end(),
                                 [&](const auto& v) { return v.name() == name; }));
  if (variable.core()->of() != state_->of)
    throw_failure(errc::invalid_argument, "checkpoint: variable '" + name + "' is of "
                                            + variable.core()->of()->text() + ", not of "
                                            + state_->of->text());
  state_->variables.push_back(std::move(variable));
  return *this;
}

sync_checkpoint& sync_checkpoint::add(const distributed_variables& variables) {
  for (const auto& each : variables)
    add(each);
  return *this;
}

sync_checkpoint& sync_checkpoint::add_counter(std::string name, std::int64_t& value) {
  state_->check_name("counter", name,
                     std::any_of(state_->counters.begin(), state_->counters.end(),
                                 [&](const counter& c) { return c.name == name; }));
  state_->counters.push_back({std::move(name), &value});
  return *this;
}

std::shared_ptr<std::int64_t> sync_checkpoint::own_counter(const std::string& name) {
  const auto there = state_->own_counters.find(name);
  if (there == state_->own_counters.end()) {
    auto made = std::make_shared<std::int64_t>(0);
    add_counter(name, *made);
    state_->own_counters.emplace(name, made);
    return made;
  }
  if (there->second.use_count() > 1)
    throw_failure(errc::invalid_argument,
                  "checkpoint: counter '" + name + "' is in use by another checkpoint");
  return there->second;
}

sync_checkpoint& sync_checkpoint::add_position(std::string name, std::function<std::string()> save,
                                               std::function<void(const std::string&)> restore) {
  state_->check_name("position", name,
                     std::any_of(state_->positions.begin(), state_->positions.end(),
                                 [&](const position& p) { return p.name == name; }));
  state_->positions.push_back({std::move(name), std::move(save), std::move(restore)});
  return *this;
}

// --- saving

saved_variable sync_checkpoint::state::read(const distributed_variable& v) const {
  saved_variable out{.values = v.saved_value()};
  auto one = v.core()->component(0).state();
  out.slots = std::move(one.slots);
  out.steps = one.applies;
  out.rate = one.rate;
  return out;
}

/// By position, then by worker.
std::vector<std::vector<std::string>> sync_checkpoint::state::gather_positions() const {
  std::vector<std::vector<std::string>> out;
  std::vector<std::string> own;
  detail::agree(*of, failure_in([&] {
    for (const auto& each : positions)
      own.push_back(named("save of position", each.name, each.save));
  }),
                "save of positions");
  for (std::size_t p = 0; p < positions.size(); ++p)
    out.push_back(detail::exchange_texts(*of, own[p], "save of position " + positions[p].name));
  return out;
}

std::string sync_checkpoint::state::write(
  const std::vector<saved_variable>& values,
  const std::vector<std::vector<std::string>>& places) const {
  checkpoint_writer to{storage(), directory, {.keep = options.keep, .trace = of->env().trace}};
  to.begin().value_or_throw();
  for (std::size_t i = 0; i < variables.size(); ++i) {
    const auto& spec = variables[i].core()->spec();
    const auto& saved = values[i];
    to.add_slice(spec.name, saved.values.type(), spec.shape, value_part, 0, saved.values)
      .value_or_throw();
    const auto names = slot_names(spec.optimizer.kind);
    for (std::size_t s = 0; s < saved.slots.size(); ++s)
      to.add_slice(spec.name, saved.slots[s].type(), spec.shape, names.at(s), 0, saved.slots[s])
        .value_or_throw();
    to.set_steps(spec.name, saved.steps, spec.optimizer.kind).value_or_throw();
    detail::save_rate(to, spec.name, saved.rate);
  }
  to.set_extra(workers_key, std::to_string(of->options().workers)).value_or_throw();
  for (const auto& each : counters)
    to.set_extra(counter_key(each.name), std::to_string(*each.value)).value_or_throw();
  for (std::size_t p = 0; p < positions.size(); ++p)
    for (std::size_t w = 0; w < places[p].size(); ++w)
      to.set_extra(position_key(positions[p].name, w), places[p][w]).value_or_throw();
  return to.commit().value_or_throw();
}

std::string sync_checkpoint::save() {
  auto& s = *state_;
  s.of->require_cross_replica("save");
  std::vector<saved_variable> values;
  for (const auto& each : s.variables)
    values.push_back(s.read(each));
  const auto places = s.gather_positions();
  std::string path;
  std::optional<failure> why;
  if (s.is_chief())
    why = failure_in([&] { path = s.write(values, places); });
  return detail::chiefs_outcome(*s.of, why, path, "save");
}

// --- restoring

void sync_checkpoint::state::check_variable(const checkpoint_reader& from,
                                            const distributed_variable& v) const {
  const auto& spec = v.core()->spec();
  auto expect = [&](bool ok, const std::string& what) {
    if (!ok)
      throw_failure(errc::mismatch, "restore: variable '" + spec.name + "' " + what);
  };
  const auto* saved = from.find(spec.name);
  expect(saved != nullptr, "is not in " + from.path());
  expect(saved->shape == spec.shape,
         "is " + to_string(spec.shape) + ", saved as " + to_string(saved->shape));
  auto part = std::find_if(saved->parts.begin(), saved->parts.end(),
                           [](const checkpoint_part& p) { return p.name == value_part; });
  expect(part != saved->parts.end() && part->type == spec.type,
         "is " + to_string(spec.type) + ", saved as another type");
  expect(saved->optimizer == spec.optimizer.kind || spec.optimizer.kind == optimizer_kind::none,
         "was saved with another optimizer");
  (void)detail::saved_rate(from, spec.name);
}

void sync_checkpoint::state::check(const checkpoint_reader& from) const {
  for (const auto& each : variables)
    check_variable(from, each);
  auto expect = [&](const std::string& key) {
    if (!from.extra(key))
      throw_failure(errc::mismatch, "restore: " + key + " is not in " + from.path());
  };
  for (const auto& each : counters) {
    expect(counter_key(each.name));
    (void)number_in(counter_key(each.name), *from.extra(counter_key(each.name)));
  }
  if (positions.empty())
    return;
  expect(workers_key);
  const auto saved = *from.extra(workers_key);
  if (saved != std::to_string(of->options().workers))
    throw_failure(errc::mismatch, "restore: positions of " + saved
                                    + " workers were saved, now there are "
                                    + std::to_string(of->options().workers));
  for (const auto& each : positions)
    for (std::uint32_t w = 0; w < of->options().workers; ++w)
      expect(position_key(each.name, w));
}

/// All that worker 0 needs of the files: nothing is read once something has changed.
saved_variable sync_checkpoint::state::load(const checkpoint_reader& from,
                                            const distributed_variable& v) const {
  const auto& spec = v.core()->spec();
  auto read = [&](std::string_view part) {
    return from.read(spec.name, part, 0, spec.rows()).value_or_throw().clone();
  };
  saved_variable out{.values = read(value_part)};
  if (spec.optimizer.kind == optimizer_kind::none)
    return out;
  for (const auto& name : slot_names(spec.optimizer.kind))
    out.slots.push_back(read(name));
  out.steps = from.steps(spec.name).value_or_throw();
  out.rate = detail::saved_rate(from, spec.name);
  return out;
}

saved_variable sync_checkpoint::state::form_of(const distributed_variable& v) const {
  const auto& spec = v.core()->spec();
  saved_variable out{.values = tensor{spec.type, spec.shape}};
  if (spec.optimizer.kind != optimizer_kind::none)
    for (const auto& slot : v.core()->component(0).state().slots)
      out.slots.push_back(tensor{slot.type(), spec.shape});
  return out;
}

/// Every copy gets what worker 0 has read.
void sync_checkpoint::state::take_variable(const distributed_variable& v,
                                           saved_variable from) const {
  auto& core = *v.core();
  const auto& spec = core.spec();
  const auto what = "restore of variable " + spec.name;
  detail::take_from_chief(*of, from.values, what);
  core.restore_value(from.values);
  if (spec.optimizer.kind == optimizer_kind::none)
    return;
  for (auto& slot : from.slots)
    detail::take_from_chief(*of, slot, what);
  auto steps = tensor::scalar(static_cast<std::int64_t>(from.steps));
  detail::take_from_chief(*of, steps, what);
  constexpr float none = -1; // no rate is negative
  auto rate = tensor::scalar(from.rate.value_or(none));
  detail::take_from_chief(*of, rate, what);
  const auto set = rate.item<float>() < 0 ? std::nullopt : std::optional{rate.item<float>()};
  for (std::size_t i = 0; i < core.components(); ++i) {
    const auto values = core.component(i).read().values;
    core.component(i)
      .restore(values, from.slots, static_cast<std::uint64_t>(steps.item<std::int64_t>()), set)
      .value_or_throw();
  }
}

void sync_checkpoint::state::take_counters(const checkpoint_reader* from) const {
  for (const auto& each : counters) {
    const auto key = counter_key(each.name);
    auto x = tensor::scalar(from ? number_in(key, from->extra(key).value_or_throw()) : 0);
    detail::take_from_chief(*of, x, "restore of " + key);
    *each.value = x.item<std::int64_t>();
  }
}

/// What worker 0 has read for this one. `from` is null on the others.
std::vector<std::string> sync_checkpoint::state::own_positions(
  const checkpoint_reader* from) const {
  std::vector<std::string> out;
  for (const auto& each : positions)
    for (std::uint32_t w = 0; w < of->options().workers; ++w) {
      const auto text = detail::exchange_texts(
        *of, from ? from->extra(position_key(each.name, w)).value_or_throw() : std::string{},
        "restore of position " + each.name)[0];
      if (w == of->options().worker)
        out.push_back(text);
    }
  return out;
}

/// All workers' positions, or none changes.
void sync_checkpoint::state::take_positions(const checkpoint_reader* from) const {
  const auto texts = own_positions(from);
  std::vector<std::optional<std::string>> before; // of those that were restored
  auto why = failure_in([&] {
    for (std::size_t i = 0; i < positions.size(); ++i) {
      std::optional<std::string> old;
      (void)failure_in([&] { old = positions[i].save(); }); // one that an error broke has none
      named("restore of position", positions[i].name, [&] { positions[i].restore(texts[i]); });
      before.push_back(std::move(old));
    }
  });
  try {
    detail::agree(*of, why, "restore of positions");
  } catch (...) {
    for (std::size_t i = 0; i < before.size(); ++i)
      if (before[i])
        (void)failure_in([&] { positions[i].restore(*before[i]); });
    throw;
  }
}

std::optional<std::string> sync_checkpoint::restore() {
  auto& s = *state_;
  s.of->require_cross_replica("restore");
  std::optional<checkpoint_reader> from;
  std::vector<saved_variable> loaded;
  std::string path;
  std::optional<failure> why;
  s.refused.clear();
  if (s.is_chief())
    why = failure_in([&] {
      auto opened = checkpoint_reader::open_latest(s.storage(), s.directory);
      if (!opened && opened.error().code == errc::not_found)
        return;
      from.emplace(std::move(opened).value_or_throw());
      for (const auto& each : from->refused())
        s.refused.push_back(each.path + ": " + to_string(each.why));
      s.check(*from);
      for (const auto& each : s.variables)
        loaded.push_back(s.load(*from, each));
      path = from->path();
    });
  if (!s.refused.empty())
    mark(s.of->env(), "checkpoint.older_one_used");
  path = detail::chiefs_outcome(*s.of, why, path, "restore");
  if (path.empty())
    return std::nullopt;
  const auto* files = from ? &*from : nullptr;
  s.take_positions(files); // the user's own code first: what it refuses leaves all as it was
  for (std::size_t i = 0; i < s.variables.size(); ++i)
    s.take_variable(s.variables[i], files ? std::move(loaded[i]) : s.form_of(s.variables[i]));
  s.take_counters(files);
  return path;
}

} // namespace troupe
