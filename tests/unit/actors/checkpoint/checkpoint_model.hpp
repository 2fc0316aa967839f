#pragma once

#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <troupe/actors/checkpoint/checkpoint_format.hpp>

#include "../../../support/fake_storage.hpp"

/// A small model for tests of checkpoints. It is known by its stamp: every element follows from
/// (stamp, variable, part, row, column), so that a mix of two saves shows in any element.
namespace troupe::testing {

struct variable_plan {
  const char* name;
  shape_t shape;
  std::vector<std::string> parts;
};

inline const std::vector<variable_plan>& plans() {
  static const std::vector<variable_plan> all = {
    {"dense/w", {7, 3}, {"value", "m", "v"}},
    {"embedding", {13}, {"value", "accumulator"}},
    {"bias", {}, {"value"}},
    {"empty", {0, 4}, {"value"}},
  };
  return all;
}

inline tensor rows_of_model(int stamp, std::size_t variable, std::size_t part, std::int64_t begin,
                            std::int64_t end) {
  auto shape = plans()[variable].shape;
  if (!shape.empty())
    shape[0] = end - begin;
  tensor out{dtype::f32, shape};
  auto xs = out.mutable_as<float>();
  const auto columns = shape.size() < 2 ? std::int64_t{1} : shape[1];
  for (std::size_t i = 0; i < xs.size(); ++i)
    xs[i] = static_cast<float>(stamp) * 10000.0f + static_cast<float>(variable * 3000 + part * 1000)
            + static_cast<float>(begin * columns) + static_cast<float>(i);
  return out;
}

/// Cuts `rows` into `shards` runs, the first ones a row longer where it does not divide.
inline std::vector<std::pair<std::int64_t, std::int64_t>> split(std::int64_t rows,
                                                                std::int64_t shards) {
  std::vector<std::pair<std::int64_t, std::int64_t>> out;
  std::int64_t at = 0;
  for (std::int64_t s = 0; s < shards; ++s) {
    const auto count = rows / shards + (s < rows % shards ? 1 : 0);
    out.emplace_back(at, at + count);
    at += count;
  }
  return out;
}

inline std::int64_t rows_in(const shape_t& shape) { return shape.empty() ? 1 : shape[0]; }

/// Shard by shard, all parts of each, as servers hand them in. Stops at the first failure.
inline result<std::string> save_model(checkpoint_writer& writer, int stamp, std::int64_t shards) {
  if (auto done = writer.begin(); !done)
    return done.error();
  for (std::size_t v = 0; v < plans().size(); ++v) {
    const auto& plan = plans()[v];
    for (const auto& [begin, end] : split(rows_in(plan.shape), plan.shape.empty() ? 1 : shards))
      for (std::size_t p = 0; p < plan.parts.size(); ++p)
        if (auto done = writer.add_slice(plan.name, dtype::f32, plan.shape, plan.parts[p], begin,
                                         rows_of_model(stamp, v, p, begin, end));
            !done)
          return done.error();
    if (auto done = writer.set_steps(plan.name, static_cast<std::uint64_t>(stamp) * 100 + v,
                                     optimizer_kind::adam);
        !done)
      return done.error();
  }
  if (auto done = writer.set_extra("progress", "stamp " + std::to_string(stamp)); !done)
    return done.error();
  return writer.commit();
}

inline constexpr checkpoint_write_options small_files{.keep = 2,
                                                      .file_bytes_max = 128,
                                                      .piece_bytes_max = 40};

inline result<std::string> save(storage_port& disk, int stamp, std::int64_t shards = 2,
                                checkpoint_write_options options = small_files) {
  checkpoint_writer writer{disk, "ckpts", options};
  return save_model(writer, stamp, shards);
}

/// The stamp of a checkpoint whose every element is that stamp's; -1 and a failed check otherwise.
inline int stamp_of(const checkpoint_reader& reader, std::int64_t shards = 3) {
  auto progress = reader.extra("progress");
  REQUIRE(progress);
  const int stamp = std::stoi(progress->substr(6));
  bool same = reader.variables().size() == plans().size();
  for (std::size_t v = 0; v < plans().size() && same; ++v) {
    const auto& plan = plans()[v];
    const auto& variable = reader.variables()[v];
    same = variable.name == plan.name && variable.shape == plan.shape
           && variable.parts.size() == plan.parts.size()
           && variable.optimizer == optimizer_kind::adam
           && *reader.steps(plan.name) == static_cast<std::uint64_t>(stamp) * 100 + v;
    for (std::size_t p = 0; p < plan.parts.size() && same; ++p)
      for (const auto& [begin, end] : split(rows_in(plan.shape), plan.shape.empty() ? 1 : shards)) {
        auto rows = reader.read(plan.name, plan.parts[p], begin, end);
        same = same && rows && *rows == rows_of_model(stamp, v, p, begin, end);
      }
  }
  CHECK(same);
  return same ? stamp : -1;
}

inline int latest_stamp(storage_port& disk) {
  auto reader = checkpoint_reader::open_latest(disk, "ckpts");
  if (!reader) {
    CHECK(reader.error().code == errc::not_found);
    return 0;
  }
  return stamp_of(*reader);
}

/// Operations of one save on a disk that holds `before` saves.
inline std::uint64_t operations_of_a_save(int before) {
  fake_storage disk;
  for (int i = 1; i <= before; ++i)
    REQUIRE(save(disk, i));
  disk.heal();
  REQUIRE(save(disk, before + 1));
  return disk.operations();
}

inline std::string path_in(const std::string& generation, const std::string& file) {
  return "ckpts/" + generation + "/" + file;
}

} // namespace troupe::testing
