#include "kill_spec.hpp"

#include <algorithm>
#include <charconv>

#include <troupe/core/random.hpp>

namespace tool {

namespace {

namespace tr = troupe;

constexpr std::int64_t period_ms_min = 10;

tr::failure bad(const std::string& field, std::string_view value, const std::string& expected) {
  return tr::make_failure(tr::errc::bad_config,
                          field + " is '" + std::string{value} + "', expected " + expected);
}

std::vector<std::string_view> split(std::string_view text, char by) {
  std::vector<std::string_view> out;
  for (;;) {
    const auto at = text.find(by);
    out.push_back(text.substr(0, at));
    if (at == std::string_view::npos)
      return out;
    text.remove_prefix(at + 1);
  }
}

template <class T>
std::optional<T> number(std::string_view text) {
  T out{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc{} || end != text.data() + text.size() || text.empty())
    return std::nullopt;
  return out;
}

/// 0 for a unit that is none.
double ms_per(std::string_view unit) {
  if (unit == "ms")
    return 1;
  if (unit == "s")
    return 1'000;
  return unit == "m" ? 60'000 : 0;
}

/// "worker", "worker:1", "ps".
tr::result<kill_spec> parse_victim(std::string_view job, std::optional<std::string_view> index) {
  kill_spec out;
  if (job == "worker")
    out.job = tr::job_kind::worker;
  else if (job == "ps")
    out.job = tr::job_kind::ps;
  else
    return bad("--kill job", job, "worker or ps");
  if (index) {
    out.index = number<std::uint32_t>(*index);
    if (!out.index)
      return bad("--kill index", *index, "a task index");
  }
  return out;
}

tr::result<void> set_field(kill_spec& spec, std::string_view key, std::string_view value) {
  if (key == "every" || key == "resume") {
    auto ms = parse_duration_ms(value, "--kill " + std::string{key});
    if (!ms)
      return ms.error();
    (key == "every" ? spec.every_ms : spec.resume_ms) = *ms;
    return {};
  }
  if (key != "signal")
    return bad("--kill field", key, "every, signal or resume");
  if (value != "KILL" && value != "STOP")
    return bad("--kill signal", value, "KILL or STOP");
  spec.signal = value == "STOP" ? fault_signal::stop : fault_signal::kill;
  return {};
}

} // namespace

tr::result<std::int64_t> parse_duration_ms(std::string_view text, const std::string& field) {
  const auto digits = std::min(text.find_first_not_of("0123456789."), text.size());
  const auto value = number<double>(text.substr(0, digits));
  const auto unit_ms = ms_per(text.substr(digits));
  if (!value || unit_ms == 0 || !(*value * unit_ms >= period_ms_min)
      || !(*value * unit_ms <= 86'400'000.0))
    return bad(field, text, "a time such as 250ms, 2s or 1m, from 10ms to 24 hours");
  return static_cast<std::int64_t>(*value * unit_ms);
}

tr::result<kill_spec> parse_kill_spec(std::string_view text) {
  const auto parts = split(text, ':');
  if (parts.size() < 2 || parts.size() > 3)
    return bad("--kill", text, "JOB:every=TIME[,signal=KILL|STOP][,resume=TIME]");
  auto spec = parse_victim(parts[0], parts.size() == 3 ? std::optional{parts[1]} : std::nullopt);
  if (!spec)
    return spec;
  for (const auto field : split(parts.back(), ',')) {
    const auto equals = field.find('=');
    if (equals == std::string_view::npos)
      return bad("--kill field", field, "every=TIME, signal=KILL|STOP or resume=TIME");
    auto set = set_field(*spec, field.substr(0, equals), field.substr(equals + 1));
    if (!set)
      return set.error();
  }
  if (spec->every_ms == 0)
    return bad("--kill", text, "an every=TIME");
  const bool stops = spec->signal == fault_signal::stop;
  if (stops != (spec->resume_ms > 0))
    return bad("--kill", text,
               stops ? "a resume=TIME with signal=STOP" : "no resume without signal=STOP");
  return spec;
}

tr::result<mark_spec> parse_mark_spec(std::string_view text, const std::string& flag) {
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0)
    return bad(flag, text, "MARK:N");
  const auto nth = number<int>(text.substr(colon + 1));
  if (!nth || *nth < 1)
    return bad(flag + " number", text.substr(colon + 1), "an integer of at least 1");
  return mark_spec{std::string{text.substr(0, colon)}, *nth};
}

tr::result<task_mark_spec> parse_task_mark_spec(std::string_view text, const std::string& flag) {
  const auto colon = text.find(':');
  auto rest = colon == std::string_view::npos ? std::string_view{} : text.substr(colon + 1);
  task_mark_spec out;
  if (text.substr(0, colon) == "ps")
    out.task.job = tr::job_kind::ps;
  else if (text.substr(0, colon) != "worker")
    return bad(flag + " job", text.substr(0, colon), "worker or ps");
  if (const auto next = rest.find(':'); next != std::string_view::npos)
    if (const auto index = number<std::uint32_t>(rest.substr(0, next))) {
      out.task.index = *index;
      rest.remove_prefix(next + 1);
    }
  auto at = parse_mark_spec(rest, flag);
  if (!at)
    return at.error();
  out.at = *at;
  return out;
}

// -- the plan
// -----------------------------------------------------------------------------------------

kill_plan::kill_plan(std::vector<kill_spec> specs, std::uint64_t seed)
  : specs_{std::move(specs)}, state_{seed} {
  for (const auto& spec : specs_)
    next_.push_back(spec.every_ms);
}

bool kill_plan::is_stopped(const tr::task_id& task) const {
  return std::ranges::any_of(stopped_, [&](const stopped& x) { return x.task == task; });
}

std::optional<tr::task_id> kill_plan::pick(const kill_spec& spec,
                                           const std::vector<tr::task_id>& living) {
  std::vector<tr::task_id> fit;
  for (const auto& task : living)
    if (task.job == spec.job && (!spec.index || *spec.index == task.index) && !is_stopped(task))
      fit.push_back(task);
  if (fit.empty())
    return std::nullopt;
  return fit[static_cast<std::size_t>(tr::next_word(state_) % fit.size())];
}

std::vector<due_fault> kill_plan::due(std::int64_t now_ms, const std::vector<tr::task_id>& living) {
  std::vector<due_fault> out;
  if (ended_)
    return out;
  std::erase_if(stopped_, [&](const stopped& x) {
    if (x.until_ms > now_ms)
      return false;
    out.push_back({.task = x.task, .signal = fault_signal::stop, .resume = true});
    return true;
  });
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    if (next_[i] > now_ms)
      continue;
    // One fault a look, however late it is: a stalled launcher does not catch up in a burst.
    next_[i] += ((now_ms - next_[i]) / specs_[i].every_ms + 1) * specs_[i].every_ms;
    const auto victim = pick(specs_[i], living);
    if (!victim || std::ranges::any_of(out, [&](const due_fault& x) { return x.task == *victim; }))
      continue;
    if (specs_[i].signal == fault_signal::stop)
      stopped_.push_back({*victim, now_ms + specs_[i].resume_ms});
    out.push_back({.task = *victim, .signal = specs_[i].signal});
  }
  return out;
}

std::optional<std::int64_t> kill_plan::next_ms() const {
  std::optional<std::int64_t> out;
  if (ended_)
    return out;
  for (const auto ms : next_)
    out = out ? std::min(*out, ms) : ms;
  for (const auto& x : stopped_)
    out = out ? std::min(*out, x.until_ms) : x.until_ms;
  return out;
}

std::vector<due_fault> kill_plan::end() {
  ended_ = true;
  std::vector<due_fault> out;
  for (const auto& x : stopped_)
    out.push_back({.task = x.task, .signal = fault_signal::stop, .resume = true});
  stopped_.clear();
  return out;
}

} // namespace tool
