#include <troupe/core/tracers.hpp>

#include <atomic>
#include <cmath>
#include <csignal>
#include <cstdio>

#include <unistd.h>

namespace troupe {

namespace {

void append_string(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (code < 0x20) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(code));
      out += escaped;
    } else {
      out += c;
    }
  }
  out += '"';
}

struct append_value {
  std::string& out;
  void operator()(std::int64_t x) const { out += std::to_string(x); }
  void operator()(std::uint64_t x) const { out += std::to_string(x); }
  void operator()(std::string_view x) const { append_string(out, x); }
  void operator()(double x) const {
    char digits[32];
    std::snprintf(digits, sizeof digits, std::isfinite(x) ? "%.17g" : "\"%g\"", x);
    out += digits;
  }
};

class jsonl_tracer final : public tracer {
public:
  jsonl_tracer(clock_port& clock, std::unique_ptr<file_writer> file)
    : clock_{clock}, file_{std::move(file)} {}

  void event(std::string_view id, std::span<const trace_field> fields) override {
    auto line = begin_line("event", id);
    for (const auto& field : fields) {
      line += ',';
      append_string(line, field.key);
      line += ':';
      std::visit(append_value{line}, field.value);
    }
    write(std::move(line));
  }

  void mark(std::string_view id) override { write(begin_line("mark", id)); }

private:
  std::string begin_line(const char* kind, std::string_view id) const {
    auto line =
      "{\"t_ns\":" + std::to_string(clock_.now().time_since_epoch().count()) + ",\"" + kind + "\":";
    append_string(line, id);
    return line;
  }

  void write(std::string line) {
    line += "}\n";
    const std::lock_guard lock{mutex_};
    if (file_ && !file_->write(std::as_bytes(std::span{line.data(), line.size()})))
      file_.reset();
  }

  clock_port& clock_;
  std::mutex mutex_{};
  std::unique_ptr<file_writer> file_;
};

class fan_out_tracer final : public tracer {
public:
  explicit fan_out_tracer(std::vector<std::unique_ptr<tracer>> sinks) : sinks_{std::move(sinks)} {}
  void event(std::string_view id, std::span<const trace_field> fields) override {
    for (const auto& sink : sinks_)
      sink->event(id, fields);
  }
  void mark(std::string_view id) override {
    for (const auto& sink : sinks_)
      sink->mark(id);
  }

private:
  std::vector<std::unique_ptr<tracer>> sinks_;
};

class signal_tracer final : public tracer {
public:
  signal_tracer(std::string mark, int nth, int signal_number)
    : mark_{std::move(mark)}, nth_{nth}, signal_number_{signal_number} {}
  void event(std::string_view, std::span<const trace_field>) override {}
  void mark(std::string_view id) override {
    if (id == mark_ && hits_.fetch_add(1) + 1 == nth_)
      ::kill(::getpid(), signal_number_);
  }

private:
  std::string mark_;
  int nth_;
  int signal_number_;
  std::atomic<int> hits_{0};
};

} // namespace

void counting_tracer::event(std::string_view id, std::span<const trace_field>) {
  const std::lock_guard lock{mutex_};
  ++events_[std::string{id}];
}

void counting_tracer::mark(std::string_view id) {
  const std::lock_guard lock{mutex_};
  ++marks_[std::string{id}];
}

std::uint64_t counting_tracer::events(std::string_view id) const {
  const std::lock_guard lock{mutex_};
  const auto at = events_.find(id);
  return at == events_.end() ? 0 : at->second;
}

std::uint64_t counting_tracer::marks(std::string_view id) const {
  const std::lock_guard lock{mutex_};
  const auto at = marks_.find(id);
  return at == marks_.end() ? 0 : at->second;
}

std::map<std::string, std::uint64_t> counting_tracer::all_events() const {
  const std::lock_guard lock{mutex_};
  return {events_.begin(), events_.end()};
}

std::map<std::string, std::uint64_t> counting_tracer::all_marks() const {
  const std::lock_guard lock{mutex_};
  return {marks_.begin(), marks_.end()};
}

result<std::unique_ptr<tracer>> make_jsonl_tracer(storage_port& storage, clock_port& clock,
                                                  const std::string& path) {
  auto file = storage.create(path);
  if (!file)
    return std::move(file.error());
  return std::unique_ptr<tracer>{new jsonl_tracer{clock, std::move(*file)}};
}

std::unique_ptr<tracer> make_fan_out_tracer(std::vector<std::unique_ptr<tracer>> sinks) {
  return std::make_unique<fan_out_tracer>(std::move(sinks));
}

std::unique_ptr<tracer> make_kill_at_mark_tracer(std::string mark, int nth) {
  return std::make_unique<signal_tracer>(std::move(mark), nth, SIGKILL);
}

std::unique_ptr<tracer> make_stop_at_mark_tracer(std::string mark, int nth) {
  return std::make_unique<signal_tracer>(std::move(mark), nth, SIGSTOP);
}

} // namespace troupe
