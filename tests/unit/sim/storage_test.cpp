// Goal: what survives a loss of power is what POSIX promises, and each fault is what it says.

#include <doctest/doctest.h>

#include <string>

#include <troupe/sim/storage.hpp>

#include "../../support/bytes.hpp"

using namespace troupe;
using troupe::sim::sim_disk;
using troupe::testing::bytes_of;

namespace {

struct fixture {
  sim_disk disk{1, "worker0"};
  duration spent{};
  bool alive = true;
  std::unique_ptr<storage_port> port =
    disk.open_port([this] { return alive; }, [this](duration d) { spent += d; });

  result<void> put(const std::string& path, const std::string& text, bool sync) {
    auto file = port->create(path);
    if (!file)
      return file.error();
    if (auto ok = (*file)->write(bytes_of(text)); !ok)
      return ok;
    return sync ? (*file)->sync() : result<void>{};
  }
  result<std::string> get(const std::string& path) {
    auto file = port->open(path);
    if (!file)
      return file.error();
    std::string out((*file)->size_bytes(), '\0');
    auto ok = (*file)->read_at(0, std::as_writable_bytes(std::span{out}));
    return ok ? result<std::string>{out} : result<std::string>{ok.error()};
  }
};

} // namespace

TEST_CASE("sim disk: files and directories are as the port says") {
  fixture f;
  CHECK(f.put("d/x", "1", false).error().code == errc::not_found);
  REQUIRE(f.port->make_directories("d/e"));
  REQUIRE(f.put("d/x", "hello", false));
  CHECK(*f.get("./d//x") == "hello");
  REQUIRE(f.port->rename("d/x", "d/y"));
  CHECK(*f.port->list("d") == std::vector<std::string>{"e", "y"});
  CHECK(f.port->exists("d/y"));
  CHECK_FALSE(f.port->exists("d/x"));
  CHECK(f.port->remove("d").error().code == errc::io_failed);
  REQUIRE(f.port->remove("d/y"));
  REQUIRE(f.port->remove("d/y"));
  CHECK(f.get("d/y").error().code == errc::not_found);
  CHECK(f.disk.files().empty());
}

TEST_CASE("sim disk: what was synced survives every loss of power, what was not sometimes") {
  int kept = 0, lost = 0, cut = 0;
  const std::string big(20'000, 'x');
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    fixture f;
    f.disk = sim_disk{seed, "worker0"};
    f.port = f.disk.open_port([] { return true; }, [](duration) {});
    REQUIRE(f.put("safe", "synced", true));
    REQUIRE(f.port->sync_directory("."));
    REQUIRE(f.put("name", big, true)); // its name is not durable
    auto log = f.port->create("safe2");
    f.disk.power_fail();
    CHECK(f.disk.content("safe") == "synced");
    auto name = f.disk.content("name");
    (name ? kept : lost) += 1;
    if (name)
      CHECK(*name == big);
    REQUIRE(f.put("safe", "newer" + big, false));
    f.disk.power_fail();
    auto after = f.disk.content("safe");
    REQUIRE(after);
    cut += *after != "synced" && *after != "newer" + big ? 1 : 0;
    CHECK((*log)->write(bytes_of("late")).error().code == errc::io_failed);
  }
  CHECK(kept > 20);
  CHECK(lost > 20);
  CHECK(cut > 20);
}

TEST_CASE("sim disk: a torn write leaves half and the file is broken from then on") {
  fixture f;
  f.disk.inject(sim_disk::fault::torn_write, 1);
  auto file = f.port->create("x");
  CHECK((*file)->write(bytes_of("12345678")).error().code == errc::io_failed);
  CHECK(f.disk.content("x") == "1234");
  CHECK((*file)->sync().error().code == errc::io_failed);
  CHECK_FALSE(f.disk.durable_content("x"));
  REQUIRE(f.put("y", "whole", true));
}

TEST_CASE("sim disk: EIO, ENOSPC and a flipped bit come as often as asked") {
  fixture f;
  REQUIRE(f.put("x", "abc", true));
  f.disk.inject(sim_disk::fault::bit_flip, 2);
  CHECK(*f.get("x") != "abc");
  CHECK(*f.get("x") != "abc");
  CHECK(*f.get("x") == "abc");
  f.disk.inject(sim_disk::fault::no_space, 1);
  CHECK(f.put("y", "abc", true).error().code == errc::no_space);
  f.disk.inject(sim_disk::fault::io_error, 1);
  CHECK(f.port->list(".").error().code == errc::io_failed);
  CHECK(f.disk.hits(sim_disk::fault::bit_flip) == 2);
  CHECK(f.disk.hits(sim_disk::fault::no_space) == 1);
  CHECK(f.disk.hits(sim_disk::fault::io_error) == 1);
  f.disk.inject(sim_disk::fault::io_error, 5);
  f.disk.clear_faults();
  CHECK(f.port->list("."));
}

TEST_CASE("sim disk: slow operations take their time, and an ended process none") {
  fixture f;
  f.disk.inject(sim_disk::fault::slow, 3, std::chrono::milliseconds{7});
  REQUIRE(f.put("x", "abc", true));
  CHECK(f.spent == std::chrono::milliseconds{21});
  f.alive = false;
  CHECK(f.get("x").error().code == errc::io_failed);
  CHECK(f.disk.content("x") == "abc");
}

TEST_CASE("sim disk: links lead on, also as the last part, but not below a folder") {
  fixture f;
  REQUIRE(f.port->make_directories("in"));
  REQUIRE(f.port->make_directories("out"));
  REQUIRE(f.put("out/kept", "kept", true));
  REQUIRE(f.disk.make_link("out", "in/away"));
  REQUIRE(f.disk.make_link("out/kept", "in/file"));
  CHECK_FALSE(f.disk.make_link("out", "in/away"));
  CHECK(*f.get("in/away/kept") == "kept");
  CHECK(*f.get("in/file") == "kept");
  CHECK(*f.port->kind("in/away") == file_kind::link);
  CHECK(*f.port->kind("in/away/kept") == file_kind::file);
  CHECK(*f.port->kind("in/none") == file_kind::none);
  auto folder = f.port->folder("in");
  REQUIRE(folder);
  CHECK((*folder)->open("file").error().code == errc::io_failed);
  CHECK((*folder)->list("away").error().code == errc::io_failed);
  CHECK((*folder)->create("file").error().code == errc::io_failed);
  CHECK(*f.get("out/kept") == "kept");
  REQUIRE(f.put("in/file", "new", true));
  CHECK(*f.get("out/kept") == "new");
  REQUIRE((*folder)->remove("file"));
  REQUIRE((*folder)->remove("away"));
  CHECK(*f.get("out/kept") == "new");
}

TEST_CASE("sim disk: a lock has one holder, and goes with its process") {
  fixture f;
  auto held = f.port->lock("d/lock");
  REQUIRE(held);
  CHECK(f.port->lock("./d//lock").error().code == errc::try_again);
  CHECK(f.port->lock("d/other"));
  f.disk.process_gone();
  auto next = f.port->lock("d/lock");
  REQUIRE(next);
  held->reset(); // what the dead one held is not the next one's
  CHECK(f.port->lock("d/lock").error().code == errc::try_again);
  next->reset();
  CHECK(f.port->lock("d/lock"));
  f.alive = false;
  CHECK(f.port->lock("d/lock").error().code == errc::io_failed);
}
