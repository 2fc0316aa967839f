#include <troupe/strategies/sharding/partitioner.hpp>

#include <algorithm>

namespace troupe {

namespace {

std::int64_t at_least_one(const char* what, const char* field, std::int64_t value) {
  if (value < 1)
    throw_failure(errc::invalid_argument, std::string{what} + ": " + field + " is "
                                            + std::to_string(value) + ", must be at least 1");
  return value;
}

// Rows to cut, after the checks that all partitioners share.
std::int64_t rows_of(const std::string& who, const shape_t& shape, dtype type) {
  if (shape.empty())
    throw_failure(errc::invalid_argument, who + ": a scalar has no axis 0 to partition");
  if (!is_sane(shape, type))
    throw_failure(errc::invalid_argument, who + ": shape " + to_string(shape) + " of "
                                            + to_string(type) + " is negative or too large");
  return shape[0];
}

std::int64_t bytes_of(const shape_t& shape, dtype type) {
  return count_of(shape) * static_cast<std::int64_t>(size_of(type));
}

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return a / b + (a % b != 0 ? 1 : 0);
}

std::vector<std::int64_t> along_axis_0(const shape_t& shape, std::int64_t parts) {
  std::vector<std::int64_t> out(shape.size(), 1);
  out[0] = std::max<std::int64_t>(1, parts);
  return out;
}

std::string call_text(const char* name, std::initializer_list<std::string> args) {
  std::string out = std::string{name} + "(";
  const char* separator = "";
  for (const auto& arg : args) {
    out += separator + arg;
    separator = ", ";
  }
  return out + ")";
}

} // namespace

// --- partitioners -----------------------------------------------------------------------------

fixed_shards_partitioner::fixed_shards_partitioner(std::int64_t shards)
  : shards_{at_least_one("fixed_shards_partitioner", "shards", shards)} {}

std::vector<std::int64_t> fixed_shards_partitioner::operator()(const shape_t& shape,
                                                               dtype type) const {
  return along_axis_0(shape, std::min(shards_, rows_of(describe(), shape, type)));
}

std::string fixed_shards_partitioner::describe() const {
  return call_text("fixed_shards_partitioner", {std::to_string(shards_)});
}

min_size_partitioner::min_size_partitioner(std::int64_t min_shard_bytes, std::int64_t max_shards,
                                           std::int64_t bytes_per_string)
  : min_shard_bytes_{at_least_one("min_size_partitioner", "min_shard_bytes", min_shard_bytes)},
    max_shards_{at_least_one("min_size_partitioner", "max_shards", max_shards)} {
  at_least_one("min_size_partitioner", "bytes_per_string", bytes_per_string);
}

std::vector<std::int64_t> min_size_partitioner::operator()(const shape_t& shape, dtype type) const {
  auto rows = rows_of(describe(), shape, type);
  auto wanted = ceil_div(bytes_of(shape, type), min_shard_bytes_);
  return along_axis_0(shape, std::min({rows, max_shards_, wanted}));
}

std::string min_size_partitioner::describe() const {
  return call_text("min_size_partitioner",
                   {std::to_string(min_shard_bytes_), std::to_string(max_shards_)});
}

max_size_partitioner::max_size_partitioner(std::int64_t max_shard_bytes,
                                           std::optional<std::int64_t> max_shards,
                                           std::int64_t bytes_per_string)
  : max_shard_bytes_{at_least_one("max_size_partitioner", "max_shard_bytes", max_shard_bytes)},
    max_shards_{max_shards} {
  if (max_shards_)
    at_least_one("max_size_partitioner", "max_shards", *max_shards_);
  at_least_one("max_size_partitioner", "bytes_per_string", bytes_per_string);
}

std::vector<std::int64_t> max_size_partitioner::operator()(const shape_t& shape, dtype type) const {
  auto rows = rows_of(describe(), shape, type);
  auto total = bytes_of(shape, type);
  if (total == 0)
    return along_axis_0(shape, 1);
  auto rows_per_shard = std::max<std::int64_t>(1, max_shard_bytes_ / (total / rows));
  auto shards = ceil_div(rows, rows_per_shard);
  return along_axis_0(shape, max_shards_ ? std::min(shards, *max_shards_) : shards);
}

std::string max_size_partitioner::describe() const {
  return call_text("max_size_partitioner", {std::to_string(max_shard_bytes_),
                                            max_shards_ ? std::to_string(*max_shards_) : "none"});
}

// --- plans ------------------------------------------------------------------------------------

std::vector<row_range> shard_rows(std::int64_t rows, std::int64_t n) {
  at_least_one("shard_rows", "n", n);
  if (rows < 0)
    throw_failure(errc::invalid_argument, "shard_rows: rows is " + std::to_string(rows));
  const auto base = rows / n;
  const auto extra = rows % n;
  std::vector<row_range> out;
  out.reserve(static_cast<std::size_t>(n));
  std::int64_t begin = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    auto end = begin + base + (i < extra ? 1 : 0);
    out.push_back({begin, end});
    begin = end;
  }
  return out;
}

result<std::int64_t> shard_count(const shape_t& shape, dtype type, const partitioner* how) {
  if (how == nullptr || !*how || shape.empty())
    return std::int64_t{1};
  auto parts = (*how)(shape, type);
  auto refuse = [&](const std::string& why) {
    return make_failure(errc::invalid_argument, how->name() + " gave " + to_string(parts)
                                                  + " for shape " + to_string(shape) + ": " + why);
  };
  if (parts.empty())
    return refuse("the number of parts is missing");
  if (parts.size() > shape.size())
    return refuse("the result has more axes than the variable");
  if (parts[0] < 1)
    return refuse("axis 0 needs at least 1 part");
  if (std::any_of(parts.begin() + 1, parts.end(), [](auto n) { return n != 1; }))
    return refuse("only axis 0 may be partitioned");
  return std::max<std::int64_t>(1, std::min(parts[0], shape[0]));
}

result<std::vector<shard_spec>> plan_shards(const shape_t& shape, dtype type,
                                            const partitioner* how, placement_policy& where,
                                            std::uint32_t servers) {
  if (servers == 0)
    return make_failure(errc::invalid_argument, "plan_shards: servers is 0");
  if (!is_sane(shape, type))
    return make_failure(errc::invalid_argument, "variable: shape " + to_string(shape) + " of "
                                                  + to_string(type) + " is negative or too large");
  auto n = shard_count(shape, type, how);
  if (!n)
    return n.error();
  const auto rows = shape.empty() ? 1 : shape[0];
  const auto row_bytes = rows == 0 ? 0 : bytes_of(shape, type) / rows;
  std::vector<shard_spec> out;
  for (auto range : shard_rows(rows, *n)) {
    auto server = where.next(servers, static_cast<std::uint64_t>(range.size() * row_bytes));
    out.push_back({range.begin, range.end, server});
  }
  return out;
}

std::vector<shard_spec> plan_colocated(const shape_t& shape, std::uint32_t server) {
  return {{0, shape.empty() ? 1 : shape[0], server}};
}

} // namespace troupe
