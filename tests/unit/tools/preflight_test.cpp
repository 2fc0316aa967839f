// Goal: what would end a training later is told before it, with the flag and the value. Method:
// directories that are not there, that are files, that are in order.
#include "preflight.hpp"
#include "../../support/failures.hpp"
#include "../../support/scratch_folder.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <sys/stat.h>
#include <unistd.h>

#include <troupe/core/production_ports.hpp>
#include <troupe/transport/memory_transport.hpp>

namespace {

namespace tr = troupe;
using namespace troupe::testing;

struct bench {
  tr::testing::scratch_folder folder{};
  const std::filesystem::path path = folder.path();
  std::unique_ptr<tr::production_ports> ports = tr::make_production_ports();
  std::unique_ptr<tr::data_transport> transport = tr::make_memory_transport(ports->waits());
  tr::environment env{ports->clock(), ports->random(), ports->storage(), ports->threads(),
                      ports->waits(), *transport,      nullptr};
};

} // namespace

TEST_CASE("preflight: a data set that is not there is named with flag, directory and package") {
  const bench at;
  const auto why = failure_of([&] { tool::check_data(at.env, "/tmp/nosuch"); });
  CHECK(why.code == tr::errc::not_found);
  CHECK(says(why, "--data is '/tmp/nosuch'"));
  CHECK(says(why, "train-images-idx3-ubyte.gz"));
  CHECK(says(why, "Debian package dataset-fashion-mnist"));
  for (const char* name : {"/train-images-idx3-ubyte.gz", "/train-labels-idx1-ubyte.gz"})
    std::ofstream{at.path.string() + name} << "x";
  CHECK(says(failure_of([&] { tool::check_data(at.env, at.path.string()); }), "t10k-"));
}

TEST_CASE("preflight: a directory for checkpoints is made, and left as it was found") {
  const bench at;
  const auto fresh = at.path / "a" / "b";
  tool::check_checkpoint_directory(at.env, fresh.string());
  CHECK(std::filesystem::is_empty(fresh));
  std::ofstream{fresh / "kept"} << "x";
  tool::check_checkpoint_directory(at.env, fresh.string());
  CHECK(std::filesystem::exists(fresh / "kept"));
}

TEST_CASE("preflight: a directory that cannot be written to is named with its flag") {
  const bench at;
  std::ofstream{at.path / "file"} << "x";
  for (const std::string& bad :
       {std::string{"/proc/nosuch"}, std::string{"/proc"}, (at.path / "file").string()}) {
    const auto why = failure_of([&] { tool::check_checkpoint_directory(at.env, bad); });
    CHECK(why.code == tr::errc::bad_config);
    CHECK(says(why, "--checkpoint is '" + bad + "'"));
  }
}

TEST_CASE("preflight: a probe's name that is a link overwrites nothing, and hangs on no FIFO") {
  const bench at;
  std::ofstream{at.path / "precious"} << "precious";
  const auto folder = at.path / "ckpts";
  std::filesystem::create_directories(folder);
  std::filesystem::create_symlink(at.path / "precious", folder / ".troupe-probe");
  tool::check_checkpoint_directory(at.env, folder.string());
  std::ifstream in{at.path / "precious"};
  std::string text;
  in >> text;
  CHECK(text == "precious");
  CHECK(std::filesystem::is_empty(folder));
  REQUIRE(::mkfifo((folder / ".troupe-probe").c_str(), 0600) == 0);
  tool::check_checkpoint_directory(at.env, folder.string());
  CHECK(std::filesystem::is_empty(folder));
}
