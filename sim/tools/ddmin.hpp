#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace troupe::sim {

/// A smallest part of `items`, in order, for which `fails` still holds: no single one of its items
/// can be left out. `fails(items)` is taken for granted. When `fails` is false because its budget
/// is spent, the smallest part found so far is the result.
///
/// Cost: O(log n) calls for one needed item, O(n^2) at worst. Source: Zeller and Hildebrandt 2002,
/// "Simplifying and isolating failure-inducing input".
template <class T, class Fails>
std::vector<T> ddmin(std::vector<T> items, Fails&& fails) {
  if (items.empty() || fails(std::vector<T>{}))
    return {};
  std::size_t parts = 2;
  while (items.size() >= 2) {
    parts = std::min(parts, items.size());
    bool smaller = false;
    for (std::size_t i = 0; i < parts && !smaller; ++i) {
      auto begin = items.begin() + static_cast<std::ptrdiff_t>(items.size() * i / parts);
      auto end = items.begin() + static_cast<std::ptrdiff_t>(items.size() * (i + 1) / parts);
      std::vector<T> part(begin, end);
      std::vector<T> rest(items.begin(), begin);
      rest.insert(rest.end(), end, items.end());
      if (fails(std::as_const(part))) {
        items = std::move(part);
        parts = 2;
        smaller = true;
      } else if (parts > 2 && fails(std::as_const(rest))) {
        items = std::move(rest);
        parts = std::max<std::size_t>(parts - 1, 2);
        smaller = true;
      }
    }
    if (smaller)
      continue;
    if (parts == items.size())
      break;
    parts *= 2;
  }
  return items;
}

} // namespace troupe::sim
