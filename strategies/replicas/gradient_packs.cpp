#include <troupe/strategies/replicas/gradient_packs.hpp>

#include <algorithm>
#include <numeric>
#include <string>

namespace troupe {

namespace {

constexpr std::int64_t num_packs_max = 65'536;

failure refused(const std::string& text) {
  return make_failure(errc::invalid_argument, "gradient packs: " + text);
}

result<std::vector<gradient_pack>> group(const gradient_pack& order,
                                         std::span<const std::optional<std::uint64_t>> sizes_bytes,
                                         std::int64_t bytes_per_pack) {
  if (bytes_per_pack < 0)
    return refused("bytes_per_pack is " + std::to_string(bytes_per_pack)
                   + ", must not be negative");
  if (order.empty())
    return std::vector<gradient_pack>{};
  const auto is_known = [](const auto& size) { return size.has_value(); };
  if (bytes_per_pack == 0 || !std::all_of(sizes_bytes.begin(), sizes_bytes.end(), is_known))
    return std::vector<gradient_pack>{order};
  const auto full = static_cast<std::uint64_t>(bytes_per_pack);
  std::vector<gradient_pack> out;
  std::uint64_t held = full;
  for (auto tensor : order) {
    if (held >= full) {
      out.emplace_back();
      held = 0;
    }
    out.back().push_back(tensor);
    held += std::min(full - held, *sizes_bytes[tensor]); // stops at full, so it never overflows
  }
  return out;
}

gradient_pack first_to_last(std::size_t n) {
  gradient_pack out(n);
  std::iota(out.begin(), out.end(), std::size_t{0});
  return out;
}

std::vector<gradient_part> one_part_each(std::span<const std::uint64_t> counts) {
  std::vector<gradient_part> out;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    out.push_back({counts[i], {}});
    if (counts[i] > 0)
      out.back().segments.push_back({i, 0, counts[i]});
  }
  return out;
}

result<std::uint64_t> sum_of(std::span<const std::uint64_t> counts) {
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < counts.size(); ++i)
    if (__builtin_add_overflow(total, counts[i], &total))
      return refused("tensor " + std::to_string(i) + " has " + std::to_string(counts[i])
                     + " elements, the sum is over 64 bits");
  return total;
}

} // namespace

result<std::vector<gradient_pack>> group_by_bytes(
  std::span<const std::optional<std::uint64_t>> sizes_bytes, std::int64_t bytes_per_pack) {
  return group(first_to_last(sizes_bytes.size()), sizes_bytes, bytes_per_pack);
}

result<std::vector<gradient_pack>> plan_gradient_packs(
  std::span<const std::optional<std::uint64_t>> sizes_bytes, std::int64_t bytes_per_pack) {
  auto order = first_to_last(sizes_bytes.size());
  std::reverse(order.begin(), order.end());
  return group(order, sizes_bytes, bytes_per_pack);
}

result<std::vector<gradient_part>> plan_equal_parts(std::span<const std::uint64_t> counts,
                                                    std::int64_t num_packs) {
  if (num_packs < 0 || num_packs > num_packs_max)
    return refused("num_packs is " + std::to_string(num_packs) + ", must be from 0 to "
                   + std::to_string(num_packs_max));
  if (num_packs == 0)
    return one_part_each(counts);
  auto total = sum_of(counts);
  if (!total)
    return total.error();
  const auto parts = static_cast<std::uint64_t>(num_packs);
  std::vector<gradient_part> out;
  std::size_t tensor = 0;
  std::uint64_t begin = 0; // first element of `tensor` that no part has yet
  for (std::uint64_t i = 0; i < parts; ++i) {
    const auto last = i + 1 == parts;
    out.push_back({*total / parts + (last ? *total % parts : 0), {}});
    for (auto left = out.back().count; left > 0;) {
      const auto count = std::min(left, counts[tensor] - begin);
      if (count > 0)
        out.back().segments.push_back({tensor, begin, count});
      left -= count;
      begin += count;
      if (begin == counts[tensor]) {
        ++tensor;
        begin = 0;
      }
    }
  }
  return out;
}

namespace detail {

result<void> check_packs(std::span<const gradient_pack> packs, std::span<const std::size_t> sizes) {
  if (packs.size() != sizes.size())
    return refused("there are " + std::to_string(sizes.size()) + " packs of results, the plan has "
                   + std::to_string(packs.size()));
  std::vector<bool> seen(std::accumulate(sizes.begin(), sizes.end(), std::size_t{0}));
  for (std::size_t p = 0; p < packs.size(); ++p) {
    if (packs[p].size() != sizes[p])
      return refused("pack " + std::to_string(p) + " has " + std::to_string(sizes[p])
                     + " results, the plan has " + std::to_string(packs[p].size()));
    for (auto tensor : packs[p]) {
      if (tensor >= seen.size())
        return refused("pack " + std::to_string(p) + " has tensor " + std::to_string(tensor)
                       + ", there are " + std::to_string(seen.size()));
      if (seen[tensor])
        return refused("tensor " + std::to_string(tensor) + " is there twice");
      seen[tensor] = true;
    }
  }
  return {};
}

} // namespace detail

} // namespace troupe
