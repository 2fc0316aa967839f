#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>

#include "../../../support/fake_storage.hpp"
#include "checkpoint_model.hpp"

using namespace troupe;
using namespace troupe::testing;

// Goal: a checkpoint is all or nothing and never lies. Method: saves of a small model on a disk
// that forgets, with a crash or an error at every single operation, and reads of every possible
// damage.

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
