#include <troupe/data/detail/held_rows.hpp>

#include <algorithm>

#include <troupe/core/error.hpp>

namespace troupe::detail {

namespace {

/// Throws unless every part has as many rows.
std::int64_t rows_of(const element& x) {
  if (x.empty())
    throw_failure(errc::invalid_argument, "input: an element without parts cannot be divided");
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (x[i].rank() == 0)
      throw_failure(errc::invalid_argument, "input: part " + std::to_string(i) + " is "
                                              + to_string(x[i].type())
                                              + "[] and has no batch dimension to divide among "
                                                "replicas; batch the dataset first");
    if (x[i].rows() != x[0].rows())
      throw_failure(errc::shape_mismatch, "input: part " + std::to_string(i) + " has "
                                            + std::to_string(x[i].rows()) + " rows, part 0 has "
                                            + std::to_string(x[0].rows()));
  }
  return x[0].rows();
}

element rows_between(const element& x, std::int64_t begin, std::int64_t end) {
  std::vector<tensor> parts;
  for (const auto& part : x)
    parts.push_back(part.rows(begin, end));
  return element{std::move(parts)};
}

element joined(const std::vector<element>& pieces) {
  if (pieces.size() == 1)
    return pieces[0];
  std::vector<tensor> parts;
  for (std::size_t part = 0; part < pieces[0].size(); ++part) {
    std::vector<tensor> rows;
    for (const auto& x : pieces) {
      if (x.size() != pieces[0].size())
        throw_failure(errc::shape_mismatch, "input: a batch has " + std::to_string(x.size())
                                              + " parts, the one before "
                                              + std::to_string(pieces[0].size()));
      rows.push_back(x[part]);
    }
    parts.push_back(concatenate(rows));
  }
  return element{std::move(parts)};
}

} // namespace

bool held_rows::pull() {
  for (;;) {
    auto position = from_.save_position();
    auto x = from_.try_next();
    if (!x)
      return false;
    auto rows = rows_of(*x);
    if (rows == 0)
      continue; // nothing to hand out
    held_.push_back({std::move(*x), rows, 0, std::move(position)});
    rows_held_ += rows;
    return true;
  }
}

std::int64_t held_rows::want(std::int64_t count) {
  while (rows_held_ < count && pull()) {
  }
  return std::min(count, rows_held_);
}

std::int64_t held_rows::want_batch() {
  if (held_.empty() && !pull())
    return 0;
  return held_.front().rows - held_.front().gone;
}

element held_rows::take(std::int64_t count) {
  std::vector<element> pieces;
  while (count > 0) {
    auto& front = held_.front();
    auto n = std::min(count, front.rows - front.gone);
    pieces.push_back(n == front.rows ? front.data
                                     : rows_between(front.data, front.gone, front.gone + n));
    drop(n);
    count -= n;
  }
  return joined(pieces);
}

void held_rows::drop(std::int64_t count) {
  rows_gone_ += static_cast<std::uint64_t>(count);
  rows_held_ -= count;
  while (count > 0) {
    auto& front = held_.front();
    auto n = std::min(count, front.rows - front.gone);
    front.gone += n;
    count -= n;
    if (front.gone == front.rows)
      held_.pop_front();
  }
}

std::optional<element> held_rows::take_whole() {
  auto out = from_.try_next();
  if (out)
    rows_gone_ +=
      out->empty() || (*out)[0].rank() == 0 ? 1 : static_cast<std::uint64_t>((*out)[0].rows());
  return out;
}

void held_rows::start_pass(std::uint64_t pass) {
  from_.start_pass(pass);
  held_.clear();
  rows_held_ = 0;
  rows_gone_ = 0;
}

void held_rows::save(position_out& out) const {
  out.put(rows_gone_);
  out.put(held_.empty() ? 0 : static_cast<std::uint64_t>(held_.front().gone));
  out.put(held_.size());
  out.put_bytes(held_.empty() ? from_.save_position() : held_.front().position);
}

void held_rows::load(position_in& in) {
  auto rows_gone = in.take("rows", UINT64_MAX);
  auto gone = in.take("rows of a batch", INT64_MAX);
  auto batches = in.take("batches", UINT64_MAX);
  from_.restore_position(in.take_bytes("iterator position"));
  held_.clear();
  rows_held_ = 0;
  while (held_.size() < batches)
    if (!pull())
      throw_failure(errc::corrupt, "dataset position: " + std::to_string(batches)
                                     + " batches are held, but only " + std::to_string(held_.size())
                                     + " follow");
  if (gone > 0 && (held_.empty() || static_cast<std::int64_t>(gone) >= held_.front().rows))
    throw_failure(errc::corrupt, "dataset position: " + std::to_string(gone)
                                   + " rows of a batch of "
                                   + std::to_string(held_.empty() ? 0 : held_.front().rows));
  drop(static_cast<std::int64_t>(gone));
  rows_gone_ = rows_gone;
}

} // namespace troupe::detail
