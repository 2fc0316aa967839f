#include <troupe/actors/replicas/worker_group.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

#include <troupe/actors/support/wait_log.hpp>

namespace troupe {

namespace {

constexpr std::int64_t text_bytes_max = 16 << 20; // of one worker
constexpr duration tell_every = std::chrono::seconds{5};

/// Failures of an epoch, not of the call: in the next epoch it may succeed.
bool passes(errc code) {
  return code == errc::peer_lost || code == errc::revoked || code == errc::fenced
         || code == errc::deadline;
}

group_epoch next_after(group_epoch epoch) {
  return group_epoch{static_cast<std::uint32_t>(epoch) + 1};
}

} // namespace

/// One call at a time.
class worker_group::turn {
public:
  turn(worker_group& of, time_point deadline) : of_{of} {
    std::unique_lock lock{of_.mutex_};
    while (of_.taken_)
      if (!of_.freed_->wait_until(lock, deadline))
        return;
    of_.taken_ = mine_ = true;
  }
  ~turn() {
    if (!mine_)
      return;
    std::lock_guard lock{of_.mutex_};
    of_.taken_ = false;
    of_.freed_->notify_all();
  }
  turn(const turn&) = delete;
  turn& operator=(const turn&) = delete;
  explicit operator bool() const { return mine_; }

private:
  worker_group& of_;
  bool mine_ = false;
};

/// Who hears of the waits of a call.
class worker_group::telling {
public:
  telling(worker_group& of, wait_listener to) : of_{of} { of_.tells_ = std::move(to); }
  ~telling() { of_.tells_ = nullptr; }
  telling(const telling&) = delete;
  telling& operator=(const telling&) = delete;

private:
  worker_group& of_;
};

namespace {

failure busy(const std::string& what) {
  return make_failure(
    errc::deadline,
    what + ": a call of another thread to the other workers did not end before the deadline");
}

} // namespace

worker_group::worker_group(const environment& env) : env_{env}, freed_{env.waits.make_point()} {}

result<std::unique_ptr<worker_group>> worker_group::make(const environment& env, std::uint32_t self,
                                                         group_options options) {
  auto out = std::make_unique<worker_group>(env);
  options.on_wait = [of = out.get(),
                     also = std::move(options.on_wait)](const std::string& missing) {
    if (also)
      also(missing);
    if (of->tells_) // of the call whose turn it is, which waits
      of->tells_(missing);
  };
  auto group = collective_group::make(out->env_, self, std::move(options));
  if (!group)
    return group.error();
  out->group_ = std::move(*group);
  return out;
}

void worker_group::close(time_point deadline) {
  const turn mine{*this, deadline};
  if (!mine) // whoever is in a call keeps it
    return;
  group_.reset();
}

void worker_group::set_addresses(const std::vector<std::string>& addresses,
                                 const std::vector<std::string>& names) {
  members_.clear();
  for (std::size_t i = 0; i < addresses.size(); ++i)
    members_.push_back({.id = i, .address = addresses[i], .name = names.at(i)});
}

/// An epoch that is whole, the one of those who are furthest.
result<void> worker_group::ready(time_point deadline) {
  if (whole_)
    return {};
  auto next = std::max(group_->newest_epoch(), next_after(group_->epoch()));
  for (;;) {
    auto formed = group_->form(next, members_, std::max(duration{}, deadline - env_.clock.now()));
    if (formed) {
      whole_ = true;
      return {};
    }
    if (formed.error().code != errc::fenced || group_->newest_epoch() <= next)
      return formed;
    next = group_->newest_epoch();
  }
}

result<void> worker_group::once(const std::string& what, time_point deadline,
                                const operation& body) {
  if (!group_)
    return make_failure(errc::unavailable, "the runtime has ended");
  auto done = ready(deadline);
  if (done)
    done =
      body(*group_, {.deadline = std::max(duration{}, deadline - env_.clock.now()), .what = what});
  if (!done && (done.error().code != errc::invalid_argument || group_->why_ended()))
    whole_ = false; // an error of the caller's own ends no epoch, that of another one does
  return done;
}

namespace {

result<void> named(const std::string& what, result<void> done) {
  if (!done && !done.error().text.starts_with(what)) // an operation's failure names it itself
    done.error().text = what + ": " + done.error().text;
  return done;
}

} // namespace

result<void> worker_group::run(const std::string& what, time_point deadline, const operation& body,
                               const wait_listener& told) {
  const turn mine{*this, deadline};
  if (!mine)
    return busy(what);
  const telling aloud{*this, [&](const std::string& missing) {
                        if (told)
                          told(what + " waits for " + missing);
                      }};
  return named(what, once(what, deadline, body));
}

result<void> worker_group::persist(const std::string& what, time_point deadline,
                                   const operation& body, const wait_listener& told) {
  const turn mine{*this, deadline};
  if (!mine)
    return busy(what);
  wait_log log{env_.clock.now(), tell_every};
  const telling aloud{*this, [&](const std::string& missing) {
                        if (told)
                          told(what + " waits for " + missing
                               + (log.tries() == 0 ? "" : "; " + log.text(env_.clock.now())));
                      }};
  for (;;) {
    auto done = once(what, deadline, body);
    const auto now = env_.clock.now();
    if (done || !passes(done.error().code) || now >= deadline) {
      if (!done && log.tries() > 0)
        done.error().text += "; before that: " + log.text(now);
      return named(what, std::move(done));
    }
    log.ended(done.error());
    trace(env_, "workers.try_ended", {{"what", what}, {"why", done.error().text}});
    if (const auto text = log.due(now); text && told)
      told(what + ": " + *text);
  }
}

result<void> worker_group::meet(const std::string& what, time_point deadline, const operation& body,
                                const wait_listener& told) {
  {
    const turn mine{*this, deadline};
    if (!mine)
      return busy(what);
    whole_ = false;
  }
  return persist(what, deadline, body, told);
}

result<std::vector<std::string>> gather_texts(collective_group& group, const std::string& mine,
                                              const collective_options& options) {
  const auto own = tensor::scalar(static_cast<std::int64_t>(mine.size()));
  tensor sizes{dtype::i64, {group.size()}};
  if (auto told = group.all_gather(own, sizes, {}, options); !told)
    return told.error();
  std::vector<std::size_t> counts;
  std::int64_t all = 0;
  for (const auto each : sizes.as<std::int64_t>()) {
    if (each < 0 || each > text_bytes_max)
      return make_failure(errc::too_large, options.what + ": " + std::to_string(each)
                                             + " bytes from one worker; the limit is "
                                             + std::to_string(text_bytes_max));
    counts.push_back(static_cast<std::size_t>(each));
    all += each;
  }
  tensor text{dtype::u8, {static_cast<std::int64_t>(mine.size())}};
  if (!mine.empty())
    std::memcpy(text.mutable_bytes().data(), mine.data(), mine.size());
  tensor texts{dtype::u8, {all}};
  if (auto told = group.all_gather(text, texts, counts, options); !told)
    return told.error();
  std::vector<std::string> out;
  const auto* at = reinterpret_cast<const char*>(texts.bytes().data());
  for (const auto count : counts) {
    out.emplace_back(at, count);
    at += count;
  }
  return out;
}

} // namespace troupe
