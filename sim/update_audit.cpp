#include <troupe/sim/update_audit.hpp>

#include <algorithm>

namespace troupe::sim {

namespace {

constexpr std::size_t lines_max = 8;

tensor rows_of(const audit_layout& layout, std::int64_t cell) {
  tensor out{dtype::i64, {layout.shards}};
  auto rows = out.mutable_as<std::int64_t>();
  for (std::int64_t s = 0; s < layout.shards; ++s)
    rows[static_cast<std::size_t>(s)] = s * layout.cells + cell;
  return out;
}

tensor filled(const audit_layout& layout, std::int64_t value) {
  tensor out{dtype::i64, {layout.shards, layout.width}};
  std::ranges::fill(out.mutable_as<std::int64_t>(), value);
  return out;
}

/// A cell's values over shards; nothing where a row's columns differ.
struct cell_values {
  std::int64_t lowest = INT64_MAX;
  std::int64_t highest = INT64_MIN;
  bool torn = false;
};

cell_values values_of(const audit_layout& layout, const tensor& of, std::int64_t cell) {
  cell_values out;
  auto all = of.as<std::int64_t>();
  for (std::int64_t s = 0; s < layout.shards; ++s) {
    auto row = all.subspan(static_cast<std::size_t>((s * layout.cells + cell) * layout.width),
                           static_cast<std::size_t>(layout.width));
    auto [low, high] = std::ranges::minmax(row);
    out.torn |= low != high;
    out.lowest = std::min(out.lowest, low);
    out.highest = std::max(out.highest, high);
  }
  return out;
}

} // namespace

void audit_add(const variable& counts, const audit_layout& layout, std::int64_t cell) {
  counts.scatter_add(rows_of(layout, cell), filled(layout, 1));
}

void audit_try(const variable& tries, const audit_layout& layout, std::int64_t cell,
               attempt_no attempt) {
  tries.scatter_update(rows_of(layout, cell),
                       filled(layout, static_cast<std::int64_t>(value_of(attempt))));
}

std::int64_t audit_board::take() {
  if (is_full())
    return -1;
  at(next_) = fate::open;
  return next_++;
}

std::int64_t audit_board::count(fate which) const { return std::ranges::count(cells_, which); }

void audit_board::count_every(std::int64_t every, std::int64_t rest, std::int64_t& finished,
                              std::int64_t& taken) const {
  for (auto cell = rest; cell < next_; cell += every) {
    auto is = cells_[static_cast<std::size_t>(cell)];
    finished += is == fate::finished ? 1 : 0;
    taken += is != fate::unused ? 1 : 0;
  }
}

std::vector<std::string> audit_board::compare(const tensor& counts, const tensor& tries) const {
  std::vector<std::string> out;
  auto wrong = [&](std::int64_t cell, const std::string& what) {
    if (out.size() < lines_max)
      out.push_back("cell " + std::to_string(cell) + ": " + what);
  };
  for (std::int64_t cell = 0; cell < layout_.cells; ++cell) {
    auto is = cells_[static_cast<std::size_t>(cell)];
    auto n = values_of(layout_, counts, cell);
    auto t = values_of(layout_, tries, cell);
    auto text = std::to_string(n.lowest) + " to " + std::to_string(n.highest);
    if (n.torn || t.torn)
      wrong(cell, "half a push was applied");
    if (n.highest > 1)
      wrong(cell, "doubled, " + text + " over the shards");
    if (is == fate::finished && n.lowest < 1)
      wrong(cell, "finished and lost, " + text + " over the shards");
    if (is == fate::whole && n.lowest != n.highest)
      wrong(cell, "a part of a closure is in a checkpoint, " + text + " over the shards");
    if (is == fate::whole
        && ((n.highest >= 1) != (t.highest >= 1)
            || t.lowest < std::min<std::int64_t>(t.highest, 1)))
      wrong(cell, "some operations of a closure are in a checkpoint and others are not");
    if (is == fate::finished && t.lowest < 1)
      wrong(cell, "finished, and no attempt's number on some shard");
    if (is == fate::unused && (n.highest != 0 || t.highest != 0))
      wrong(cell, "an effect of what was never accepted");
    if (n.lowest < 0 || t.lowest < 0)
      wrong(cell, "below 0");
  }
  return out;
}

void audit_board::learn(const audit_board& now) {
  for (std::size_t i = 0; i < cells_.size(); ++i)
    if (cells_[i] == fate::open && now.cells_[i] == fate::finished)
      cells_[i] = fate::whole;
}

void audit_board::reopened() {
  for (auto& cell : cells_)
    if (cell == fate::open)
      cell = fate::unfinished;
}

} // namespace troupe::sim
