// Goal: below a folder no link is followed, nothing waits for another process, and a lock goes with
// its holder however that ends. Method: real links, FIFOs and processes on the machine's own file
// system; the stand-in for storages that have nothing better, on a disk in memory.
#include <troupe/core/detail/production_storage.hpp>
#include <troupe/core/storage_folder.hpp>

#include <doctest/doctest.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../support/fake_storage.hpp"
#include "../../support/processes.hpp"
#include "../../support/scratch_folder.hpp"

using namespace troupe;
namespace fs = std::filesystem;

namespace {

/// A directory with a folder in it and another one outside, which links lead to.
struct scratch {
  scratch() {
    fs::create_directories(path / "in" / "sub");
    fs::create_directory(path / "out");
    std::ofstream{path / "out" / "kept"} << "kept";
    fs::create_directory_symlink(path / "out", path / "in" / "away");
    fs::create_symlink(path / "out" / "kept", path / "in" / "file");
    fs::create_symlink(path / "nowhere", path / "in" / "broken");
  }
  std::string kept() const {
    std::ifstream in{path / "out" / "kept"};
    return {std::istreambuf_iterator<char>{in}, {}};
  }
  testing::scratch_folder folder{};
  const fs::path path = folder.path();
};

template <class T>
void refused(const result<T>& x, const std::string& part) {
  REQUIRE_FALSE(x);
  CHECK(x.error().code == errc::io_failed);
  CHECK_MESSAGE(x.error().text.find(part) != std::string::npos, x.error().text);
}

/// What every folder does with links, whichever storage it is of.
void check_folder(storage_port& folder) {
  const std::string link = "is a symbolic link; links are not followed below";
  CHECK(*folder.kind("away") == file_kind::link);
  CHECK(*folder.kind("file") == file_kind::link);
  CHECK(*folder.kind("sub") == file_kind::directory);
  CHECK(*folder.kind("none") == file_kind::none);
  for (const std::string path : {"file", "away/kept", "broken"}) {
    refused(folder.open(path), link);
    refused(folder.create(path), link);
  }
  refused(folder.create("away/new"), link);
  refused(folder.list("away"), link);
  refused(folder.sync_directory("away"), link);
  refused(folder.make_directories("away"), link);
  refused(folder.make_directories("away/deep"), link);
  refused(folder.remove("away/kept"), link);
  refused(folder.rename("away/kept", "sub/kept"), link);
  refused(folder.rename("sub", "away/sub"), link);
  refused(folder.folder("away"), link);
  refused(folder.lock("away/lock"), link);
  refused(folder.kind("away/kept"), link);
  CHECK(folder.open("../out/kept").error().code == errc::invalid_argument);
  CHECK(folder.open("sub/../../out/kept").error().code == errc::invalid_argument);
  // The names themselves may be moved and removed.
  REQUIRE(folder.rename("away", "moved"));
  CHECK(*folder.kind("moved") == file_kind::link);
  REQUIRE(folder.remove("moved"));
  REQUIRE(folder.remove("file"));
  REQUIRE(folder.remove("broken"));
  CHECK(*folder.list("") == std::vector<std::string>{"sub"});
  // And all else works as it does elsewhere.
  REQUIRE(folder.make_directories("sub/deep/er"));
  REQUIRE(folder.create("sub/deep/x"));
  REQUIRE(folder.sync_directory("sub/deep"));
  CHECK(folder.exists("sub/deep/x"));
  CHECK(*(*folder.folder("sub"))->list("deep") == std::vector<std::string>{"er", "x"});
  CHECK(folder.open("sub/none").error().code == errc::not_found);
}

/// A child that holds the lock until it is killed.
std::unique_ptr<testing::child_process> lock_in_child(const std::string& path) {
  int ready[2];
  REQUIRE(::pipe(ready) == 0);
  auto child = std::make_unique<testing::child_process>([&]() -> int {
    auto disk = detail::make_posix_storage();
    auto held = disk->lock(path);
    const char done = held ? 'y' : 'n';
    (void)!::write(ready[1], &done, 1);
    for (;;)
      ::pause();
  });
  char done = 0;
  REQUIRE(::read(ready[0], &done, 1) == 1);
  CHECK(done == 'y');
  ::close(ready[0]);
  ::close(ready[1]);
  return child;
}

} // namespace

TEST_CASE("posix storage: no link is followed below a folder, by any call") {
  const scratch at;
  auto disk = detail::make_posix_storage();
  auto folder = disk->folder((at.path / "in").string());
  REQUIRE(folder);
  check_folder(**folder);
  CHECK(at.kept() == "kept");
  CHECK(fs::exists(at.path / "out" / "kept"));
  CHECK(std::distance(fs::directory_iterator{at.path / "out"}, {}) == 1);
}

TEST_CASE("storage folder: the stand-in for other storages follows no link either") {
  testing::fake_storage disk;
  REQUIRE(disk.make_directories("in/sub"));
  REQUIRE(disk.make_directories("out"));
  REQUIRE(disk.create("out/kept"));
  disk.make_link("out", "in/away");
  disk.make_link("out/kept", "in/file");
  disk.make_link("nowhere", "in/broken");
  auto folder = disk.folder("in");
  REQUIRE(folder);
  check_folder(**folder);
  CHECK(disk.exists("out/kept"));
  CHECK(disk.list("out")->size() == 1);
  CHECK(disk.folder("none").error().code == errc::not_found);
}

TEST_CASE("posix storage: a folder is reached through links, and stays itself when it is moved") {
  const scratch at;
  fs::create_directory_symlink(at.path / "in", at.path / "to_in");
  auto disk = detail::make_posix_storage();
  auto folder = disk->folder((at.path / "to_in").string());
  REQUIRE(folder);
  fs::rename(at.path / "in", at.path / "elsewhere");
  REQUIRE((*folder)->create("sub/x"));
  CHECK(fs::exists(at.path / "elsewhere" / "sub" / "x"));
  CHECK(disk->folder((at.path / "none").string()).error().code == errc::not_found);
  CHECK(disk->folder((at.path / "out" / "kept").string()).error().code == errc::io_failed);
}

TEST_CASE("posix storage: a FIFO, a socket or a device is no file to read, and nothing waits") {
  const scratch at;
  const auto fifo = (at.path / "in" / "fifo").string();
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  auto disk = detail::make_posix_storage();
  auto folder = disk->folder((at.path / "in").string());
  REQUIRE(folder);
  refused(disk->open(fifo), fifo + ": is a FIFO, not a regular file");
  refused((*folder)->open("fifo"), "is a FIFO, not a regular file");
  refused(disk->open("/dev/zero"), "is a device, not a regular file");
  refused(disk->create(fifo), "is a FIFO or a socket without a reader");
  refused((*folder)->create("fifo"), "without a reader");
  refused((*folder)->lock("fifo"), "is a FIFO, not a regular file");
  CHECK(*(*folder)->kind("fifo") == file_kind::other);
  // With a reader it is written to, as a pipe is; but not below a folder.
  const int reader = ::open(fifo.c_str(), O_RDONLY | O_NONBLOCK);
  REQUIRE(reader >= 0);
  refused((*folder)->create("fifo"), "is a FIFO, not a regular file");
  auto out = disk->create(fifo);
  REQUIRE(out);
  REQUIRE((*out)->write(std::as_bytes(std::span{"hello", 5})));
  char got[5];
  CHECK(::read(reader, got, 5) == 5);
  ::close(reader);
}

TEST_CASE("posix storage: a lock has one holder, and none once its process was killed") {
  const scratch at;
  auto disk = detail::make_posix_storage();
  const auto path = (at.path / "in" / "lock").string();
  {
    auto first = disk->lock(path);
    REQUIRE(first);
    auto second = disk->lock(path);
    REQUIRE_FALSE(second);
    CHECK(second.error().code == errc::try_again);
    CHECK(second.error().text.find(path) != std::string::npos);
  }
  CHECK_FALSE(disk->exists(path)); // nothing stays behind
  const auto child = lock_in_child(path);
  CHECK(disk->lock(path).error().code == errc::try_again);
  child->signal(SIGKILL);
  child->wait();
  CHECK(disk->exists(path)); // what it left
  CHECK(disk->lock(path));
  CHECK_FALSE(disk->exists(path));
  // One of a folder outlives the folder.
  auto folder = disk->folder((at.path / "in").string());
  auto held = (*folder)->lock("lock");
  REQUIRE(held);
  folder->reset();
  CHECK(disk->lock(path).error().code == errc::try_again);
  held->reset();
  CHECK(disk->lock(path));
}
