#include <troupe/actors/coordinator/dispatch_core.hpp>

#include <troupe/core/planted.hpp>

#include <algorithm>

namespace troupe {

std::vector<blame> blame_of(const std::deque<flight>& flights, std::uint32_t threads) {
  std::vector<blame> out;
  out.reserve(flights.size());
  std::uint32_t taken = 0; // threads that cannot have gone on to a later flight without a word
  for (const auto& f : flights) {
    auto what = f.begun ? blame::begun : taken < threads ? blame::doubted : blame::none;
    if (planted(planted_bug::innocent_strikes))
      what = blame::begun;
    out.push_back(what);
    taken += f.begun || f.announced ? 1 : 0;
  }
  return out;
}

bool announces(const closure& c, std::uint64_t median_ns, std::uint32_t failed_attempts_max) {
  constexpr std::uint64_t short_ns = 4'000'000;
  const bool decides =
    runs_alone(c) || (failed_attempts_max > 0 && c.failed_attempts + 1 >= failed_attempts_max);
  return decides || median_ns == 0 || median_ns >= short_ns;
}

void dispatch_core::worker_up(std::uint32_t index, incarnation inc, std::uint32_t threads) {
  auto [at, fresh] = workers_.try_emplace(index);
  TROUPE_ASSERT(fresh, "a worker that is up is taken down before it comes up again");
  at->second.inc = inc;
  at->second.threads = std::max(threads, 1u);
}

std::deque<flight> dispatch_core::worker_down(std::uint32_t index) {
  auto at = workers_.find(index);
  if (at == workers_.end())
    return {};
  auto flights = std::move(at->second.flights);
  in_flight_ -= flights.size();
  workers_.erase(at);
  return flights;
}

bool dispatch_core::is_up(std::uint32_t index, const incarnation& inc) const {
  auto at = workers_.find(index);
  return at != workers_.end() && at->second.inc == inc;
}

bool dispatch_core::list_is_due(std::uint64_t ends, std::uint64_t every) const {
  constexpr std::uint64_t ends_per_name = 4;
  return ends >= std::max<std::uint64_t>(every, ends_per_name * in_flight_);
}

std::size_t dispatch_core::room(std::uint32_t index, function_index function,
                                const function_times& times) const {
  const auto& w = workers_.at(index);
  auto limit = w.threads + prefetch_credits(times.median_ns(function));
  const bool closed = w.recalls > 0 || w.stuck || w.leaving;
  return w.flights.size() >= limit || closed ? 0 : limit - w.flights.size();
}

bool dispatch_core::worth_sending(std::uint32_t index, std::size_t count, std::size_t room) const {
  constexpr std::size_t many = 32;
  const auto& w = workers_.at(index);
  return w.flights.size() <= w.threads || count >= std::min(many, (w.flights.size() + room) / 2);
}

std::vector<std::uint32_t> dispatch_core::by_load() const {
  std::vector<std::uint32_t> out;
  for (const auto& [index, w] : workers_)
    out.push_back(index);
  std::stable_sort(out.begin(), out.end(), [this](auto a, auto b) {
    if (planted(planted_bug::address_order))
      return &workers_.at(a) < &workers_.at(b);
    return workers_.at(a).flights.size() < workers_.at(b).flights.size();
  });
  return out;
}

void dispatch_core::sent(std::uint32_t index, flight what) {
  workers_.at(index).flights.push_back(std::move(what));
  ++in_flight_;
}

void dispatch_core::begun(std::uint32_t index, closure_id id, attempt_no attempt) {
  auto at = workers_.find(index);
  if (at == workers_.end())
    return;
  for (auto& f : at->second.flights)
    if (f.what->id == id && f.attempt == attempt) {
      f.begun = true;
      return;
    }
}

std::optional<flight> dispatch_core::ended(std::uint32_t index, closure_id id, attempt_no attempt) {
  auto at = workers_.find(index);
  if (at == workers_.end())
    return {};
  auto& flights = at->second.flights;
  auto found = std::find_if(flights.begin(), flights.end(), [&](const flight& f) {
    return f.what->id == id && (f.attempt == attempt || planted(planted_bug::stale_attempt));
  });
  if (found == flights.end())
    return {};
  auto out = std::move(*found);
  flights.erase(found);
  --in_flight_;
  return out;
}

std::optional<dispatch_core::recall> dispatch_core::plan_recall(time_point now,
                                                                duration min_wait) const {
  bool idle = false;
  const worker* fullest = nullptr;
  std::uint32_t at = 0;
  for (const auto& [index, w] : workers_) {
    idle |= w.flights.empty();
    if (w.flights.size() <= w.threads || w.recalls > 0
        || now - w.flights[w.threads].sent < min_wait)
      continue;
    if (!fullest || w.flights.size() > fullest->flights.size()) {
      fullest = &w;
      at = index;
    }
  }
  if (!idle || !fullest)
    return {};
  auto waiting = fullest->flights.size() - fullest->threads;
  return recall{.worker = at, .count = static_cast<std::uint32_t>((waiting + 1) / 2)};
}

std::optional<dispatch_core::recall> dispatch_core::plan_recall_for(std::uint32_t index,
                                                                    std::optional<int> top) const {
  const auto& w = workers_.at(index);
  if (w.recalls > 0 || w.flights.size() <= w.threads)
    return {};
  bool lower = top
               && std::any_of(w.flights.begin() + w.threads, w.flights.end(),
                              [&](const flight& f) { return f.what->options.priority < *top; });
  if (!lower && !w.stuck)
    return {};
  return recall{.worker = index, .count = static_cast<std::uint32_t>(w.flights.size() - w.threads)};
}

void dispatch_core::recall_sent(std::uint32_t index, std::uint32_t count) {
  workers_.at(index).recalls += count;
}

void dispatch_core::recall_answered(std::uint32_t index, std::uint32_t count) {
  auto at = workers_.find(index);
  if (at != workers_.end())
    at->second.recalls -= std::min(at->second.recalls, count);
}

} // namespace troupe
