#include <troupe/transport/detail/group_core.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

#include <troupe/core/planted.hpp>
#include <troupe/kernels/hash.hpp>
#include <troupe/transport/detail/inproc_engine.hpp>
#include <troupe/transport/detail/pause.hpp>
#include <troupe/transport/detail/shm_engine.hpp>

namespace troupe::detail {

namespace {

constexpr int yields_max = 4096; // a second bound, should the clock stand still
constexpr std::uint32_t look_every = 64;
// How long one that keeps its core does so.
constexpr duration keep_core_max = std::chrono::microseconds{50};
constexpr duration tell_max = std::chrono::milliseconds{100};
// Time for answers before a deadline.
constexpr duration ask_before = std::chrono::milliseconds{100};
// For the others to say what they do, when it is not the same.
constexpr duration quote_max = std::chrono::seconds{1};

std::string epoch_text(group_epoch epoch) {
  return std::to_string(static_cast<std::uint32_t>(epoch));
}

} // namespace

group_core::group_core(environment& env, std::uint64_t id, group_options options,
                       std::unique_ptr<channel_listener> listener)
  : env_{env},
    id_{id},
    options_{std::move(options)},
    poller_{env.transport.make_poller()},
    door_{std::move(listener), kernels::hash64_text(options_.name), env.random, options_.token} {}

// --- epochs

void group_core::close_epoch() {
  process_.reset();
  host_.reset();
  links_.clear();
  std::shared_ptr<group_links> old;
  {
    const std::lock_guard lock{mutex_};
    old = std::exchange(channels_, nullptr);
    ended_why_ = make_failure(errc::wrong_state, "group " + options_.name + " has no epoch");
    missing_.clear();
    ended_ = true;
  }
  for (std::uint32_t peer = 0; old && peer < old->size(); ++peer)
    if (old->control(peer) != nullptr)
      poller_->forget(*old->control(peer));
}

result<void> group_core::form(group_epoch epoch, std::vector<collective_member> members,
                              duration deadline) {
  const auto own = std::find_if(members.begin(), members.end(),
                                [this](const collective_member& m) { return m.id == id_; });
  if (own == members.end())
    return make_failure(errc::invalid_argument, "group " + options_.name + ": member id "
                                                  + std::to_string(id_)
                                                  + " is not in the member list");
  if (epoch <= spec_.epoch)
    return make_failure(
      errc::invalid_argument,
      "group " + options_.name + ": epoch " + epoch_text(epoch) + " <= " + epoch_text(spec_.epoch));
  close_epoch();
  spec_.epoch = epoch;
  spec_.rank = static_cast<std::uint32_t>(own - members.begin());
  spec_.members = std::move(members);
  spec_.locality =
    options_.locality.value_or(env_.transport.shares_memory() ? this_locality() : group_locality{});
  spec_.list_is_given = options_.lists_are_given;
  spec_.members_listen = options_.members_listen;
  class_ = group_class::network;
  keeps_core_ = false;
  operation_ = 0;
  plans_.clear();
  const time_point until = after(env_.clock.now(), deadline);
  newest_ = std::max(newest_, epoch);
  forming_outcome outcome;
  wait_teller teller{options_.on_wait, env_.clock.now()};
  auto formed = form_links(env_, door_, *poller_, spec_, counters_, until, teller, outcome);
  if (!formed) {
    newest_ = std::max(newest_, outcome.newest);
    const std::lock_guard lock{mutex_};
    missing_ = std::move(outcome.missing);
    return formed.error();
  }
  std::shared_ptr<group_links> channels = std::move(*formed);
  links_.resize(size());
  for (std::uint32_t peer = 0; peer < size(); ++peer) {
    links_[peer].data = channels->data(peer);
    if (peer != rank())
      poller_->watch(*channels->control(peer), false);
  }
  {
    const std::lock_guard lock{mutex_};
    channels_ = std::move(channels);
    ended_why_.reset();
    ended_ = false;
  }
  return share_memory(until);
}

void group_core::revoke(failure why, std::span<const std::uint64_t> missing) {
  std::vector<std::uint32_t> ranks;
  {
    // The lists change under an ended epoch alone, and its end takes the mutex.
    const std::lock_guard lock{mutex_};
    if (ended_)
      return;
    for (std::uint32_t i = 0; i < spec_.members.size(); ++i)
      if (std::find(missing.begin(), missing.end(), spec_.members[i].id) != missing.end())
        ranks.push_back(i);
    why.text = epoch_name() + " was revoked: " + why.text;
    if (!ranks.empty())
      why.text += "; missing: " + names(ranks);
  }
  end_epoch(std::move(why), std::move(ranks));
  poller_->wake();
}

void group_core::end_epoch(failure why, std::vector<std::uint32_t> missing, std::string doing) {
  std::shared_ptr<group_links> channels;
  group_notice notice;
  {
    const std::lock_guard lock{mutex_};
    if (ended_)
      return;
    notice = {why, missing, spec_.epoch, std::move(doing)};
    ended_why_ = std::move(why);
    missing_ = std::move(missing);
    ended_ = true;
    channels = channels_;
  }
  if (channels) {
    channels->tell(notice);
    // The thread may never come back to these channels.
    const time_point until = after(env_.clock.now(), tell_max);
    for (int i = 0; i < yields_max && !channels->flush() && env_.clock.now() < until; ++i)
      env_.threads.yield();
  }
  mark(env_, "collective.epoch_ended");
}

failure group_core::why_ended() const {
  const std::lock_guard lock{mutex_};
  return ended_why_ ? *ended_why_ : make_failure(errc::wrong_state, epoch_name());
}

std::optional<failure> group_core::ended() const {
  const std::lock_guard lock{mutex_};
  return ended_ ? std::optional{ended_why_.value_or(make_failure(errc::wrong_state, epoch_name()))}
                : std::nullopt;
}

std::vector<std::uint64_t> group_core::missing() const {
  const std::lock_guard lock{mutex_};
  std::vector<std::uint64_t> out;
  for (const std::uint32_t rank : missing_)
    if (rank < spec_.members.size())
      out.push_back(spec_.members[rank].id);
  return out;
}

// --- names

std::string group_core::epoch_name() const {
  return "epoch " + epoch_text(spec_.epoch) + " of group " + options_.name;
}

std::string group_core::whole_name(const collective_task& task) const {
  return doing(task) + ", operation " + std::to_string(operation_) + " of " + epoch_name();
}

std::string group_core::names(const std::vector<std::uint32_t>& ranks) const {
  std::string out;
  for (const std::uint32_t rank : ranks)
    out += (out.empty() ? "" : ", ") + name_of(spec_.members, rank);
  return out;
}

// --- operations

result<void> group_core::run(collective_task& task) {
  if (ended_.load(std::memory_order_acquire))
    return why_ended();
  ++counters_.operations;
  ++operation_;
  if (size() == 1)
    return run_alone(task);
  const std::uint64_t description = describe(task, size());
  const auto engine = engine_for(task, description);
  auto done = drive(*engine, task);
  if (planted(planted_bug::partial_result))
    return {};
  return done;
}

result<void> group_core::run_alone(const collective_task& task) {
  if (task.kind == collective_kind::barrier || task.kind == collective_kind::broadcast)
    return {};
  const kernels::merge_source own{task.input};
  std::byte* const out = task.output;
  kernels::merge(merge_spec_of(task, 1), {&own, 1}, {&out, 1}, task.count);
  return {};
}

result<void> group_core::drive(collective_engine& engine, const collective_task& task) {
  const bool by_progress = task.options.by_progress || task.options.deadline == no_deadline_given;
  const time_point begun = env_.clock.now();
  time_point deadline = after(begun, task.options.deadline);
  wait_teller teller{options_.on_wait, begun};
  time_point spin_end{};
  int idle = 0;
  asked_ = false;
  for (std::uint32_t round = 1;; ++round) {
    auto moved = engine.advance();
    if (engine.done())
      return {};
    if (!moved) {
      // A member that ended the epoch and left has told why.
      if (look_around(engine, task))
        return why_ended();
      const std::uint32_t peer = engine.failed_peer();
      failure why = std::move(moved.error());
      const bool is_lost = why.code == errc::connection_lost;
      if (is_lost)
        why =
          make_failure(errc::peer_lost, name_of(spec_.members, peer) + " was lost: " + why.text);
      end(task, std::move(why), is_lost ? std::vector{peer} : std::vector<std::uint32_t>{});
    } else if (*moved) {
      idle = 0;
      if (round % look_every != 0)
        continue;
    }
    if ((round % look_every == 0 || ended_.load(std::memory_order_acquire))
        && look_around(engine, task))
      return why_ended();
    if (moved && *moved)
      continue;
    const time_point now = env_.clock.now();
    // Whoever yields on a busy core gives away its turn, and the others of its group wait with it.
    // Members that can have a core each keep it for as long as they usually wait.
    if (idle == 0 && by_progress && !ended_.load(std::memory_order_acquire)) {
      deadline = after(now, task.options.deadline); // something has moved
      asked_ = false;
    }
    if (idle++ == 0)
      spin_end = after(now, keeps_core_ ? std::min(options_.spin, keep_core_max) : options_.spin);
    if (now < std::min(spin_end, deadline) && idle < yields_max) {
      keeps_core_ ? pause_briefly() : env_.threads.yield();
      continue;
    }
    if (sleep(engine, task, deadline, teller))
      return why_ended();
  }
}

// True: the epoch has ended, and the operation with it.
bool group_core::look_around(collective_engine& engine, const collective_task& task) {
  if (auto notice = channels_->listen()) {
    if (!ended_ && !notice->doing.empty()) // of another operation than this one
      end_by_mismatch(task, std::move(notice->why));
    else if (!ended_)
      end_epoch(std::move(notice->why), std::move(notice->missing));
  }
  for (std::uint32_t peer = 0; peer < size() && !ended_; ++peer) {
    if (peer == rank() || !channels_->is_gone(peer))
      continue;
    poller_->forget(*channels_->control(peer));
    if (!engine.ends_with(peer))
      continue;
    // What it did before it left may have come in between.
    auto last = engine.advance();
    if (!engine.done() && (!last || engine.ends_with(peer)))
      end(task,
          make_failure(errc::peer_lost,
                       name_of(spec_.members, peer) + " was lost: its connection ended"),
          {peer});
  }
  return ended_ && engine.give_up();
}

// True: the epoch has ended.
bool group_core::sleep(collective_engine& engine, const collective_task& task, time_point deadline,
                       wait_teller& teller) {
  if (look_around(engine, task))
    return true;
  const time_point now = env_.clock.now();
  if (now >= deadline && !ended_) {
    const std::vector<std::uint32_t> missing = silent(engine);
    if (engine.give_up()) {
      end(task, make_failure(errc::deadline, "deadline exceeded waiting for " + names(missing)),
          missing);
      return true;
    }
  }
  const time_point ask_at = deadline - std::min(ask_before, task.options.deadline / 4);
  if (!asked_ && now >= ask_at) {
    channels_->ask();
    asked_ = true;
  }
  teller.look(now, [&] { return names(silent(engine)) + ", in " + whole_name(task); });
  if (engine.before_sleep(*poller_)) {
    // Beyond its deadline an operation can only be about to end.
    const time_point until = std::min(asked_ ? deadline : ask_at, teller.next());
    poller_->wait(now >= deadline ? after(now, std::chrono::milliseconds{1}) : until);
  }
  engine.after_sleep(*poller_);
  return look_around(engine, task);
}

// Those that the operation waits for and that don't drive it; if all do, those it waits for.
std::vector<std::uint32_t> group_core::silent(const collective_engine& engine) const {
  std::vector<std::uint32_t> needed;
  std::vector<std::uint32_t> out;
  for (std::uint32_t peer = 0; peer < size(); ++peer) {
    if (peer == rank() || !engine.needs(peer))
      continue;
    needed.push_back(peer);
    if (!channels_->has_answered(peer))
      out.push_back(peer);
  }
  return out.empty() ? needed : out;
}

void group_core::end(const collective_task& task, failure why, std::vector<std::uint32_t> missing) {
  if (why.code == errc::mismatch)
    return end_by_mismatch(task, std::move(why));
  why.text = whole_name(task) + ": " + why.text + "; the contents of the output are undefined";
  end_epoch(std::move(why), std::move(missing));
}

/// Members don't do the same. Each tells the others what it does, and hears what they do, so that
/// all can say both.
void group_core::end_by_mismatch(const collective_task& task, failure why) {
  const std::string own = doing(task);
  why.text = whole_name(task) + ": " + why.text;
  end_epoch(why, {}, own);
  const std::string others = others_doings(own);
  const std::lock_guard lock{mutex_};
  if (ended_why_->code == errc::mismatch && !others.empty())
    ended_why_->text = whole_name(task) + ": the members called different operations: "
                       + name_of(spec_.members, rank()) + " called " + own + others
                       + "; the contents of the output are undefined";
}

/// ", member 1 (...) does all_gather f32[2]": what others do instead, once one has said so. Waits
/// a little.
std::string group_core::others_doings(const std::string& own) {
  const time_point until = after(env_.clock.now(), quote_max);
  for (;;) {
    static_cast<void>(channels_->listen().has_value());
    std::string out;
    bool all = true;
    for (std::uint32_t peer = 0; peer < size(); ++peer) {
      const auto& said = channels_->said(peer);
      all = all && (peer == rank() || said || channels_->is_gone(peer));
      if (said && !said->doing.empty() && said->doing != own)
        out += ", " + name_of(spec_.members, peer) + " called " + said->doing;
    }
    const time_point now = env_.clock.now();
    if (!out.empty() || all || now >= until)
      return out;
    poller_->wait(std::min(until, after(now, std::chrono::milliseconds{1})));
  }
}

} // namespace troupe::detail
