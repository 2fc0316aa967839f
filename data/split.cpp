#include <troupe/data/split.hpp>

#include <algorithm>
#include <numeric>
#include <string>

#include <troupe/core/error.hpp>
#include <troupe/data/detail/dataset_access.hpp>
#include <troupe/data/detail/node.hpp>

namespace troupe {

namespace {

constexpr std::int64_t group_max = 1 << 20; // replicas; keeps W * R and the lists small
constexpr std::int64_t weighted_rows_max = (std::int64_t{1} << 31) - 1;

void require_within(const char* what, std::int64_t x, std::int64_t min, std::int64_t max) {
  if (x < min || x > max)
    throw_failure(errc::invalid_argument, "split: " + std::string{what} + " is " + std::to_string(x)
                                            + ", expected " + std::to_string(min) + " to "
                                            + std::to_string(max));
}

} // namespace

std::int64_t replicas_per_worker(std::int64_t replicas, std::int64_t workers) {
  require_within("workers", workers, 1, group_max);
  require_within("replicas", replicas, 1, group_max);
  if (replicas % workers != 0)
    throw_failure(errc::invalid_argument,
                  "split: " + std::to_string(replicas) + " replicas on " + std::to_string(workers)
                    + " workers: every worker must have the same number of replicas");
  return replicas / workers;
}

std::vector<std::int64_t> stream_split_sizes(std::int64_t global_rows, std::int64_t workers,
                                             std::int64_t replicas_each, std::int64_t worker) {
  require_within("global batch", global_rows, 0, INT64_MAX);
  require_within("workers", workers, 1, group_max);
  require_within("replicas of a worker", replicas_each, 1, group_max / workers);
  require_within("worker", worker, 0, workers - 1);
  auto n = workers * replicas_each;
  std::vector<std::int64_t> out(static_cast<std::size_t>(n), global_rows / n);
  for (std::int64_t i = 0; i < global_rows % n; ++i)
    ++out[static_cast<std::size_t>(i)];
  std::rotate(out.begin(), out.begin() + worker * replicas_each, out.end());
  return out;
}

std::vector<std::int64_t> even_split_sizes(std::int64_t rows, std::int64_t pieces) {
  require_within("rows", rows, 0, INT64_MAX);
  require_within("pieces", pieces, 1, group_max);
  auto size = rows / pieces + (rows % pieces == 0 ? 0 : 1);
  std::vector<std::int64_t> out(static_cast<std::size_t>(pieces), 0);
  for (auto& x : out) {
    x = std::min(size, rows);
    rows -= x;
  }
  return out;
}

std::vector<std::int64_t> weighted_split_sizes(std::int64_t rows,
                                               std::span<const std::uint32_t> weights) {
  require_within("rows", rows, 0, weighted_rows_max);
  require_within("weights", static_cast<std::int64_t>(weights.size()), 1, group_max);
  auto total = std::accumulate(weights.begin(), weights.end(), std::uint64_t{0});
  if (total == 0)
    throw_failure(errc::invalid_argument,
                  "split: all " + std::to_string(weights.size()) + " weights are 0");
  std::vector<std::int64_t> out(weights.size());
  std::vector<std::uint64_t> left_over(weights.size());
  auto rest = rows;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    auto share = static_cast<std::uint64_t>(rows) * weights[i]; // below 2^63
    out[i] = static_cast<std::int64_t>(share / total);
    left_over[i] = share % total;
    rest -= out[i];
  }
  std::vector<std::size_t> order(weights.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return left_over[a] > left_over[b]; });
  for (std::int64_t i = 0; i < rest; ++i)
    ++out[order[static_cast<std::size_t>(i)]];
  return out;
}

std::int64_t static_batch_size(const dataset& data) {
  return detail::dataset_access::node(data)->batch_rows();
}

std::int64_t static_batch_size(const dataset& data, data_context context) {
  detail::open_context opening{context.storage, std::vector<std::uint64_t>{}};
  const auto known = detail::dataset_access::node(data)->known_rows(opening);
  return known > 0 ? known : static_batch_size(data);
}

} // namespace troupe
