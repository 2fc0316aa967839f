// Goal: a checkpoint as a numpy archive. Method: what the archive's own reader finds in it, against
// the model that was saved.
#include <troupe/actors/checkpoint/checkpoint_export.hpp>

#include <doctest/doctest.h>

#include <troupe/data/npy.hpp>

#include "../../../support/fake_storage.hpp"
#include "checkpoint_model.hpp"

using namespace troupe;
using namespace troupe::testing;

TEST_CASE("checkpoint export: every variable is one array, whole, however many shards wrote it") {
  fake_storage disk;
  REQUIRE(save(disk, 1, 3));
  REQUIRE(save(disk, 2, 3));
  const auto done = export_checkpoint(disk, "ckpts", "out.npz");
  REQUIRE_MESSAGE(done, done.error().text);
  CHECK(done->checkpoint == "ckpts/ckpt-2");
  CHECK(done->arrays == plans().size());
  const auto arrays = read_npz(disk, "out.npz");
  REQUIRE(arrays);
  REQUIRE(arrays->size() == plans().size());
  std::size_t bytes = 0;
  for (std::size_t v = 0; v < plans().size(); ++v) {
    CHECK((*arrays)[v].name == plans()[v].name);
    CHECK((*arrays)[v].value == rows_of_model(2, v, 0, 0, rows_in(plans()[v].shape)));
    bytes += (*arrays)[v].value.size_bytes();
  }
  CHECK(done->size_bytes == bytes);
  // One that is named itself.
  REQUIRE(export_checkpoint(disk, "ckpts/ckpt-1", "old.npz"));
  CHECK((*read_npz(disk, "old.npz"))[1].value == rows_of_model(1, 1, 0, 0, 13));
}

TEST_CASE("checkpoint export: slots and step counts come when they are asked for") {
  fake_storage disk;
  REQUIRE(save(disk, 3, 2));
  const auto done = export_checkpoint(disk, "ckpts", "out.npz", {.slots = true});
  REQUIRE_MESSAGE(done, done.error().text);
  const std::vector<std::string> names{"dense/w/m", "dense/w/v", "dense/w/steps",
                                       "embedding/accumulator", "dense/w"};
  const auto arrays = read_npz(disk, "out.npz", names);
  REQUIRE_MESSAGE(arrays, arrays.error().text);
  CHECK((*arrays)[0].value == rows_of_model(3, 0, 1, 0, 7));
  CHECK((*arrays)[1].value == rows_of_model(3, 0, 2, 0, 7));
  CHECK((*arrays)[2].value == tensor::scalar<std::int64_t>(300));
  CHECK((*arrays)[3].value == rows_of_model(3, 1, 1, 0, 13));
}

TEST_CASE("checkpoint export: a failure at any operation leaves the archive that was there") {
  fake_storage disk;
  REQUIRE(save(disk, 1));
  REQUIRE(export_checkpoint(disk, "ckpts", "out.npz"));
  const auto before = disk.content("out.npz");
  REQUIRE(save(disk, 2));
  disk.heal();
  REQUIRE(export_checkpoint(disk, "ckpts", "other.npz"));
  const auto operations = disk.operations();
  int told = 0;
  for (std::uint64_t at = 0; at < operations; ++at) {
    disk.fail_at(at, errc::no_space);
    const auto done = export_checkpoint(disk, "ckpts", "out.npz");
    disk.heal();
    told += !done;
    if (!done && disk.content("out.npz") != disk.content("other.npz"))
      CHECK(disk.content("out.npz") == before);
    CHECK_FALSE(disk.exists("out.npz.tmp"));
  }
  CHECK(told > 10);
}

TEST_CASE("checkpoint export: no checkpoint, and names that would be the same, are told by name") {
  fake_storage disk;
  CHECK(export_checkpoint(disk, "none", "out.npz").error().code == errc::not_found);
  {
    checkpoint_writer writer{disk, "ckpts"};
    REQUIRE(writer.begin());
    const auto x = tensor::zeros(dtype::f32, {1});
    REQUIRE(writer.add_slice("w", dtype::f32, {1}, "value", 0, x));
    REQUIRE(writer.add_slice("w", dtype::f32, {1}, "m", 0, x));
    REQUIRE(writer.add_slice("w/m", dtype::f32, {1}, "value", 0, x));
    REQUIRE(writer.commit());
  }
  REQUIRE(export_checkpoint(disk, "ckpts", "values.npz"));
  const auto twice = export_checkpoint(disk, "ckpts", "all.npz", {.slots = true});
  REQUIRE_FALSE(twice);
  CHECK(twice.error().code == errc::invalid_argument);
  CHECK(twice.error().text.find("\"w/m\": was already added") != std::string::npos);
  CHECK_FALSE(disk.exists("all.npz"));
}
