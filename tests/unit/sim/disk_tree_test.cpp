// Goal: what a loss of power leaves of a machine's files is what POSIX promises, and everything
// that it may leave is left by some draws.
#include <troupe/sim/disk_tree.hpp>

#include <doctest/doctest.h>

#include <set>
#include <string>
#include <vector>

#include <troupe/sim/draws.hpp>

using namespace troupe;
using troupe::sim::disk_tree;

namespace {

using names = std::vector<std::string>;

void write(disk_tree& tree, const std::string& path, const std::string& text, bool sync = true) {
  const auto file = tree.create(path).value_or_throw();
  file->now = text;
  if (sync)
    file->durable = file->now;
}

/// What is left of `before` by many draws.
template <class Look>
auto outcomes(void (*before)(disk_tree&), Look look) {
  std::set<decltype(look(std::declval<disk_tree&>()))> out;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    disk_tree tree;
    before(tree);
    sim::draw_stream draws{seed, "power"};
    tree.power_fail(draws);
    out.insert(look(tree));
  }
  return out;
}

} // namespace

TEST_CASE("disk tree: what was synced survives every loss of power, name and bytes") {
  const auto left = outcomes(
    [](disk_tree& tree) {
      REQUIRE(tree.make_directories("a/b"));
      write(tree, "a/b/file", "kept");
      for (const char* folder : {"a/b", "a", "."})
        REQUIRE(tree.sync_directory(folder));
    },
    [](disk_tree& tree) { return tree.content("a/b/file").value_or("gone"); });
  CHECK(left == std::set<std::string>{"kept"});
}

TEST_CASE("disk tree: a name that was not synced is there or is not, its synced bytes with it") {
  const auto left = outcomes([](disk_tree& tree) { write(tree, "file", "bytes"); },
                             [](disk_tree& tree) { return tree.content("file").value_or("gone"); });
  CHECK(left == std::set<std::string>{"bytes", "gone"});
}

TEST_CASE(
  "disk tree: of bytes that were not synced blocks survive, none or all; synced ones stay") {
  const auto left = outcomes(
    [](disk_tree& tree) {
      write(tree, "file", std::string(600, 'a'));
      REQUIRE(tree.sync_directory("."));
      tree.open("file").value_or_throw()->now += std::string(1'000, 'b');
    },
    [](disk_tree& tree) { return tree.content("file").value_or("gone"); });
  CHECK(left.contains(std::string(600, 'a')));
  CHECK(left.contains(std::string(600, 'a') + std::string(1'000, 'b')));
  CHECK(left.size() > 4);
  for (const auto& each : left)
    CHECK(each.starts_with(std::string(600, 'a')));
}

TEST_CASE("disk tree: a rename survives whole or not at all, a removal too") {
  const auto renamed = outcomes(
    [](disk_tree& tree) {
      write(tree, "old", "x");
      REQUIRE(tree.sync_directory("."));
      REQUIRE(tree.rename("old", "new"));
    },
    [](disk_tree& tree) { return tree.files(); });
  CHECK(renamed == std::set<names>{{"new"}, {"old"}});
  const auto removed = outcomes(
    [](disk_tree& tree) {
      write(tree, "file", "x");
      REQUIRE(tree.sync_directory("."));
      REQUIRE(tree.remove("file"));
    },
    [](disk_tree& tree) { return tree.exists("file"); });
  CHECK(removed == std::set<bool>{false, true});
}

TEST_CASE("disk tree: links are followed by calls on content, and are links by their own name") {
  disk_tree tree;
  REQUIRE(tree.make_directories("far"));
  REQUIRE(tree.make_link("far", "near"));
  REQUIRE(tree.make_link("far/file", "link"));
  CHECK_FALSE(tree.make_link("far", "near")); // the name is taken
  CHECK_FALSE(tree.exists("link"));           // it leads nowhere yet
  write(tree, "link", "text");
  CHECK(tree.content("near/file") == "text");
  CHECK(tree.kind("near") == file_kind::link);
  CHECK(tree.kind("near/file") == file_kind::file);
  CHECK(tree.kind("far") == file_kind::directory);
  CHECK(tree.kind("none") == file_kind::none);
  REQUIRE(tree.make_link("loop", "loop"));
  CHECK_FALSE(tree.exists("loop"));
}

TEST_CASE("disk tree: calls that can't be done are refused, and nothing has changed") {
  disk_tree tree;
  REQUIRE(tree.make_directories("a"));
  write(tree, "a/file", "x");
  CHECK(tree.create("none/file").error().code == errc::not_found);
  CHECK(tree.create("a").error().code == errc::io_failed);
  CHECK(tree.open("none").error().code == errc::not_found);
  CHECK(tree.open("a").error().code == errc::io_failed);
  CHECK(tree.remove("a").error().code == errc::io_failed);
  CHECK(tree.remove("none"));
  CHECK(tree.rename("none", "other").error().code == errc::not_found);
  CHECK(tree.rename("a/file", "file").error().code == errc::io_failed);
  CHECK(tree.make_directories("a/file/b").error().code == errc::io_failed);
  CHECK(tree.list("none").error().code == errc::not_found);
  CHECK(tree.sync_directory("none").error().code == errc::not_found);
  CHECK(tree.files() == names{"a/file"});
  std::vector<std::byte> to(2);
  const auto file = tree.open("a/file").value_or_throw();
  CHECK(disk_tree::read_at(*file, "a/file", 0, to).error().code == errc::corrupt);
  CHECK(disk_tree::read_at(*file, "a/file", 2, {}).error().code == errc::corrupt);
  CHECK(disk_tree::read_at(*file, "a/file", 1, {}));
}

TEST_CASE("disk tree: a lock is held by one, however its path is spelled, until its own unlock") {
  disk_tree tree;
  const auto first = tree.lock("a/b").value_or_throw();
  CHECK(tree.lock("/a/./b").error().code == errc::try_again);
  CHECK(tree.lock("a/c"));
  CHECK(tree.locks() == 2);
  tree.unlock_all();
  const auto second = tree.lock("a/b").value_or_throw();
  tree.unlock("a/b", first); // of a process that is gone: not the lock that is held now
  CHECK(tree.locks() == 1);
  tree.unlock("a/b", second);
  CHECK(tree.locks() == 0);
}
