#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include <troupe/core/environment.hpp>
#include <troupe/sim/names.hpp>

namespace troupe::sim {

/// A traced event of a process, or of the world itself (ids that begin with "sim.").
struct observed {
  time_point at{}; ///< the world's time
  node_name node{};
  std::uint32_t start = 0;  ///< which process of that machine, from 1
  std::uint64_t number = 0; ///< of all events, from 1
  std::string_view id{};
  std::span<const trace_field> fields{};

  /// The field of that name; null when there is none.
  const trace_field* find(std::string_view key) const {
    for (const auto& f : fields)
      if (f.key == key)
        return &f;
    return nullptr;
  }
  /// An integer field; `otherwise` when it is missing or of another kind.
  std::int64_t integer(std::string_view key, std::int64_t otherwise = 0) const {
    const auto* f = find(key);
    if (!f)
      return otherwise;
    if (const auto* x = std::get_if<std::int64_t>(&f->value))
      return *x;
    if (const auto* x = std::get_if<std::uint64_t>(&f->value))
      return static_cast<std::int64_t>(*x);
    return otherwise;
  }
  std::string_view text(std::string_view key) const {
    const auto* f = find(key);
    const auto* x = f ? std::get_if<std::string_view>(&f->value) : nullptr;
    return x ? *x : std::string_view{};
  }
};

/// Sees the run's traced events. Must not change anything but itself; `world::fail` ends the run.
class observer {
public:
  virtual ~observer() = default;
  virtual void on_event(const observed& what) = 0;
  virtual void on_mark(const node_name&, std::string_view) {}
};

} // namespace troupe::sim
