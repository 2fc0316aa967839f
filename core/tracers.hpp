#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <troupe/core/environment.hpp>

/// Tracers: sinks for events and marks. All take calls from any thread.
namespace troupe {

/// Counts how often each event and each mark came by.
class counting_tracer final : public tracer {
public:
  void event(std::string_view id, std::span<const trace_field> fields) override;
  void mark(std::string_view id) override;
  /// How often the event came; 0 when it never did.
  std::uint64_t events(std::string_view id) const;
  std::uint64_t marks(std::string_view id) const;
  /// All events so far with their counts, in name order.
  std::map<std::string, std::uint64_t> all_events() const;
  /// All marks so far with their counts, in name order.
  std::map<std::string, std::uint64_t> all_marks() const;

private:
  using counts = std::map<std::string, std::uint64_t, std::less<>>;
  mutable std::mutex mutex_{};
  counts events_{};
  counts marks_{};
};

/// Writes a line of JSON per event, `{"t_ns":12,"event":"worker.lost","worker":3}`, and per mark,
/// `{"t_ns":12,"mark":"worker.after_pull"}`. Each line is handed to the system at once, so that a
/// killed process leaves what it traced. Numbers that JSON lacks (nan) become strings. A line that
/// cannot be written ends the trace, not the program. Errors: those of `storage_port::create`.
/// `storage` and `clock` outlive the tracer.
result<std::unique_ptr<tracer>> make_jsonl_tracer(storage_port& storage, clock_port& clock,
                                                  const std::string& path);

/// Hands everything to each of `sinks`, in order.
std::unique_ptr<tracer> make_fan_out_tracer(std::vector<std::unique_ptr<tracer>> sinks);

/// A tracer for tests of whole processes: at the `nth` hit of `mark`, from 1, the process kills
/// itself (SIGKILL), as a crash would end it.
std::unique_ptr<tracer> make_kill_at_mark_tracer(std::string mark, int nth);

/// A tracer for tests of whole processes: at the `nth` hit of `mark`, from 1, the process stops
/// (SIGSTOP) until somebody sends SIGCONT.
std::unique_ptr<tracer> make_stop_at_mark_tracer(std::string mark, int nth);

} // namespace troupe
