#include <troupe/actors/replicas/replica_group.hpp>

#include <algorithm>
#include <atomic>
#include <utility>

#include <troupe/transport/memory_transport.hpp>

namespace troupe {

namespace {

/// Members of one process find each other's memory by the group's name and their addresses, and
/// those of every memory transport begin anew: each group within a process has a name of its own.
/// Where no memory is shared, as in a simulation, the name is what it is: two runs say the same.
std::string unique_name(const environment& env, const std::string& name) {
  static std::atomic<std::uint64_t> count{0};
  return env.transport.shares_memory() ? name + "." + std::to_string(++count) : name;
}

/// Threads of one process hand each other pointers; in a simulation nothing is shared.
group_locality locality_within(const environment& env, const void* unique) {
  if (!env.transport.shares_memory())
    return {};
  return {.host = 1, .process = reinterpret_cast<std::uintptr_t>(unique)};
}

} // namespace

replica_group::replica_group(const environment& env, replica_group_options options)
  : options_{std::move(options)},
    name_{options_.links ? options_.name : unique_name(env, options_.name)},
    locality_{locality_within(env, this)},
    within_{options_.links ? nullptr : make_memory_transport(env.waits)},
    env_{env.clock,   env.random, env.storage,
         env.threads, env.waits,  within_ ? *within_ : env.transport,
         env.trace,   env.devices},
    changed_{env.waits.make_point()},
    joined_(options_.local) {
  for (std::uint32_t i = 0; i < options_.local; ++i)
    members_.push_back(make_member(i));
}

std::shared_ptr<collective_group> replica_group::make_member(std::uint32_t local) {
  group_options how{.name = name_,
                    .listen = options_.links ? options_.links->listen_address() : "mem:0",
                    .token = options_.links ? options_.links->token() : std::string{}};
  if (!options_.links)
    how.locality = locality_;
  if (local == 0)
    how.on_wait = options_.on_wait;
  return collective_group::make(env_, options_.first_id + local, std::move(how)).value_or_throw();
}

std::shared_ptr<collective_group> replica_group::member(std::uint32_t local) {
  std::lock_guard lock{mutex_};
  return members_.at(local);
}

group_epoch replica_group::epoch(std::uint32_t local) {
  std::lock_guard lock{mutex_};
  return group_epoch{joined_.at(local)};
}

void replica_group::renew(std::uint32_t local) {
  std::lock_guard lock{mutex_};
  if (members_.empty())
    return;
  try {
    members_[local] = make_member(local);
  } catch (const error& e) { // no port: the old one stays, and says so itself
    trace(env_, "replica.no_member", {{"replica", options_.first_id + local}, {"why", e.what()}});
  }
  joined_[local] = 0;
  broken_ = wanted_;
}

replica_group::~replica_group() = default;

/// One thread asks where all members of the next epoch are, and which it is; the others wait for
/// its answer. @pre the lock is held
result<std::uint32_t> replica_group::find_all(std::unique_lock<std::mutex>& lock,
                                              time_point deadline) {
  const auto epoch = wanted_;
  // Whoever asks ends at its own deadline, and then says who is missing.
  constexpr duration for_its_answer = std::chrono::seconds{2};
  while (finding_)
    if (!changed_->wait_until(lock, after(deadline, for_its_answer)))
      return make_failure(errc::deadline, options_.name + ": epoch " + std::to_string(epoch)
                                            + ": no answer from the other workers");
  if (found_ >= epoch)
    return not_found_ ? result<std::uint32_t>{*not_found_} : found_;
  finding_ = true;
  replica_addresses mine{.epoch = epoch};
  for (std::uint32_t i = 0; i < options_.local; ++i)
    mine.members.push_back({.id = options_.first_id + i, .address = members_[i]->address()});
  lock.unlock();
  auto got =
    options_.links ? options_.links->exchange(mine, deadline) : result<replica_addresses>{mine};
  lock.lock();
  finding_ = false;
  found_ = epoch;
  not_found_.reset();
  if (got && got->members.size() != options_.total)
    got = make_failure(errc::mismatch, options_.name + ": " + std::to_string(got->members.size())
                                         + " members, expected " + std::to_string(options_.total));
  if (got) {
    if (wanted_ == epoch) // workers that have seen more failures are further
      wanted_ = std::max(epoch, got->epoch);
    found_ = std::max(epoch, got->epoch);
    all_ = std::move(got->members);
  } else {
    not_found_ = got.error();
  }
  changed_->notify_all();
  return not_found_ ? result<std::uint32_t>{*not_found_} : found_;
}

bool replica_group::prepare() {
  std::lock_guard lock{mutex_};
  if (wanted_ <= broken_) // by others' count it may be further
    wanted_ = broken_ + 1;
  return std::all_of(joined_.begin(), joined_.end(), [this](auto at) { return at == wanted_; });
}

result<void> replica_group::join(std::uint32_t local) {
  const auto deadline = after(env_.clock.now(), options_.timeout);
  std::unique_lock lock{mutex_};
  auto epoch = wanted_;
  if (joined_[local] == epoch)
    return {};
  auto found = find_all(lock, deadline);
  if (found)
    epoch = *found;
  if (!found || wanted_ != epoch) {
    broken_ = std::max(broken_, epoch);
    if (!found)
      return found.error();
    return make_failure(errc::revoked, options_.name + ": epoch " + std::to_string(epoch)
                                         + " was revoked before it began");
  }
  const auto all = all_;
  const auto member = members_.at(local);
  lock.unlock();
  auto formed = member->form(group_epoch{epoch}, all, deadline - env_.clock.now());
  if (formed && options_.links) // nobody goes on, and fails, while others still join
    formed = member->barrier({.deadline = deadline - env_.clock.now()});
  lock.lock();
  if (members_.empty() || members_[local] != member) // the thread was left behind meanwhile
    return make_failure(errc::cancelled, options_.name + ": the replica was abandoned");
  joined_[local] = epoch;
  if (!formed)
    broken_ = std::max(broken_, epoch);
  return formed;
}

void replica_group::close(time_point deadline) {
  {
    std::lock_guard lock{mutex_};
    members_.clear();
  }
  if (options_.links)
    options_.links->close(deadline);
}

void replica_group::broke(std::uint32_t local, const std::shared_ptr<collective_group>& member) {
  std::lock_guard lock{mutex_};
  if (members_.empty() || members_[local] != member) // of a thread that was left behind
    return;
  broken_ = std::max(broken_, joined_[local]);
}

void replica_group::interrupt(std::uint32_t local, const failure& why) {
  std::shared_ptr<collective_group> member;
  {
    std::lock_guard lock{mutex_};
    if (members_.empty() || joined_[local] != wanted_ || joined_[local] == broken_)
      return;
    broken_ = joined_[local];
    member = members_[local];
  }
  member->revoke(why);
}

} // namespace troupe
