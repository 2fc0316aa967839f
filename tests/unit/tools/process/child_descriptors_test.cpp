// Goal: a process has the descriptors that are handed down to it and no other of its parent.
// Method: a shell that reads its numbered files and looks for others.
#include <process/child_process.hpp>

#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <vector>

namespace {

/// A file in memory with a text in it, at least at number `from`.
int file_with(const std::string& text, int from = 0) {
  const int made = ::memfd_create("child-test", MFD_CLOEXEC);
  REQUIRE(::write(made, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  REQUIRE(::lseek(made, 0, SEEK_SET) == 0);
  const int fd =
    ::fcntl(made, F_DUPFD, from); // without close-on-exec: only the child process closes it
  ::close(made);
  REQUIRE(fd >= 0);
  return fd;
}

int ends_with(const std::string& script, const std::vector<int>& handed_down) {
  return tool::child_process{tool::child_command{.program = "/bin/sh",
                                                 .arguments = {"-c", script},
                                                 .descriptors = handed_down}}
    .wait()
    .code;
}

} // namespace

TEST_CASE("child process: it has the files that are handed down to it, in their order") {
  const int a = file_with("first", 40);
  const int b = file_with("second");
  CHECK(ends_with("[ \"$(cat <&3)\" = first ] && [ \"$(cat <&4)\" = second ]", {a, b}) == 0);
  CHECK(ends_with("[ \"$(cat <&3)\" = first ]", {b}) == 1);
  ::close(a);
  ::close(b);
}

TEST_CASE("child process: files may be handed down at each other's numbers") {
  // Where a child finds them is where they lie here, the other way round.
  const int a = file_with("first", tool::handed_down(1));
  const int b = file_with("second", tool::handed_down(0));
  CHECK(ends_with("[ \"$(cat <&3)\" = first ] && [ \"$(cat <&4)\" = second ]", {a, b}) == 0);
  ::close(a);
  ::close(b);
}

TEST_CASE("child process: it has no file that was not handed down") {
  const int kept = file_with("kept", 50);
  const int handed = file_with("handed", 60);
  const auto is_open = [](int fd) { return "[ -e /proc/self/fd/" + std::to_string(fd) + " ]"; };
  CHECK(ends_with(is_open(kept), {handed}) == 1);
  CHECK(ends_with(is_open(handed), {handed}) == 1); // there under its new number alone
  CHECK(ends_with(is_open(3), {handed}) == 0);
  CHECK(ends_with(is_open(3), {}) == 1);
  ::close(kept);
  ::close(handed);
}

TEST_CASE("child process: a file that is not open cannot be handed down") {
  CHECK_THROWS_WITH(ends_with("true", {900}), "cannot hand file 900 down");
}
