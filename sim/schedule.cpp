#include <troupe/sim/schedule.hpp>

#include <algorithm>
#include <unordered_map>

#include <troupe/sim/draws.hpp>

namespace troupe::sim {

namespace {

class fifo_schedule final : public schedule {
public:
  std::size_t pick(const choices& among) override { return among.oldest(); }
};

class random_schedule final : public schedule {
public:
  explicit random_schedule(std::uint64_t seed) : draws_{seed, "schedule"} {}
  std::size_t pick(const choices& among) override {
    return static_cast<std::size_t>(draws_.below(among.size()));
  }

private:
  draw_stream draws_;
};

class pct_schedule final : public schedule {
public:
  pct_schedule(std::uint64_t seed, std::uint32_t changes, std::uint64_t steps)
    : priorities_{seed, "pct.priority"} {
    draw_stream when{seed, "pct.change"};
    for (std::uint32_t i = 0; i < changes; ++i)
      changes_.push_back(when.below(steps));
    std::sort(changes_.begin(), changes_.end(), std::greater<>{});
  }
  std::size_t pick(const choices& among) override {
    std::size_t best = 0;
    std::uint64_t highest = 0;
    for (std::size_t i = 0; i < among.size(); ++i)
      if (auto p = priority_of(among.at(i)); i == 0 || p > highest) {
        best = i;
        highest = p;
      }
    if (!changes_.empty() && changes_.back() <= picks_) {
      changes_.pop_back();
      lowered_[key_of(among.at(best))] = --lowest_;
    }
    ++picks_;
    return best;
  }

private:
  static std::uint64_t key_of(const choice& c) {
    return derive_seed(c.machine * 8u + c.kind, c.kind == choice::timer ? 0 : c.task);
  }
  std::uint64_t priority_of(const choice& c) const {
    auto key = key_of(c);
    if (auto at = lowered_.find(key); at != lowered_.end())
      return at->second;
    return (std::uint64_t{1} << 32) + (priorities_.value(key) >> 1); // above all lowered ones
  }
  draw_stream priorities_;
  std::vector<std::uint64_t> changes_{}; // the next one last
  std::unordered_map<std::uint64_t, std::uint64_t> lowered_{};
  std::uint64_t lowest_ = std::uint64_t{1} << 32;
  std::uint64_t picks_ = 0;
};

class replay_schedule final : public schedule {
public:
  explicit replay_schedule(std::vector<std::uint32_t> picks) : picks_{std::move(picks)} {}
  std::size_t pick(const choices& among) override {
    auto recorded = at_ < picks_.size() ? picks_[at_++] : fifo_pick;
    return recorded < among.size() ? recorded : among.oldest();
  }

private:
  std::vector<std::uint32_t> picks_;
  std::size_t at_ = 0;
};

} // namespace

std::unique_ptr<schedule> make_fifo_schedule() { return std::make_unique<fifo_schedule>(); }

std::unique_ptr<schedule> make_random_schedule(std::uint64_t seed) {
  return std::make_unique<random_schedule>(seed);
}

std::unique_ptr<schedule> make_pct_schedule(std::uint64_t seed, std::uint32_t changes,
                                            std::uint64_t steps) {
  return std::make_unique<pct_schedule>(seed, changes, steps);
}

std::unique_ptr<schedule> make_replay_schedule(std::vector<std::uint32_t> picks) {
  return std::make_unique<replay_schedule>(std::move(picks));
}

} // namespace troupe::sim
