#include "children.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <system_error>

namespace tool {

namespace tr = troupe;

std::int64_t steady_ns() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

children::~children() { signal_all(SIGKILL); } // all at once; each is waited for when it goes

child& children::add(tr::task_id task) {
  all_.push_back({.task = task});
  return all_.back();
}

child& children::at(tr::task_id task) {
  const auto found = std::ranges::find(all_, task, &child::task);
  if (found == all_.end())
    tr::throw_failure(tr::errc::unknown_name, "launcher: unknown task " + to_string(task));
  return *found;
}

void children::start(child& c, const std::vector<std::string>& arguments,
                     const std::map<std::string, std::string>& environment) {
  try {
    c.process = child_process{child_command{.program = own_program(),
                                            .arguments = arguments,
                                            .environment = environment,
                                            .options = {.own_group = true}}};
  } catch (const std::system_error& e) {
    tr::throw_failure(tr::errc::unavailable,
                      "launcher: cannot start " + to_string(c.task) + ": " + e.code().message());
  }
  ++c.starts;
  c.started_ms = steady_ns() / 1'000'000;
  c.start_at_ms.reset();
  c.hit = false;
}

void children::signal_all(int number) const {
  for (const auto& c : all_)
    c.process.signal(number);
}

std::vector<child*> children::reap() {
  std::vector<child*> out;
  for (auto& c : all_)
    if (c.lives() && !c.process.running())
      out.push_back(&c);
  return out;
}

bool children::any_lives() const { return std::ranges::any_of(all_, &child::lives); }

std::vector<tr::task_id> children::living() const {
  std::vector<tr::task_id> out;
  for (const auto& c : all_)
    if (c.lives())
      out.push_back(c.task);
  return out;
}

std::optional<std::int64_t> children::next_start_ms() const {
  std::optional<std::int64_t> out;
  for (const auto& c : all_)
    if (c.start_at_ms && (!out || *c.start_at_ms < *out))
      out = c.start_at_ms;
  return out;
}

} // namespace tool
