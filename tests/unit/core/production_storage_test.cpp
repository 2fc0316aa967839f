#include <troupe/core/detail/production_storage.hpp>

#include <doctest/doctest.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include <csignal>

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../support/bytes.hpp"
#include "../../support/scratch_folder.hpp"

using namespace troupe;
using troupe::testing::bytes_of;

namespace {

void put(storage_port& disk, const std::string& path, const std::string& text) {
  auto file = disk.create(path);
  REQUIRE(file);
  REQUIRE((*file)->write(bytes_of(text)));
  REQUIRE((*file)->sync());
  REQUIRE((*file)->close());
}

std::string get(storage_port& disk, const std::string& path) {
  auto file = disk.open(path);
  REQUIRE(file);
  std::string text((*file)->size_bytes(), '?');
  REQUIRE((*file)->read_at(0, std::as_writable_bytes(std::span{text.data(), text.size()})));
  return text;
}

bool mentions(const failure& why, const std::string& what) {
  return why.text.find(what) != std::string::npos;
}

} // namespace

TEST_CASE("posix storage: what was written and closed is read back, whole and in parts") {
  testing::scratch_folder dir;
  auto disk = detail::make_posix_storage();
  put(*disk, dir / "a", "hello world");
  CHECK(get(*disk, dir / "a") == "hello world");
  auto file = disk->open(dir / "a");
  REQUIRE(file);
  char part[5] = {};
  REQUIRE((*file)->read_at(6, std::as_writable_bytes(std::span{part})));
  CHECK(std::memcmp(part, "world", 5) == 0);
  put(*disk, dir / "a", "short"); // creating again truncates
  CHECK(get(*disk, dir / "a") == "short");
}

TEST_CASE("posix storage: several writes of many bytes follow each other") {
  testing::scratch_folder dir;
  auto disk = detail::make_posix_storage();
  std::string expected;
  auto file = disk->create(dir / "big");
  REQUIRE(file);
  for (int i = 0; i < 5; ++i) {
    std::string block(1000003, static_cast<char>('a' + i));
    REQUIRE((*file)->write(bytes_of(block)));
    expected += block;
  }
  REQUIRE((*file)->close());
  CHECK(get(*disk, dir / "big") == expected);
}

TEST_CASE(
  "posix storage: reading past the end is corrupt and names the file, also after it was cut") {
  testing::scratch_folder dir;
  auto disk = detail::make_posix_storage();
  put(*disk, dir / "a", "12345");
  auto file = disk->open(dir / "a");
  REQUIRE(file);
  std::byte to[6];
  auto over = (*file)->read_at(0, to);
  REQUIRE_FALSE(over);
  CHECK(over.error().code == errc::corrupt);
  CHECK(mentions(over.error(), dir / "a"));
  auto far = (*file)->read_at(~0ull - 2, std::span{to, 5});
  REQUIRE_FALSE(far);
  CHECK(far.error().code == errc::corrupt);
  REQUIRE(::truncate((dir / "a").c_str(), 2) == 0);
  auto cut = (*file)->read_at(0, std::span{to, 5});
  REQUIRE_FALSE(cut);
  CHECK(cut.error().code == errc::corrupt);
}

TEST_CASE("posix storage: a missing file is not_found and named, a missing parent too") {
  testing::scratch_folder dir;
  auto disk = detail::make_posix_storage();
  auto gone = disk->open(dir / "gone");
  REQUIRE_FALSE(gone);
  CHECK(gone.error().code == errc::not_found);
  CHECK(mentions(gone.error(), dir / "gone"));
  CHECK(mentions(gone.error(), "No such file"));
  auto nowhere = disk->create(dir / "no/where");
  REQUIRE_FALSE(nowhere);
  CHECK(nowhere.error().code == errc::not_found);
  auto empty = disk->list(dir / "none");
  REQUIRE_FALSE(empty);
  CHECK(empty.error().code == errc::not_found);
  CHECK_FALSE(disk->exists(dir / "gone"));
  CHECK(disk->remove(dir / "gone"));
  auto moved = disk->rename(dir / "gone", dir / "b");
  REQUIRE_FALSE(moved);
  CHECK(moved.error().code == errc::not_found);
}

TEST_CASE("posix storage: a full device is no_space, and the file stays refused") {
  if (::access("/dev/full", W_OK) != 0)
    return;
  auto disk = detail::make_posix_storage();
  auto file = disk->create("/dev/full");
  REQUIRE(file);
  auto first = (*file)->write(bytes_of("x"));
  REQUIRE_FALSE(first);
  CHECK(first.error().code == errc::no_space);
  CHECK(mentions(first.error(), "/dev/full"));
  auto second = (*file)->sync(); // a sync after a lost write must not look good
  REQUIRE_FALSE(second);
  CHECK(second.error().code == errc::no_space);
  auto last = (*file)->close();
  REQUIRE_FALSE(last);
  CHECK(last.error().code == errc::no_space);
}

TEST_CASE(
  "posix storage: directories are made with parents, listed sorted, synced, and removed when "
  "empty") {
  testing::scratch_folder dir;
  auto disk = detail::make_posix_storage();
  REQUIRE(disk->make_directories(dir / "x/y//z/"));
  REQUIRE(disk->make_directories(dir / "x/y/z"));
  for (const char* name : {"c", "a", "b"})
    put(*disk, dir / ("x/y/z/" + std::string{name}), name);
  CHECK(disk->sync_directory(dir / "x/y/z"));
  auto names = disk->list(dir / "x/y/z");
  REQUIRE(names);
  CHECK(*names == std::vector<std::string>{"a", "b", "c"});
  auto full = disk->remove(dir / "x/y/z");
  REQUIRE_FALSE(full);
  CHECK(full.error().code == errc::io_failed);
  CHECK(mentions(full.error(), dir / "x/y/z"));
  for (const auto& name : *names)
    REQUIRE(disk->remove(dir / ("x/y/z/" + name)));
  CHECK(disk->remove(dir / "x/y/z"));
  CHECK_FALSE(disk->exists(dir / "x/y/z"));
}

TEST_CASE("posix storage: a file in the way of a directory is an error that names it") {
  testing::scratch_folder dir;
  auto disk = detail::make_posix_storage();
  put(*disk, dir / "f", "x");
  auto through = disk->make_directories(dir / "f/g");
  REQUIRE_FALSE(through);
  CHECK(mentions(through.error(), dir / "f"));
  auto over = disk->make_directories(dir / "f");
  REQUIRE_FALSE(over);
  CHECK(over.error().code == errc::io_failed);
  auto read = disk->open(dir.path());
  REQUIRE_FALSE(read);
  CHECK(read.error().code == errc::io_failed);
  CHECK_FALSE(disk->sync_directory(dir / "f"));
}

TEST_CASE("posix storage: rename replaces the target") {
  testing::scratch_folder dir;
  auto disk = detail::make_posix_storage();
  put(*disk, dir / "new", "2");
  put(*disk, dir / "old", "1");
  REQUIRE(disk->rename(dir / "new", dir / "old"));
  CHECK(get(*disk, dir / "old") == "2");
  CHECK_FALSE(disk->exists(dir / "new"));
}

TEST_CASE(
  "posix storage: a write past the limit on file sizes was the process's death: it fails, naming "
  "the file") {
  testing::scratch_folder dir;
  auto disk = detail::make_posix_storage();
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  auto file = disk->create(dir / "big");
  REQUIRE(file);
  const rlimit small{4096, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  const auto fits = (*file)->write(bytes_of(std::string(4096, 'x')));
  const auto over = (*file)->write(bytes_of("y"));
  auto second = disk->create(dir / "second");
  const auto at_once = second ? (*second)->write(bytes_of(std::string(9000, 'x'))) : result<void>{};
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  CHECK(fits);
  for (const auto& [why, name] : {std::pair{&over, "big"}, {&at_once, "second"}}) {
    REQUIRE_FALSE(*why);
    CHECK(why->error().code == errc::io_failed);
    CHECK(mentions(why->error(), dir / name));
    CHECK(mentions(why->error(), "4096"));
  }
  sigset_t pending;
  REQUIRE(::sigpending(&pending) == 0);
  CHECK(sigismember(&pending, SIGXFSZ) == 0); // nothing of it is left
  struct sigaction how {};
  REQUIRE(::sigaction(SIGXFSZ, nullptr, &how) == 0);
  CHECK((how.sa_handler == SIG_DFL)); // the host's own disposition stays
}
