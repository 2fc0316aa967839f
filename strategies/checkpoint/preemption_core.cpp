#include <troupe/strategies/checkpoint/preemption_core.hpp>

#include <algorithm>
#include <utility>

namespace troupe {

namespace {

// Time to save twice, with a margin of three.
constexpr std::int64_t calls_before_end = 3 * 2;

failure contradicts(const preemption_message& message, const std::string& text) {
  return make_failure(errc::mismatch, "preemption: message of worker "
                                        + std::to_string(message.from) + " for round "
                                        + std::to_string(message.round) + ", step "
                                        + std::to_string(message.step) + ": " + text);
}

} // namespace

preemption_options preemption_options::for_gce() { return {std::chrono::hours{1}, 143}; }

preemption_core::preemption_core(preemption_options options, std::uint32_t worker,
                                 std::uint32_t num_workers, std::uint64_t restored_calls)
  : options_{options}, worker_{worker}, num_workers_{num_workers}, calls_{restored_calls} {
  if (worker >= num_workers)
    throw_failure(errc::invalid_argument, "preemption: worker is " + std::to_string(worker)
                                            + ", num_workers is " + std::to_string(num_workers));
}

bool preemption_core::on_notice(time_point now) {
  if (noticed_ || rounds_[0].at != phase::idle)
    return false;
  noticed_ = now;
  return true;
}

result<void> preemption_core::on_message(const preemption_message& message) {
  if (message.from >= num_workers_ || message.from == worker_)
    return contradicts(message, "the sender is not one of worker " + std::to_string(worker_) + "'s "
                                  + std::to_string(num_workers_ - 1) + " peers");
  if (message.round >= rounds())
    return contradicts(message, "there are " + std::to_string(rounds()) + " rounds");
  switch (message.kind) {
    case preemption_message_kind::proposal: return on_proposal(message);
    case preemption_message_kind::acknowledgement: return on_acknowledgement(message);
    case preemption_message_kind::decision: return on_decision(message);
  }
  return contradicts(message, "its kind is " + std::to_string(static_cast<int>(message.kind)));
}

result<void> preemption_core::on_proposal(const preemption_message& message) {
  const auto& round = rounds_[message.round];
  switch (round.at) {
    case phase::idle: follow(message); return {};
    case phase::proposing:
    case phase::following:
      if (message.from <= round.leader)
        follow(message);
      return {}; // the other one hears of the lower proposer too, and follows it
    case phase::decided:
    case phase::saved: return {}; // sent before its sender followed
  }
  return {};
}

void preemption_core::follow(const preemption_message& proposal) {
  auto& round = rounds_[proposal.round];
  // What was promised to another proposer need not be kept, but a promise to this one does: the
  // message may have come twice.
  if (round.at != phase::following || round.leader != proposal.from)
    round.step = std::max(proposal.step, first_step_left());
  round.at = phase::following;
  round.leader = proposal.from;
  round.acknowledged.clear();
  send(proposal.from, preemption_message_kind::acknowledgement, proposal.round);
}

result<void> preemption_core::on_acknowledgement(const preemption_message& message) {
  auto& round = rounds_[message.round];
  if (round.at == phase::idle)
    return contradicts(message, "acknowledges an unknown proposal");
  if (round.at != phase::proposing)
    return {}; // of a proposal that was given up, or a second one
  round.step = std::max(round.step, message.step);
  round.acknowledged[message.from] = true;
  decide_if_all_acknowledged(message.round);
  return {};
}

result<void> preemption_core::on_decision(const preemption_message& message) {
  auto& round = rounds_[message.round];
  if (round.at == phase::idle || round.at == phase::proposing || round.leader != message.from)
    return contradicts(message,
                       "decides without the acknowledgement of worker " + std::to_string(worker_));
  if (round.at == phase::following && message.step < round.step)
    return contradicts(message,
                       "decides below the acknowledged step " + std::to_string(round.step));
  if (round.at != phase::following && message.step != round.step)
    return contradicts(message, "step " + std::to_string(round.step) + " was already decided");
  if (round.at == phase::following)
    round.at = phase::decided;
  round.step = message.step;
  return {};
}

bool preemption_core::is_time_to_propose(std::uint32_t round, time_point now) const {
  if (rounds_[round].at != phase::idle || !noticed_)
    return false;
  return round == 0 || (rounds_[0].at == phase::saved && now >= *second_save_at());
}

void preemption_core::propose(std::uint32_t round) {
  rounds_[round] = {phase::proposing, worker_, calls_ + 1, std::vector<bool>(num_workers_)};
  rounds_[round].acknowledged[worker_] = true;
  send_all(preemption_message_kind::proposal, round);
  decide_if_all_acknowledged(round);
}

void preemption_core::decide_if_all_acknowledged(std::uint32_t round) {
  auto& state = rounds_[round];
  const auto& all = state.acknowledged;
  if (std::find(all.begin(), all.end(), false) != all.end())
    return;
  state.at = phase::decided;
  state.acknowledged.clear();
  send_all(preemption_message_kind::decision, round);
}

preemption_action preemption_core::before_call(time_point now) {
  TROUPE_ASSERT(!running_, "before_call stands between calls");
  TROUPE_ASSERT(!saving_, "before_call stands after saved");
  TROUPE_ASSERT(!exits(), "no call after the last save");
  bool holds = false;
  for (std::uint32_t i = 0; i < rounds(); ++i) {
    const auto& round = rounds_[i];
    if (round.at == phase::saved)
      continue;
    if (is_time_to_propose(i, now))
      propose(i);
    if (round.at == phase::decided && calls_ == round.step) {
      saving_ = i;
      return preemption_action::save;
    }
    TROUPE_ASSERT(round.at != phase::decided || calls_ < round.step, "INV-PRE-1");
    holds = holds || round.at == phase::proposing
            || (round.at == phase::following && calls_ >= round.step);
  }
  if (holds)
    return preemption_action::hold;
  running_ = true;
  call_began_ = now;
  return preemption_action::run;
}

void preemption_core::call_finished(time_point now) {
  TROUPE_ASSERT(running_, "call_finished follows run");
  running_ = false;
  ++calls_;
  ++calls_here_;
  calls_length_ += std::max(now - call_began_, duration{});
}

void preemption_core::saved() {
  TROUPE_ASSERT(saving_.has_value(), "saved follows save");
  rounds_[*saving_].at = phase::saved;
  saving_.reset();
}

void preemption_core::give_up() noexcept {
  running_ = false;
  saving_.reset();
}

std::optional<int> preemption_core::exits() const {
  if (rounds_[rounds() - 1].at != phase::saved)
    return std::nullopt;
  return options_.exit_code;
}

duration preemption_core::average_call() const {
  return calls_here_ == 0 ? duration{} : calls_length_ / calls_here_;
}

std::optional<time_point> preemption_core::second_save_at() const {
  if (rounds() == 1 || !noticed_)
    return std::nullopt;
  return after(*noticed_, options_.grace) - calls_before_end * average_call();
}

std::optional<std::uint64_t> preemption_core::agreed_step(std::uint32_t round) const {
  const auto& state = rounds_.at(round);
  if (state.at != phase::decided && state.at != phase::saved)
    return std::nullopt;
  return state.step;
}

std::vector<std::uint32_t> preemption_core::waiting_for() const {
  std::vector<std::uint32_t> out;
  for (const auto& round : rounds_) {
    if (round.at == phase::following && calls_ >= round.step && !running_)
      out.push_back(round.leader);
    for (std::uint32_t i = 0; i < round.acknowledged.size(); ++i)
      if (!round.acknowledged[i])
        out.push_back(i);
  }
  return out;
}

std::vector<preemption_outgoing> preemption_core::take_outgoing() {
  return std::exchange(outgoing_, {});
}

void preemption_core::send(std::uint32_t to, preemption_message_kind kind, std::uint32_t round) {
  outgoing_.push_back({to, {kind, round, worker_, rounds_[round].step}});
}

void preemption_core::send_all(preemption_message_kind kind, std::uint32_t round) {
  for (std::uint32_t to = 0; to < num_workers_; ++to)
    if (to != worker_)
      send(to, kind, round);
}

std::string preemption_core::describe(std::uint32_t round) const {
  const auto& state = rounds_[round];
  const auto step = std::to_string(state.step);
  auto out = "; round " + std::to_string(round);
  switch (state.at) {
    case phase::idle: return out + " idle";
    case phase::proposing:
      out += " proposes " + step + ", waits for";
      for (std::uint32_t i = 0; i < num_workers_; ++i)
        if (!state.acknowledged[i])
          out += " " + std::to_string(i);
      return out;
    case phase::following:
      return out + " follows " + std::to_string(state.leader) + " up to " + step;
    case phase::decided: return out + " saves at " + step;
    case phase::saved: return out + " saved at " + step;
  }
  return out;
}

std::string preemption_core::status() const {
  auto out = "worker " + std::to_string(worker_) + ", " + std::to_string(calls_) + " calls";
  out += running_ ? ", running" : "";
  out += saving_ ? ", saving" : "";
  out += noticed_ ? ", noticed" : "";
  for (std::uint32_t i = 0; i < rounds(); ++i)
    out += describe(i);
  return out;
}

} // namespace troupe
