#include <troupe/actors/checkpoint/checkpoint_format.hpp>

#include <doctest/doctest.h>

#include <set>
#include <string>
#include <vector>

#include <cstdlib>

#include <troupe/core/production_ports.hpp>

#include "../../../support/fake_storage.hpp"
#include "../../../support/scratch_folder.hpp"
#include "checkpoint_model.hpp"

using namespace troupe;
using namespace troupe::testing;

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
  expect(checkpoint_reader::open_latest(disk, "elsewhere"), errc::not_found,
         "no checkpoint in elsewhere: the directory does not exist"); // not "list elsewhere"
  REQUIRE(disk.make_directories("bare"));
  expect(checkpoint_reader::open_latest(disk, "bare"), errc::not_found,
         "no checkpoint in bare: the directory contains no checkpoint");
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
         {{{0, 3}, {2, 3}}, "rows [2, 3) are listed twice"},
         {{{0, 5}, {0, 5}}, "are listed twice"},
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

TEST_CASE("checkpoint: on the machine's own file system it saves, keeps two and restores") {
  auto ports = make_production_ports();
  auto& disk = ports->storage();
  const scratch_folder folder;
  const auto directory = folder / "deep/down/";
  for (int stamp = 1; stamp <= 3; ++stamp) {
    checkpoint_writer writer{disk, directory, small_files};
    auto path = save_model(writer, stamp, stamp);
    REQUIRE(path);
    CHECK(*path == folder / "deep/down/ckpt-" + std::to_string(stamp));
    CHECK_FALSE(writer.cleanup_failure());
    auto reader = checkpoint_reader::open_latest(disk, directory);
    REQUIRE(reader);
    CHECK(stamp_of(*reader) == stamp);
  }
  const auto generations = disk.list(directory).value_or_throw();
  CHECK(generations == std::vector<std::string>{"ckpt-2", "ckpt-3"});
  for (const auto& generation : generations) {
    const auto path = folder / "deep/down/" + generation;
    const auto names = disk.list(path).value_or_throw();
    for (const auto& name : names)
      CHECK(disk.remove(path + "/" + name));
    CHECK(disk.remove(path));
  }
  for (const char* path : {"deep/down", "deep"})
    CHECK(disk.remove(folder / path));
}
