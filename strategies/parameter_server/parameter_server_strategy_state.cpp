#include <troupe/strategies/parameter_server/detail/parameter_server_strategy_state.hpp>

#include <algorithm>
#include <array>
#include <charconv>

#include <cereal/types/string.hpp>
#include <cereal/types/vector.hpp>

#include <troupe/core/execution_context.hpp>
#include <troupe/core/thrown.hpp>

namespace troupe::detail {

parameter_server_strategy_state::parameter_server_strategy_state(
  std::shared_ptr<coordinator_client> owner, parameter_server_options options)
  : owner_{std::move(owner)},
    options_{std::move(options)},
    placement_{make_placement(options_.placement)} {
  std::lock_guard lock{owner_->shared().plan_mutex};
  owner_->shared().plan_variable = [this](const variable_spec& wanted) {
    return plan_for_step(wanted);
  };
  owner_->shared().forget_variable = [this](variable_id id) { forget_planned(id); };
}

parameter_server_strategy_state::~parameter_server_strategy_state() {
  std::lock_guard lock{owner_->shared().plan_mutex};
  owner_->shared().plan_variable = nullptr;
  owner_->shared().forget_variable = nullptr;
}

std::shared_ptr<coordinator_front> parameter_server_strategy_state::front(
  const std::function<std::shared_ptr<coordinator_front>()>& make) {
  std::lock_guard lock{mutex_};
  auto out = front_.lock();
  if (!out)
    front_ = out = make();
  return out;
}

variable_list parameter_server_strategy_state::variables() const {
  std::lock_guard lock{mutex_};
  return in_order_;
}

variable_spec parameter_server_strategy_state::plan(const variable_options& options) {
  variable_spec spec{
    .name = options.name.empty() ? "variable_" + std::to_string(in_order_.size()) : options.name,
    .type = options.type,
    .shape = options.shape,
    .optimizer = options.optimizer.spec()};
  if (by_name_.contains(spec.name))
    throw_failure(errc::mismatch, "variable '" + spec.name + "' already exists");
  if (auto* whole = std::get_if<tensor>(&options.initial)) {
    if (!whole->defined())
      throw_failure(errc::invalid_argument,
                    "variable '" + spec.name + "': its initial tensor is empty");
    if (!options.shape.empty() && options.shape != whole->shape())
      throw_failure(errc::shape_mismatch, "variable '" + spec.name + "': shape is "
                                            + to_string(options.shape) + ", its initial value is "
                                            + to_string(whole->shape()));
    spec.shape = whole->shape();
    spec.type = whole->type();
  } else if (auto* rule = std::get_if<initializer_spec>(&options.initial)) {
    validate(*rule, spec.type, spec.shape).value_or_throw();
    spec.initializer = *rule;
  }
  if (!is_sane(spec.shape, spec.type))
    throw_failure(errc::invalid_argument, "variable '" + spec.name + "': shape "
                                            + to_string(spec.shape) + " is negative or too large");
  validate(spec.optimizer).value_or_throw();
  spec.shards =
    options.colocate_with
      ? plan_colocated(spec.shape, options.colocate_with.spec().shards.front().server)
      : plan_shards(spec.shape, spec.type, options_.partitioner ? &options_.partitioner : nullptr,
                    *placement_, owner_->servers())
          .value_or_throw();
  if (!options.colocate_with)
    for (auto& shard : spec.shards)
      shard.server = owner_->server_task(shard.server);
  spec.id = owner_->next_variable();
  return spec;
}

variable parameter_server_strategy_state::create(variable_options options) {
  if (current_context().step)
    throw_failure(errc::wrong_state,
                  "a variable cannot be created inside a dataset function or step: create it in "
                  "the strategy's scope");
  std::unique_lock lock{mutex_};
  auto spec = std::make_shared<const variable_spec>(plan(options));
  auto out = keep(spec);
  auto later = later_;
  lock.unlock(); // the coordinator may be asking for a step's variable meanwhile
  struct undo_unless_done {
    parameter_server_strategy_state& of;
    const variable_spec& what;
    bool done = false;
    ~undo_unless_done() {
      if (!done)
        of.forget(what);
    }
  } undo{*this, *spec};
  owner_->call<bool>(
    "create variable '" + spec->name + "'",
    coordinator_client::no_limit, // the servers' progress is one
    [spec](coordinator_state& s, auto done) { s.create_variables({*spec}, done); });
  if (later && later->find(spec->name))
    restore_all({out}, *later);
  else
    fill(out, options);
  undo.done = true;
  return out;
}

void parameter_server_strategy_state::forget_planned(variable_id id) {
  std::lock_guard lock{mutex_};
  std::erase_if(by_name_, [&](const auto& x) { return x.second.id() == id; });
  std::erase_if(in_order_, [&](const variable& v) { return v.id() == id; });
  owner_->forget(id);
}

/// As if it had not been made: a later save or a second try must not meet it.
void parameter_server_strategy_state::forget(const variable_spec& spec) {
  forget_planned(spec.id);
  class drop final : public coordinator_call {
  public:
    explicit drop(variable_id id) : id_{id} {}
    void run(coordinator_state& state) override { state.drop_variable(id_); }

  private:
    variable_id id_;
  };
  owner_->post(std::make_shared<drop>(spec.id));
}

variable parameter_server_strategy_state::keep(std::shared_ptr<const variable_spec> spec) {
  owner_->remember(spec);
  variable out{spec, owner_};
  by_name_[spec->name] = out;
  in_order_.push_back(out);
  return out;
}

result<variable_spec> parameter_server_strategy_state::plan_for_step(const variable_spec& wanted) {
  std::lock_guard lock{mutex_};
  auto text = [](variable_spec x) { // all that the first specification decides
    x.id = {};
    x.shards.clear();
    plain_writer out;
    out(x);
    return std::move(out.out.bytes);
  };
  if (auto at = by_name_.find(wanted.name); at != by_name_.end()) {
    if (text(at->second.spec()) == text(wanted))
      return at->second.spec();
    return make_failure(errc::mismatch, "variable '" + wanted.name + "' was created as "
                                          + to_string(at->second.type())
                                          + to_string(at->second.shape())
                                          + " with a different specification than "
                                          + to_string(wanted.type) + to_string(wanted.shape));
  }
  try {
    return keep(std::make_shared<const variable_spec>(
                  plan({.name = wanted.name,
                        .shape = wanted.shape,
                        .type = wanted.type,
                        .initial = wanted.initializer,
                        .optimizer = optimizer{wanted.optimizer}})))
      .spec();
  } catch (const error& e) {
    return e.details();
  } catch (...) { // the user's partitioner; on the coordinator's actor, which must not end of it
    if (ends_the_thread())
      throw;
    auto why = current_failure();
    why.text = "variable '" + wanted.name + "': the partitioner threw " + why.text;
    return why;
  }
}

void parameter_server_strategy_state::fill(const variable& v, const variable_options& options) {
  if (auto* whole = std::get_if<tensor>(&options.initial)) {
    v.assign(*whole);
    return;
  }
  auto* make = std::get_if<shard_initializer>(&options.initial);
  if (!make)
    return;
  std::vector<tensor> parts;
  for (const auto& shard : v.spec().shards) {
    auto shape = v.shape();
    if (!shape.empty())
      shape[0] = shard.row_end - shard.row_begin;
    auto part = (*make)(shape, shard.row_begin);
    if (!part.defined() || part.shape() != shape || part.type() != v.type())
      throw_failure(errc::shape_mismatch, "variable '" + v.name() + "': the initializer returned "
                                            + type_and_shape(part) + " for rows from "
                                            + std::to_string(shard.row_begin) + ", expected "
                                            + to_string(v.type()) + to_string(shape));
    parts.push_back(std::move(part));
  }
  v.assign(parts.size() == 1 ? parts.front() : concatenate(parts));
}

void parameter_server_strategy_state::restore_later(std::shared_ptr<checkpoint_reader> from) {
  std::lock_guard lock{mutex_};
  later_ = std::move(from);
}

namespace {

void expect(bool ok, const variable_spec& v, const std::string& what) {
  if (!ok)
    throw_failure(errc::mismatch, "restore: variable '" + v.name + "' " + what);
}

/// Whether the slots of `v` come from the checkpoint; else they start anew.
bool takes_slots(const variable_spec& v, const checkpoint_variable& saved) {
  return saved.optimizer == v.optimizer.kind;
}

shape_t shape_of_shard(const variable_spec& v, const shard_spec& shard) {
  auto out = v.shape;
  if (!out.empty())
    out[0] = shard.row_end - shard.row_begin;
  return out;
}

} // namespace

void parameter_server_strategy_state::check_saved(const variable_spec& v,
                                                  const checkpoint_reader& from,
                                                  snapshot_readers& servers) {
  const auto* saved = from.find(v.name);
  expect(saved != nullptr, v, "is not in " + from.path());
  expect(saved->shape == v.shape, v,
         "is " + to_string(v.shape) + ", saved as " + to_string(saved->shape));
  const auto check_part = [&](std::string_view part, const std::string& what) {
    const auto at = std::find_if(saved->parts.begin(), saved->parts.end(),
                                 [&](const checkpoint_part& p) { return p.name == part; });
    expect(at != saved->parts.end(), v, "was saved without " + what);
    expect(at->type == v.type, v,
           "is " + to_string(v.type) + ", saved as " + to_string(at->type)
             + (part == value_part ? "" : " (" + what + ")"));
  };
  check_part(value_part, "its value");
  expect(takes_slots(v, *saved) || v.optimizer.kind == optimizer_kind::none, v,
         "was saved with another optimizer");
  const auto slots =
    takes_slots(v, *saved) ? slot_names(v.optimizer.kind) : std::vector<std::string>{};
  for (const auto& name : slots)
    check_part(name, "slot '" + name + "'");
  const auto rate = saved_rate(from, v.name);
  for (std::size_t i = 0; i < v.shards.size(); ++i) {
    const auto server = v.shards[i].server;
    coordinator_client::of_server(server, servers.ask(server,
                                                      [&](snapshot_reader& reader) {
                                                        return reader.check_restore(
                                                          v.id, static_cast<shard_index>(i), v.type,
                                                          shape_of_shard(v, v.shards[i]),
                                                          slots.size(), rate);
                                                      }))
      .value_or_throw();
  }
}

/// @pre `check_saved` holds.
void parameter_server_strategy_state::restore_variable(const variable_spec& v,
                                                       const checkpoint_reader& from,
                                                       snapshot_readers& servers) {
  const auto& saved = *from.find(v.name);
  const auto rate = saved_rate(from, v.name);
  for (std::size_t i = 0; i < v.shards.size(); ++i) {
    const auto& shard = v.shards[i];
    auto read = [&](std::string_view part) {
      return from.read(v.name, part, shard.row_begin, shard.row_end).value_or_throw();
    };
    auto values = read(value_part);
    std::vector<tensor> slots;
    if (takes_slots(v, saved))
      for (const auto& name : slot_names(v.optimizer.kind))
        slots.push_back(read(name));
    coordinator_client::of_server(shard.server, servers.ask(shard.server,
                                                            [&](snapshot_reader& reader) {
                                                              return reader.restore(
                                                                v.id, static_cast<shard_index>(i),
                                                                values, slots, saved.steps, rate);
                                                            }))
      .value_or_throw();
  }
}

void parameter_server_strategy_state::restore_all(const variable_list& all,
                                                  const checkpoint_reader& from) {
  snapshot_readers servers{owner_->reader_pool()};
  for (const auto& v : all)
    check_saved(v.spec(), from, servers);
  for (std::size_t i = 0; i < all.size(); ++i) {
    try {
      restore_variable(all[i].spec(), from, servers);
    } catch (const error& e) { // of a server or the storage, after all was well with both
      auto why = e.details();
      why.text = "restore: variable '" + all[i].name() + "': " + why.text;
      if (i > 0)
        why.text += "; " + std::to_string(i) + " of " + std::to_string(all.size())
                    + " variables are restored, the others are unchanged: call restore again";
      throw_failure(std::move(why));
    }
  }
}

void save_rate(checkpoint_writer& to, const std::string& name, std::optional<float> rate) {
  if (!rate)
    return;
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), *rate).ptr;
  to.set_extra("learning_rate/" + name, std::string{text.data(), end}).value_or_throw();
}

std::optional<float> saved_rate(const checkpoint_reader& from, const std::string& name) {
  const auto key = "learning_rate/" + name;
  const auto text = from.extra(key);
  if (!text)
    return std::nullopt;
  float rate = 0;
  const auto [at, failed] = std::from_chars(text->data(), text->data() + text->size(), rate);
  if (failed != std::errc{} || at != text->data() + text->size() || complaint_of_rate(rate))
    throw_failure(errc::corrupt, from.path() + ": " + key + " is '" + *text
                                   + "', expected a finite number of at least 0");
  return rate;
}

} // namespace troupe::detail
