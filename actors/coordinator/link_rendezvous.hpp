#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <troupe/core/ids.hpp>

namespace troupe {

/// Brings workers of other processes together with their links. Membership says that a worker is
/// there and the process's links say that it can be spoken to, in any order; only then is it given
/// work, so that all it is told travels on that link alone. No CAF, clocks or locks; one thread.
///
/// Invariant: a member is given out with the link of its own incarnation, both once.
/// @tparam Member, Link  what is kept of either until they meet
template <class Member, class Link>
class link_rendezvous {
public:
  struct pair {
    Member member{};
    Link link{};
  };

  /// A worker is a member. Replaces an earlier incarnation of it that still waited.
  void member_came(std::uint32_t worker, const incarnation& inc, Member member) {
    members_.insert_or_assign(worker, entry<Member>{inc, std::move(member)});
  }
  /// It is none any more. Does nothing when another incarnation waits.
  void member_left(std::uint32_t worker, const incarnation& inc) { forget(members_, worker, inc); }
  /// A link is up. Replaces that of an earlier incarnation.
  void link_came(std::uint32_t worker, const incarnation& inc, Link link) {
    links_.insert_or_assign(worker, entry<Link>{inc, std::move(link)});
  }
  /// It has ended. Does nothing when that of another incarnation waits.
  void link_ended(std::uint32_t worker, const incarnation& inc) { forget(links_, worker, inc); }

  /// The worker and its link, which are forgotten here; none while one of them is missing or they
  /// are of different incarnations.
  std::optional<pair> meet(std::uint32_t worker) {
    auto member = members_.find(worker);
    auto link = links_.find(worker);
    if (member == members_.end() || link == links_.end() || member->second.inc != link->second.inc)
      return {};
    pair out{std::move(member->second.what), std::move(link->second.what)};
    members_.erase(member);
    links_.erase(link);
    return out;
  }

  /// Members whose link is not there yet.
  std::set<std::uint32_t> waiting_members() const {
    std::set<std::uint32_t> out;
    for (const auto& [worker, member] : members_)
      out.insert(worker);
    return out;
  }

private:
  template <class T>
  struct entry {
    incarnation inc{};
    T what{};
  };
  template <class T>
  static void forget(std::map<std::uint32_t, entry<T>>& from, std::uint32_t worker,
                     const incarnation& inc) {
    if (auto at = from.find(worker); at != from.end() && at->second.inc == inc)
      from.erase(at);
  }

  std::map<std::uint32_t, entry<Member>> members_{};
  std::map<std::uint32_t, entry<Link>> links_{};
};

/// Losses of workers that wait for what the worker said last: the loss is known by one connection,
/// what was said by another, the link, and it decides whom the loss is blamed on. No CAF, clocks or
/// locks; one thread.
/// @tparam Loss  what is kept of a loss
template <class Loss>
class awaited_losses {
public:
  /// The loss waits. Returns the number for its timer.
  std::uint64_t await(std::uint32_t worker, const incarnation& inc, Loss loss) {
    losses_.insert_or_assign(worker, entry{inc, std::move(loss)});
    return (std::uint64_t{worker} << 32) | inc.counter;
  }
  bool waits(std::uint32_t worker) const { return losses_.contains(worker); }
  /// The loss, which waits no longer; none when it did not.
  std::optional<Loss> take(std::uint32_t worker) {
    auto at = losses_.find(worker);
    if (at == losses_.end())
      return {};
    std::optional<Loss> out{std::move(at->second.loss)};
    losses_.erase(at);
    return out;
  }
  /// The worker whose loss waited for this timer; none when it waits no longer.
  std::optional<std::uint32_t> timed_out(std::uint64_t timer) const {
    const auto worker = static_cast<std::uint32_t>(timer >> 32);
    auto at = losses_.find(worker);
    if (at == losses_.end() || at->second.inc.counter != static_cast<std::uint32_t>(timer))
      return {};
    return worker;
  }

private:
  struct entry {
    incarnation inc{};
    Loss loss{};
  };
  std::map<std::uint32_t, entry> losses_{};
};

} // namespace troupe
