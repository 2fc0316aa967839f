// Goal: `troupe checkpoint export` takes its arguments, writes what it says, and names what is
// wrong.
#include "checkpoint_export.hpp"
#include "cli.hpp"

#include <doctest/doctest.h>

#include <string>

#include <troupe/actors/checkpoint/checkpoint_format.hpp>

#include "../../support/fake_storage.hpp"

namespace {

namespace tr = troupe;

std::string usage(std::vector<std::string> arguments) {
  const auto command = tool::parse_command(std::move(arguments));
  const auto* wrong = std::get_if<tool::usage_error>(&command);
  return wrong ? wrong->text : "accepted";
}

} // namespace

TEST_CASE("cli: checkpoint export takes a directory and an archive, and refuses the rest by name") {
  const auto got = std::get<tool::export_command>(
    tool::parse_command({"checkpoint", "export", "dir", "out.npz", "--slots"}));
  CHECK(got.directory == "dir");
  CHECK(got.file == "out.npz");
  CHECK(got.slots);
  CHECK(usage({"checkpoint", "export", "dir", "out.txt"})
        == "checkpoint export: the file is 'out.txt', expected FILE.npz");
  CHECK(usage({"checkpoint", "export", "dir"}).find("file") != std::string::npos);
  CHECK(usage({"checkpoint"}) != "accepted");
  const auto help = tool::parse_command({"checkpoint", "export", "--help"});
  CHECK(std::get<tool::print_command>(help).text.find("--slots") != std::string::npos);
}

TEST_CASE("checkpoint export: the line says what was taken and what was written") {
  tr::testing::fake_storage disk;
  tr::checkpoint_writer writer{disk, "dir"};
  writer.begin().value_or_throw();
  writer.add_slice("w", tr::dtype::f32, {2}, "value", 0, tr::tensor::vector<float>({1, 2}))
    .value_or_throw();
  writer.commit().value_or_throw();
  CHECK(tool::run_export(disk, {.directory = "dir", .file = "out.npz"})
        == "exported dir/ckpt-1 to out.npz: 1 array, 8 bytes");
  CHECK(tr::read_npz(disk, "out.npz").value_or_throw()[0].value
        == tr::tensor::vector<float>({1, 2}));
  try {
    (void)tool::run_export(disk, {.directory = "none", .file = "out.npz"});
    FAIL("exported nothing");
  } catch (const tr::error& why) {
    CHECK(why.code() == tr::errc::not_found);
    CHECK(why.details().text.find("none") != std::string::npos);
  }
}
