#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <troupe/sim/observer.hpp>

namespace troupe::sim {

/// A number and a word for every traced event of a run, to compare two runs of the same seed event
/// by event: they must be the same.
class event_log final : public observer {
public:
  void on_event(const observed& what) override;

  std::size_t size() const { return entries_.size(); }
  /// The first difference of two logs, in words; none when they agree.
  static std::optional<std::string> difference(const event_log& a, const event_log& b);

private:
  struct entry {
    std::uint64_t hash = 0;
    std::uint32_t name = 0; ///< in `names_`
    node_name node{};
    std::uint32_t start = 0;
    time_point at{};
  };
  std::uint32_t number_of(std::string_view name);
  std::string line(std::size_t at) const;

  std::vector<entry> entries_{};
  std::vector<std::string> names_{};
};

} // namespace troupe::sim
