// Goal: what a checkpoint folder holds beside checkpoints is left alone: links lead nowhere, a
// folder has one writer at a time, a number too high is told. Method: on the disk in memory and on
// the machine's own file system.
#include <filesystem>
#include <fstream>

#include <doctest/doctest.h>

#include <csignal>
#include <cstdlib>

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <troupe/core/production_ports.hpp>

#include "../../../support/failures.hpp"
#include "../../../support/fake_storage.hpp"
#include "../../../support/processes.hpp"
#include "../../../support/scratch_folder.hpp"
#include "checkpoint_model.hpp"

using namespace troupe;
using namespace troupe::testing;
namespace fs = std::filesystem;

namespace {

struct scratch {
  std::string ckpts() const { return (path / "ckpts").string(); }
  /// A folder of somebody else's with a file in it.
  fs::path others(const std::string& name) const {
    fs::create_directories(path / name);
    std::ofstream{path / name / "precious"} << "precious";
    return path / name;
  }
  scratch_folder folder{};
  const fs::path path = folder.path();
};

result<std::string> save_at(storage_port& disk, const std::string& directory, int stamp,
                            std::uint32_t keep = 2) {
  auto options = small_files;
  options.keep = keep;
  checkpoint_writer writer{disk, directory, options};
  return save_model(writer, stamp, 2);
}

} // namespace

TEST_CASE("checkpoint: a left-over's name that is a link to a folder empties nobody's folder") {
  const scratch at;
  auto ports = make_production_ports();
  auto& disk = ports->storage();
  const auto theirs = at.others("theirs");
  fs::create_directories(at.ckpts());
  fs::create_directory_symlink(theirs, at.ckpts() + "/ckpt-5.tmp");
  for (int stamp = 1; stamp <= 3; ++stamp)
    REQUIRE(save_at(disk, at.ckpts(), stamp));
  CHECK(fs::exists(theirs / "precious"));
  CHECK(fs::is_symlink(at.ckpts() + "/ckpt-5.tmp"));
  auto reader = checkpoint_reader::open_latest(disk, at.ckpts());
  REQUIRE(reader);
  CHECK(stamp_of(*reader) == 3);
  CHECK(reader->path() == at.ckpts() + "/ckpt-8"); // numbers start above the link's
}

TEST_CASE("checkpoint: rotation leaves a link with a checkpoint's name and what it points to") {
  const scratch at;
  auto ports = make_production_ports();
  auto& disk = ports->storage();
  const auto theirs = at.others("theirs");
  fs::create_directories(at.ckpts());
  fs::create_directory_symlink(theirs, at.ckpts() + "/ckpt-1");
  for (int stamp = 1; stamp <= 4; ++stamp)
    REQUIRE(save_at(disk, at.ckpts(), stamp));
  CHECK(fs::exists(theirs / "precious"));
  CHECK(fs::is_symlink(at.ckpts() + "/ckpt-1"));
  // It does not count as one of those that stay: the two newest are whole ones.
  CHECK(fs::exists(at.ckpts() + "/ckpt-4/manifest"));
  CHECK(fs::exists(at.ckpts() + "/ckpt-5/manifest"));
  CHECK_FALSE(fs::exists(at.ckpts() + "/ckpt-3"));
}

TEST_CASE("checkpoint: a link to a checkpoint, or to one of its files, is refused by name") {
  const scratch at;
  auto ports = make_production_ports();
  auto& disk = ports->storage();
  REQUIRE(save_at(disk, at.ckpts(), 1));
  REQUIRE(save_at(disk, (at.path / "other").string(), 2));
  fs::create_directory_symlink(at.path / "other" / "ckpt-1", at.ckpts() + "/ckpt-9");
  auto reader = checkpoint_reader::open_latest(disk, at.ckpts());
  REQUIRE(reader);
  CHECK(stamp_of(*reader) == 1);
  REQUIRE(reader->refused().size() == 1);
  CHECK(reader->refused()[0].path == at.ckpts() + "/ckpt-9");
  CHECK(says(reader->refused()[0].why, "ckpt-9 is a symbolic link; links are not followed below"));
  fs::remove(at.ckpts() + "/ckpt-9");
  for (const char* name : {"manifest", "data-00000"}) {
    const auto file = fs::path{at.ckpts()} / "ckpt-1" / name;
    fs::rename(file, at.path / "moved");
    fs::create_symlink(at.path / "moved", file);
    auto refused = checkpoint_reader::open_latest(disk, at.ckpts());
    REQUIRE_FALSE(refused);
    CHECK(says(refused.error(), std::string{name} + " is a symbolic link"));
    fs::remove(file);
    fs::rename(at.path / "moved", file);
  }
  // What the caller names is the caller's own.
  fs::create_directory_symlink(at.ckpts(), at.path / "to");
  fs::create_directory_symlink(at.ckpts() + "/ckpt-1", at.path / "best");
  CHECK(checkpoint_reader::open_latest(disk, (at.path / "to").string()));
  CHECK(checkpoint_reader::open(disk, (at.path / "best").string()));
}

TEST_CASE("checkpoint: FIFOs with the names of checkpoints, files and the lock hang nothing") {
  const scratch at;
  auto ports = make_production_ports();
  auto& disk = ports->storage();
  REQUIRE(save_at(disk, at.ckpts(), 1));
  const auto fifo = [&](const std::string& name) {
    REQUIRE(::mkfifo((at.ckpts() + "/" + name).c_str(), 0600) == 0);
  };
  fifo("ckpt-7");
  fifo("ckpt-6.tmp");
  fs::create_directory(at.ckpts() + "/ckpt-5");
  fifo("ckpt-5/manifest");
  auto reader = checkpoint_reader::open_latest(disk, at.ckpts());
  REQUIRE(reader);
  CHECK(stamp_of(*reader) == 1);
  CHECK(reader->refused().size() == 2);
  CHECK(says(reader->refused()[1].why, "ckpt-5/manifest: is a FIFO, not a regular file"));
  REQUIRE(save_at(disk, at.ckpts(), 2));
  CHECK(fs::exists(at.ckpts() + "/ckpt-8/manifest"));
  fifo(".troupe-lock");
  auto locked = save_at(disk, at.ckpts(), 3);
  REQUIRE_FALSE(locked);
  CHECK(says(locked.error(), ".troupe-lock: is a FIFO"));
}

TEST_CASE("checkpoint: a folder has one writer at a time, and the next once that one is done") {
  fake_storage disk;
  checkpoint_writer first{disk, "ckpts", small_files};
  REQUIRE(first.begin());
  for (const char* same : {"ckpts", "./ckpts//"}) {
    checkpoint_writer second{disk, same, small_files};
    auto no = second.begin();
    REQUIRE_FALSE(no);
    CHECK(no.error().code == errc::try_again);
    CHECK(says(no.error(), "another writer holds the lock of the directory"));
    CHECK_FALSE(second.commit());
  }
  REQUIRE(save(disk, 5, 2, small_files).error().code == errc::try_again);
  REQUIRE(save_model(first, 1, 2)); // what the others tried has done no harm
  CHECK(latest_stamp(disk) == 1);
  CHECK(disk.locks() == 0);
  REQUIRE(save(disk, 2)); // though the first writer is still there
  REQUIRE(save_model(first, 3, 2));
  CHECK(latest_stamp(disk) == 3);
  REQUIRE(first.begin());
  CHECK_FALSE(first.add_slice("", dtype::f32, {1}, "value", 0, tensor::zeros(dtype::f32, {1})));
  CHECK(disk.locks() == 1);
  { const checkpoint_writer gone = std::move(first); }
  CHECK(disk.locks() == 0);
  CHECK(latest_stamp(disk) == 3);
}

TEST_CASE("checkpoint: a writer that was killed leaves the folder free, and its left-over goes") {
  const scratch at;
  auto ports = make_production_ports();
  auto& disk = ports->storage();
  int ready[2];
  REQUIRE(::pipe(ready) == 0);
  child_process child{[&]() -> int {
    auto own = make_production_ports();
    checkpoint_writer writer{own->storage(), at.ckpts(), small_files};
    const char done = writer.begin() ? 'y' : 'n';
    (void)!::write(ready[1], &done, 1);
    for (;;)
      ::pause();
  }};
  char done = 0;
  REQUIRE(::read(ready[0], &done, 1) == 1);
  CHECK(done == 'y');
  auto no = save_at(disk, at.ckpts(), 1);
  REQUIRE_FALSE(no);
  CHECK(no.error().code == errc::try_again);
  CHECK(fs::exists(at.ckpts() + "/ckpt-1.tmp")); // the other's is as it was
  child.signal(SIGKILL);
  child.wait();
  REQUIRE(save_at(disk, at.ckpts(), 2));
  CHECK(disk.list(at.ckpts()).value_or_throw() == std::vector<std::string>{"ckpt-2"});
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_CASE("checkpoint: a save that would get a number too high is refused, and no success") {
  for (const std::string name :
       {"ckpt-999999999999999998", "ckpt-999999999999999998.tmp", "ckpt-999999999999999999",
        "ckpt-18446744073709551616", "ckpt-99999999999999999999999.tmp"}) {
    fake_storage disk;
    REQUIRE(save(disk, 1));
    REQUIRE(disk.make_directories("ckpts/" + name));
    auto no = save(disk, 2);
    REQUIRE_FALSE(no);
    CHECK(no.error().code == errc::out_of_range);
    CHECK(says(no.error(), "ckpts/" + name + ": its number leaves none"));
    CHECK(latest_stamp(disk) == 1);
    REQUIRE(disk.remove("ckpts/" + name));
    REQUIRE(save(disk, 3));
    CHECK(latest_stamp(disk) == 3);
  }
  fake_storage disk; // the highest number there is is taken, and read
  REQUIRE(disk.make_directories("ckpts/ckpt-999999999999999997"));
  REQUIRE(save(disk, 1));
  CHECK(checkpoint_reader::open_latest(disk, "ckpts")->path() == "ckpts/ckpt-999999999999999998");
}

TEST_CASE("checkpoint: a reader names checkpoints whose number is too high instead of none") {
  fake_storage disk;
  REQUIRE(disk.make_directories("ckpts/ckpt-999999999999999999"));
  auto none = checkpoint_reader::open_latest(disk, "ckpts");
  REQUIRE_FALSE(none);
  CHECK(none.error().code == errc::corrupt);
  CHECK(
    says(none.error(), "ckpts/ckpt-999999999999999999: the number exceeds the highest allowed"));
  REQUIRE(disk.remove("ckpts/ckpt-999999999999999999"));
  REQUIRE(save(disk, 1));
  REQUIRE(disk.make_directories("ckpts/ckpt-999999999999999999"));
  auto reader = checkpoint_reader::open_latest(disk, "ckpts");
  REQUIRE(reader);
  REQUIRE(reader->refused().size() == 1);
  CHECK(stamp_of(*reader) == 1);
}

TEST_CASE("checkpoint: a directory that has no name is refused") {
  fake_storage disk;
  checkpoint_writer writer{disk, ""};
  CHECK(writer.begin().error().code == errc::invalid_argument);
}
