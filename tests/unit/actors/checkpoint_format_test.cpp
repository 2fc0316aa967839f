#include <troupe/actors/checkpoint_format.hpp>

#include <doctest/doctest.h>

#include <set>
#include <string>
#include <vector>

#include "../fake_storage.hpp"

using namespace troupe;
using testing::choices;
using testing::fake_storage;

// Goal: a checkpoint is all or nothing and never lies. Method: saves of a small model on a disk
// that forgets, with a crash or an error at every single operation, and reads of every possible
// damage. A model is known by its stamp: every element follows from (stamp, variable, part, row,
// column), so that a mix of two saves shows in any element.

namespace {

struct variable_plan {
  const char* name;
  shape_t shape;
  std::vector<std::string> parts;
};

const std::vector<variable_plan>& plans() {
  static const std::vector<variable_plan> all = {
    {"dense/w", {7, 3}, {"value", "m", "v"}},
    {"embedding", {13}, {"value", "accumulator"}},
    {"bias", {}, {"value"}},
    {"empty", {0, 4}, {"value"}},
  };
  return all;
}

tensor rows_of_model(int stamp, std::size_t variable, std::size_t part, std::int64_t begin,
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
std::vector<std::pair<std::int64_t, std::int64_t>> split(std::int64_t rows, std::int64_t shards) {
  std::vector<std::pair<std::int64_t, std::int64_t>> out;
  std::int64_t at = 0;
  for (std::int64_t s = 0; s < shards; ++s) {
    const auto count = rows / shards + (s < rows % shards ? 1 : 0);
    out.emplace_back(at, at + count);
    at += count;
  }
  return out;
}

std::int64_t rows_in(const shape_t& shape) { return shape.empty() ? 1 : shape[0]; }

/// Shard by shard, all parts of each, as servers hand them in. Stops at the first failure.
result<std::string> save_model(checkpoint_writer& writer, int stamp, std::int64_t shards) {
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

constexpr checkpoint_write_options small_files{.keep = 2,
                                               .file_bytes_max = 128,
                                               .piece_bytes_max = 40};

result<std::string> save(storage_port& disk, int stamp, std::int64_t shards = 2,
                         checkpoint_write_options options = small_files) {
  checkpoint_writer writer{disk, "ckpts", options};
  return save_model(writer, stamp, shards);
}

/// The stamp of a checkpoint whose every element is that stamp's; -1 and a failed check otherwise.
int stamp_of(const checkpoint_reader& reader, std::int64_t shards = 3) {
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

int latest_stamp(storage_port& disk) {
  auto reader = checkpoint_reader::open_latest(disk, "ckpts");
  if (!reader) {
    CHECK(reader.error().code == errc::not_found);
    return 0;
  }
  return stamp_of(*reader);
}

/// Operations of one save on a disk that holds `before` saves.
std::uint64_t operations_of_a_save(int before) {
  fake_storage disk;
  for (int i = 1; i <= before; ++i)
    REQUIRE(save(disk, i));
  disk.heal();
  REQUIRE(save(disk, before + 1));
  return disk.operations();
}

std::string path_in(const std::string& generation, const std::string& file) {
  return "ckpts/" + generation + "/" + file;
}

} // namespace

TEST_CASE(
  "PS-Y1 checkpoint: four shards are one logical variable, and restore brings back what was "
  "saved") {
  fake_storage disk;
  checkpoint_writer writer{disk, "ckpts"};
  REQUIRE(writer.begin());
  for (std::int64_t shard : {2, 0, 3, 1}) // as the servers answer
    REQUIRE(writer.add_slice("v", dtype::f32, {4}, "value", shard,
                             tensor::vector<float>({static_cast<float>(shard)})));
  auto path = writer.commit();
  REQUIRE(path);
  CHECK(*path == "ckpts/ckpt-1");
  auto reader = checkpoint_reader::open_latest(disk, "ckpts");
  REQUIRE(reader);
  CHECK(reader->path() == *path);
  REQUIRE(reader->variables().size() == 1);
  CHECK(reader->variables()[0].shape == shape_t{4});
  // Shard 0 was set to 4 since; its rows come back as 0.
  CHECK(*reader->read("v", "value", 0, 1) == tensor::vector<float>({0}));
  CHECK(*reader->read("v", "value", 0, 4) == tensor::vector<float>({0, 1, 2, 3}));
}

TEST_CASE(
  "PS-Y3 PS-Y6 checkpoint: n shards with slots restore into m shards for all n and m up to 5") {
  for (std::int64_t n = 1; n <= 5; ++n) {
    fake_storage disk;
    REQUIRE(save(disk, static_cast<int>(n), n));
    auto reader = checkpoint_reader::open_latest(disk, "ckpts");
    REQUIRE(reader);
    CHECK(reader->refused().empty());
    for (std::int64_t m = 1; m <= 5; ++m) {
      CAPTURE(n);
      CAPTURE(m);
      CHECK(stamp_of(*reader, m) == n);
    }
  }
}

TEST_CASE("checkpoint: any row range can be read, whatever the pieces") {
  fake_storage disk;
  REQUIRE(save(disk, 4, 3));
  auto reader = checkpoint_reader::open_latest(disk, "ckpts");
  REQUIRE(reader);
  for (std::int64_t begin = 0; begin <= 13; ++begin)
    for (std::int64_t end = begin; end <= 13; ++end)
      CHECK(*reader->read("embedding", "accumulator", begin, end)
            == rows_of_model(4, 1, 1, begin, end));
  CHECK(reader->read("bias", "value", 0, 1)->shape().empty());
}

TEST_CASE("checkpoint: slots may have another type than the value") {
  fake_storage disk;
  checkpoint_writer writer{disk, "ckpts"};
  REQUIRE(writer.begin());
  const auto value = tensor::of<std::uint8_t>({2, 2}, {1, 2, 3, 4});
  const auto slot = tensor::of<double>({2, 2}, {0.5, 1.5, 2.5, 3.5});
  REQUIRE(writer.add_slice("v", dtype::u8, {2, 2}, "value", 0, value));
  REQUIRE(writer.add_slice("v", dtype::f64, {2, 2}, "m", 0, slot));
  REQUIRE(writer.commit());
  auto reader = checkpoint_reader::open_latest(disk, "ckpts");
  REQUIRE(reader);
  CHECK(*reader->read("v", "value", 0, 2) == value);
  CHECK(*reader->read("v", "m", 1, 2) == slot.rows(1, 2));
  CHECK(reader->variables()[0].parts[1].type == dtype::f64);
}

TEST_CASE("checkpoint: unknown names and rows out of range are errors that name them") {
  fake_storage disk;
  REQUIRE(save(disk, 1));
  auto reader = checkpoint_reader::open_latest(disk, "ckpts");
  REQUIRE(reader);
  const auto expect = [](const auto& r, errc code, const std::string& what) {
    REQUIRE_FALSE(r);
    CHECK(r.error().code == code);
    CHECK(r.error().text.find(what) != std::string::npos);
  };
  expect(reader->read("nobody", "value", 0, 1), errc::unknown_name, "nobody");
  expect(reader->read("bias", "momentum", 0, 1), errc::unknown_name, "momentum");
  expect(reader->read("embedding", "value", 0, 14), errc::out_of_range, "[0, 14)");
  expect(reader->read("embedding", "value", -1, 2), errc::out_of_range, "embedding");
  expect(reader->read("embedding", "value", 3, 2), errc::out_of_range, "embedding");
  expect(reader->steps("nobody"), errc::unknown_name, "nobody");
  expect(reader->extra("nothing"), errc::unknown_name, "nothing");
  CHECK(reader->find("nobody") == nullptr);
  expect(checkpoint_reader::open_latest(disk, "elsewhere"), errc::not_found, "elsewhere");
  REQUIRE(disk.make_directories("bare"));
  expect(checkpoint_reader::open_latest(disk, "bare"), errc::not_found, "bare");
}

TEST_CASE(
  "checkpoint: a save with rows missing, doubled or misshapen is refused and the one before "
  "stays") {
  fake_storage disk;
  REQUIRE(save(disk, 1));
  const auto x = [](std::int64_t rows) { return tensor::zeros(dtype::f32, {rows, 2}); };
  struct attempt {
    std::int64_t begin;
    std::int64_t rows;
  };
  const auto commit = [&](std::vector<attempt> slices) {
    checkpoint_writer writer{disk, "ckpts"};
    REQUIRE(writer.begin());
    for (const auto& a : slices)
      REQUIRE(writer.add_slice("w", dtype::f32, {5, 2}, "value", a.begin, x(a.rows)));
    return writer.commit();
  };
  for (const auto& [slices, text] : std::vector<std::pair<std::vector<attempt>, std::string>>{
         {{{0, 2}, {3, 2}}, "rows [2, 3) are missing"},
         {{{1, 4}}, "rows [0, 1) are missing"},
         {{{0, 4}}, "rows [4, 5) are missing"},
         {{{0, 3}, {2, 3}}, "rows [2, 3) stand there twice"},
         {{{0, 5}, {0, 5}}, "stand there twice"},
         {{{0, 0}}, "rows [0, 5) are missing"}}) {
    auto done = commit(slices);
    REQUIRE_FALSE(done);
    CHECK(done.error().code == errc::invalid_argument);
    CHECK(done.error().text.find("w/value") != std::string::npos);
    CHECK(done.error().text.find(text) != std::string::npos);
    CHECK(latest_stamp(disk) == 1);
  }
  CHECK(disk.list("ckpts")->size() == 1);
}

TEST_CASE(
  "checkpoint: slices that do not fit are refused by name, and so is all that follows until "
  "begin") {
  fake_storage disk;
  const auto rows = tensor::zeros(dtype::f32, {2, 2});
  const auto refused = [&](const std::string& name, dtype type, shape_t shape, std::int64_t begin,
                           const tensor& x) {
    checkpoint_writer writer{disk, "ckpts"};
    REQUIRE(writer.begin());
    REQUIRE(writer.add_slice("w", dtype::f32, {4, 2}, "value", 0, rows));
    auto bad = writer.add_slice(name, type, shape, "value", begin, x);
    REQUIRE_FALSE(bad);
    CHECK(bad.error().text.find(name) != std::string::npos);
    auto next = writer.commit();
    REQUIRE_FALSE(next);
    CHECK(next.error().text == bad.error().text);
    REQUIRE(writer.begin());
    REQUIRE(writer.add_slice("w", dtype::f32, {2, 2}, "value", 0, rows));
    CHECK(writer.commit());
    return bad.error().code;
  };
  CHECK(refused("w", dtype::f32, {4, 3}, 2, rows) == errc::shape_mismatch);
  CHECK(refused("w", dtype::f64, {4, 2}, 2, rows) == errc::dtype_mismatch);
  CHECK(refused("w", dtype::f32, {4, 2}, 3, rows) == errc::out_of_range);
  CHECK(refused("w", dtype::f32, {4, 2}, -1, rows) == errc::out_of_range);
  CHECK(refused("w", dtype::f32, {6, 2}, 2, rows) == errc::mismatch);
  CHECK(refused("w", dtype::f64, {4, 2}, 2, tensor::zeros(dtype::f64, {2, 2})) == errc::mismatch);
  CHECK(refused("", dtype::f32, {4, 2}, 2, rows) == errc::invalid_argument);
  CHECK(refused("w", dtype::f32, {-4, 2}, 2, rows) == errc::invalid_argument);
  CHECK(refused("w", dtype::f32, {4, 2}, 2, tensor{}) == errc::invalid_argument);
  checkpoint_writer idle{disk, "ckpts"};
  auto early = idle.add_slice("w", dtype::f32, {4, 2}, "value", 0, rows);
  REQUIRE_FALSE(early);
  CHECK(early.error().code == errc::wrong_state);
  CHECK(idle.commit().error().code == errc::wrong_state);
}

TEST_CASE("checkpoint: a variable with a step count and no slices is refused") {
  fake_storage disk;
  checkpoint_writer writer{disk, "ckpts"};
  REQUIRE(writer.begin());
  REQUIRE(writer.set_steps("ghost", 3));
  auto done = writer.commit();
  REQUIRE_FALSE(done);
  CHECK(done.error().text.find("ghost") != std::string::npos);
}

TEST_CASE("checkpoint: a crash at every operation of a save leaves the old one or the new one") {
  for (int before = 0; before <= 2; ++before) {
    const auto operations = operations_of_a_save(before);
    REQUIRE(operations > 20);
    std::set<int> seen;
    for (std::uint64_t at = 0; at <= operations; ++at)
      for (std::uint64_t seed = 0; seed < 8; ++seed) {
        fake_storage disk;
        for (int i = 1; i <= before; ++i)
          REQUIRE(save(disk, i));
        disk.crash_at(at);
        const auto done = save(disk, before + 1);
        disk.crash(seed * 1000 + at);
        CAPTURE(before);
        CAPTURE(at);
        CAPTURE(seed);
        const int stamp = latest_stamp(disk);
        seen.insert(stamp);
        if (done)
          CHECK(stamp == before + 1); // what commit said survives
        else
          CHECK((stamp == before || stamp == before + 1));
        // And the next save goes well and cleans up after this one.
        REQUIRE(save(disk, before + 2));
        CHECK(latest_stamp(disk) == before + 2);
        CHECK(disk.list("ckpts")->size() <= 2);
      }
    CHECK(seen == std::set<int>{before, before + 1}); // both outcomes were met
  }
}

TEST_CASE(
  "checkpoint: an error at every operation of a save is told, or harms nothing, and the one before "
  "stays") {
  const auto operations = operations_of_a_save(2);
  std::uint64_t told = 0;
  for (const auto code : {errc::no_space, errc::io_failed})
    for (std::uint64_t at = 0; at < operations; ++at) {
      fake_storage disk;
      REQUIRE(save(disk, 1));
      REQUIRE(save(disk, 2));
      disk.fail_at(at, code);
      CAPTURE(at);
      {
        checkpoint_writer writer{disk, "ckpts", small_files};
        const auto done = save_model(writer, 3, 2);
        disk.heal();
        if (done) {
          CHECK(latest_stamp(disk) == 3);
        } else {
          ++told;
          CHECK(done.error().code == code);
          CHECK(done.error().text.find("ckpts") != std::string::npos);
          CHECK(latest_stamp(disk) == 2);
        }
      }
      const auto names = *disk.list("ckpts");
      CHECK(std::find(names.begin(), names.end(), "ckpt-2") != names.end());
      disk.crash(at); // nothing of it comes back
      const int stamp = latest_stamp(disk);
      CHECK((stamp == 2 || stamp == 3));
      REQUIRE(save(disk, 4));
      CHECK(latest_stamp(disk) == 4);
    }
  CHECK(told > operations); // most operations of both rounds matter
}

TEST_CASE("checkpoint: failing to take old ones away is told beside, the checkpoint is good") {
  fake_storage disk;
  REQUIRE(save(disk, 1));
  REQUIRE(save(disk, 2));
  bool noted = false;
  for (std::uint64_t at = 0; at < operations_of_a_save(2); ++at) {
    fake_storage copy;
    REQUIRE(save(copy, 1));
    REQUIRE(save(copy, 2));
    copy.fail_at(at, errc::io_failed);
    checkpoint_writer writer{copy, "ckpts", small_files};
    if (save_model(writer, 3, 2) && writer.cleanup_failure()) {
      noted = true;
      CHECK(writer.cleanup_failure()->code == errc::io_failed);
      copy.heal();
      CHECK(latest_stamp(copy) == 3);
    }
  }
  CHECK(noted);
}

TEST_CASE("checkpoint: retention keeps the last k and takes left-overs away, and nothing else") {
  for (std::uint32_t keep : {1u, 2u, 4u}) {
    fake_storage disk;
    REQUIRE(disk.make_directories("ckpts/ckpt-7.tmp"));
    REQUIRE(disk.make_directories("ckpts/notes"));
    REQUIRE(disk.make_directories("ckpts/ckpt-x"));
    auto options = small_files;
    options.keep = keep;
    for (int i = 1; i <= 6; ++i)
      REQUIRE(save(disk, i, 2, options));
    std::set<std::string> expected{"ckpt-x", "notes"};
    for (std::uint32_t k = 0; k < keep; ++k) // numbers start above the left-over's
      expected.insert("ckpt-" + std::to_string(13 - k));
    const auto names = *disk.list("ckpts");
    CHECK(std::set<std::string>(names.begin(), names.end()) == expected);
    CHECK(latest_stamp(disk) == 6);
  }
}

TEST_CASE("checkpoint: a writer that goes without commit leaves nothing behind") {
  fake_storage disk;
  REQUIRE(save(disk, 1));
  const auto before = disk.files();
  {
    checkpoint_writer writer{disk, "ckpts", small_files};
    REQUIRE(writer.begin());
    REQUIRE(
      writer.add_slice("w", dtype::f32, {2, 2}, "value", 0, tensor::zeros(dtype::f32, {2, 2})));
    CHECK(disk.files() != before);
  }
  CHECK(disk.files() == before);
}

TEST_CASE("checkpoint: a flipped bit in any byte is refused by name and the one before is used") {
  fake_storage disk;
  REQUIRE(save(disk, 1));
  REQUIRE(save(disk, 2));
  std::size_t files = 0;
  for (const auto& path : disk.files()) {
    if (path.find("ckpt-2/") == std::string::npos)
      continue;
    ++files;
    const auto whole = disk.content(path);
    for (std::size_t at = 0; at < whole.size(); ++at) {
      auto bytes = whole;
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << (at % 8)));
      disk.set_content(path, bytes);
      auto reader = checkpoint_reader::open_latest(disk, "ckpts");
      REQUIRE(reader);
      CHECK(reader->path() == "ckpts/ckpt-1");
      REQUIRE(reader->refused().size() == 1);
      CHECK(reader->refused()[0].path == "ckpts/ckpt-2");
      CHECK(reader->refused()[0].why.code == errc::corrupt);
      CHECK(reader->refused()[0].why.text.find(path) != std::string::npos);
    }
    disk.set_content(path, whole);
    CHECK(latest_stamp(disk) == 2);
  }
  CHECK(files > 3);
}

TEST_CASE("checkpoint: without the check at the start, damaged rows are still never handed out") {
  fake_storage disk;
  REQUIRE(save(disk, 1));
  for (const auto& path : disk.files()) {
    if (path.find("data-") == std::string::npos)
      continue;
    const auto whole = disk.content(path);
    for (std::size_t at = 0; at < whole.size(); ++at) {
      auto bytes = whole;
      bytes[at] = static_cast<char>(bytes[at] ^ 0x10);
      disk.set_content(path, bytes);
      auto reader = checkpoint_reader::open_latest(disk, "ckpts", {.verify_data = false});
      REQUIRE(reader);
      int refused = 0;
      for (std::size_t v = 0; v < plans().size(); ++v)
        for (std::size_t p = 0; p < plans()[v].parts.size(); ++p)
          for (std::int64_t row = 0; row < rows_in(plans()[v].shape); ++row) {
            auto rows = reader->read(plans()[v].name, plans()[v].parts[p], row, row + 1);
            if (rows) {
              CHECK(*rows == rows_of_model(1, v, p, row, row + 1));
            } else {
              ++refused;
              CHECK(rows.error().code == errc::corrupt);
              CHECK(rows.error().text.find(path) != std::string::npos);
            }
          }
      CHECK(refused >= 1);
    }
    disk.set_content(path, whole);
  }
}

TEST_CASE("checkpoint: a bit that flips on the way from the disk is found at every read") {
  fake_storage disk;
  REQUIRE(save(disk, 1));
  REQUIRE(save(disk, 2));
  disk.flip_read(~0ull, 0);
  CHECK(latest_stamp(disk) == 2);
  const auto reads = disk.reads();
  for (std::uint64_t at = 0; at < reads; ++at) {
    disk.flip_read(at, at * 7919);
    auto reader = checkpoint_reader::open_latest(disk, "ckpts");
    REQUIRE(reader);
    if (!reader->refused().empty())
      CHECK(stamp_of(*reader) == 1);
    else
      for (std::int64_t row = 0; row < 13; ++row) {
        auto rows = reader->read("embedding", "value", row, row + 1);
        CHECK((rows ? *rows == rows_of_model(2, 1, 0, row, row + 1)
                    : rows.error().code == errc::corrupt));
      }
  }
}

TEST_CASE("checkpoint: a file cut at any length or grown is refused and the one before is used") {
  fake_storage disk;
  REQUIRE(save(disk, 1));
  REQUIRE(save(disk, 2));
  for (const auto& path : disk.files()) {
    if (path.find("ckpt-2/") == std::string::npos)
      continue;
    const auto whole = disk.content(path);
    for (std::size_t size = 0; size <= whole.size() + 1; ++size) {
      auto bytes = whole;
      bytes.resize(size);
      disk.set_content(path, bytes);
      CHECK(latest_stamp(disk) == (size == whole.size() ? 2 : 1));
    }
    disk.set_content(path, whole);
  }
}

TEST_CASE("checkpoint: a missing file is refused; when none is whole the error names each") {
  fake_storage disk;
  REQUIRE(save(disk, 1));
  REQUIRE(save(disk, 2));
  REQUIRE(disk.remove(path_in("ckpt-2", "data-00001")));
  CHECK(latest_stamp(disk) == 1);
  REQUIRE(disk.remove(path_in("ckpt-1", "manifest")));
  auto none = checkpoint_reader::open_latest(disk, "ckpts");
  REQUIRE_FALSE(none);
  CHECK(none.error().code == errc::corrupt);
  CHECK(none.error().text.find("ckpt-2/data-00001") != std::string::npos);
  CHECK(none.error().text.find("ckpt-1/manifest") != std::string::npos);
}

TEST_CASE("checkpoint: a data file of another checkpoint in the place of this one's is refused") {
  fake_storage disk;
  REQUIRE(save(disk, 1));
  REQUIRE(save(disk, 2));
  disk.set_content(path_in("ckpt-2", "data-00000"), disk.content(path_in("ckpt-1", "data-00000")));
  CHECK(latest_stamp(disk) == 1);
}

TEST_CASE("checkpoint: marks tell how far a commit came, in order") {
  struct recorder final : tracer {
    std::vector<std::string> marks{};
    void event(std::string_view, std::span<const trace_field>) override {}
    void mark(std::string_view id) override { marks.emplace_back(id); }
  } trace;
  fake_storage disk;
  auto options = small_files;
  options.trace = &trace;
  REQUIRE(save(disk, 1, 2, options));
  CHECK(trace.marks
        == std::vector<std::string>{"checkpoint.data_synced", "checkpoint.manifest_synced",
                                    "checkpoint.renamed", "checkpoint.committed"});
}
