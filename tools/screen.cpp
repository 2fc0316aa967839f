#include "screen.hpp"

#include <chrono>
#include <cstdio>

#include <sys/ioctl.h>
#include <unistd.h>

namespace tool {

namespace {

constexpr double bar_period_s = 0.2;
constexpr double line_period_s = 3.0;
constexpr double rate_window_s = 2.0;

std::size_t terminal_columns() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    return size.ws_col;
  return 80;
}

} // namespace

screen::screen(std::uint32_t batch_size)
  : batch_size_{batch_size}, terminal_{::isatty(STDOUT_FILENO) == 1}, begin_{now()} {}

screen::~screen() { close(); }

double screen::now() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double screen::recent_rate(double seconds, std::uint64_t steps) {
  samples_.push_back({seconds, steps});
  while (samples_.size() > 2 && samples_[1].seconds <= seconds - rate_window_s)
    samples_.pop_front();
  const auto& first = samples_.front();
  return seconds > first.seconds ? double(steps - first.steps) / (seconds - first.seconds) : 0;
}

void screen::progress(std::uint64_t steps, double fraction, double loss) {
  const double seconds = now() - begin_;
  if (loss > 0) {
    loss_sum_ += loss;
    ++losses_;
  }
  const double rate = recent_rate(seconds, steps);
  const bool last = fraction >= 1 && !finished_;
  finished_ = fraction >= 1;
  if (seconds < next_ && !last)
    return;
  next_ = seconds + (terminal_ ? bar_period_s : line_period_s);
  const progress_state x{.steps = steps,
                         .fraction = fraction,
                         .loss = losses_ == 0 ? last_loss_ : loss_sum_ / double(losses_),
                         .seconds = seconds,
                         .steps_per_s = rate,
                         .batch_size = batch_size_};
  last_loss_ = x.loss;
  loss_sum_ = 0;
  losses_ = 0;
  if (terminal_)
    std::printf("\r\033[K%s", progress_bar(x, terminal_columns() - 1).c_str());
  else
    std::printf("%s\n", progress_text(x).c_str());
  drawn_ = terminal_;
  std::fflush(stdout);
}

void screen::say(const std::string& line) {
  std::printf("%s%s\n", terminal_ ? "\r\033[K" : "", line.c_str());
  drawn_ = false;
  std::fflush(stdout);
}

void screen::close() {
  if (drawn_)
    std::printf("\n");
  drawn_ = false;
  std::fflush(stdout);
}

} // namespace tool
