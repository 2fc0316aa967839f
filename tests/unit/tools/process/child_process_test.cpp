// Goal: whatever a child process does, its parent learns how it ended, and it has what it is given
// and nothing else. Method: shells, and bodies in a fork.
#include <process/child_process.hpp>

#include <doctest/doctest.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../../../support/waiting.hpp"

using namespace tool;
using namespace std::chrono_literals;

namespace {

constexpr auto long_time = 20s;

child_command shell_command(const std::string& script) {
  return {.program = "/bin/sh", .arguments = {"-c", script}};
}

exit_status end_of(const child_command& command) {
  return child_process{command}.wait_or_kill(long_time);
}

child_process captured(const std::string& script, captured_output which) {
  auto command = shell_command(script);
  command.capture = which;
  return child_process{command};
}

/// Whether a process of this number is there.
bool is_there(pid_t pid) { return ::kill(pid, 0) == 0; }

} // namespace

TEST_CASE("child process: an exit code is told, and in words") {
  CHECK(end_of(shell_command("exit 0")).ok());
  const auto three = end_of(shell_command("exit 3"));
  CHECK(three == exit_status{.code = 3});
  CHECK_FALSE(three.ok());
  CHECK(to_string(three) == "ended with code 3");
}

TEST_CASE("child process: a signal is told, and in words") {
  child_process child{shell_command("kill -TERM $$")};
  CHECK(child.wait() == exit_status{.signal = SIGTERM});
  CHECK(child.code() == -SIGTERM);
  CHECK(to_string(*child.status()) == "ended by signal 15");
}

TEST_CASE("child process: while it runs it has a number and no status, then the reverse") {
  child_process sleeper{shell_command("exec sleep 100")};
  CHECK(sleeper.running());
  CHECK(sleeper.pid() > 0);
  CHECK_FALSE(sleeper.status().has_value());
  CHECK_FALSE(sleeper.wait_ended(20ms));
  sleeper.signal(SIGKILL);
  CHECK(sleeper.wait_ended(long_time));
  CHECK(sleeper.pid() == 0);
  CHECK_FALSE(sleeper.running());
  CHECK(sleeper.status() == exit_status{.signal = SIGKILL});
  sleeper.signal(SIGKILL); // nobody gets it
  CHECK(sleeper.wait() == exit_status{.signal = SIGKILL});
}

TEST_CASE("child process: one that is not done in time is killed") {
  child_process child{shell_command("exec sleep 100")};
  CHECK(child.wait_or_kill(10ms) == exit_status{.signal = SIGKILL});
  child_process quick{shell_command("exit 4")};
  CHECK(quick.wait_or_kill(long_time) == exit_status{.code = 4});
}

TEST_CASE("child process: it goes with its object, and a moved one lives on") {
  pid_t pid = 0;
  {
    child_process kept;
    CHECK(kept.pid() == 0);
    CHECK_FALSE(kept.running());
    child_process child{shell_command("exec sleep 100")};
    pid = child.pid();
    kept = std::move(child);
    CHECK(kept.pid() == pid);
    CHECK(kept.running());
    child_process other{shell_command("exec sleep 100")};
    const auto second = other.pid();
    other = std::move(kept);
    CHECK(other.pid() == pid);
    CHECK_FALSE(is_there(second)); // who was there before is killed and collected
  }
  CHECK_FALSE(is_there(pid));
}

TEST_CASE("child process: a program that is not there can't be started, and the reason is told") {
  const auto why = [](const std::string& program) -> int {
    try {
      child_process{child_command{.program = program, .descriptors = std::vector<int>{}}};
    } catch (const std::system_error& e) {
      CHECK(std::string{e.what()}.find(program) != std::string::npos);
      return e.code().value();
    }
    return 0;
  };
  CHECK(why("/no/such/program") == ENOENT);
  CHECK(why("/") == EACCES);
  CHECK(why("no-such-program-in-any-path") == ENOENT);
  CHECK(end_of({.program = "true"}).ok()); // looked for in PATH
}

TEST_CASE("child process: output comes line by line, a last line without an end too") {
  auto command = shell_command("printf 'one\\ntwo\\n\\nthree'; echo aside >&2");
  const descriptor nowhere{::open("/dev/null", O_WRONLY)};
  command.capture = captured_output::output;
  command.options.errors_to = nowhere.get();
  child_process child{command};
  CHECK(child.read_line(long_time) == "one");
  CHECK(child.read_line(long_time) == "two");
  CHECK(child.read_line(long_time) == "");
  CHECK(child.read_line(long_time) == "three");
  CHECK_FALSE(child.read_line(long_time).has_value());
  CHECK(child.wait().ok());
}

TEST_CASE("child process: a line that does not come is not waited for beyond the limit") {
  auto child = captured("echo begun; exec sleep 100", captured_output::output);
  CHECK(child.read_line(long_time) == "begun");
  CHECK_FALSE(child.read_line(10ms).has_value());
  CHECK(child.running());
}

TEST_CASE("child process: all output to the end, both kinds in their order") {
  auto child = captured("echo one; echo two >&2; printf three", captured_output::output_and_errors);
  CHECK(child.read_line(long_time) == "one");
  CHECK(child.read_rest() == "two\nthree");
  CHECK(child.read_rest().empty());
  CHECK(child.wait().ok());
  // More than a pipe holds.
  auto large = captured("i=0; while [ $i -lt 20000 ]; do echo 123456789; i=$((i+1)); done",
                        captured_output::output);
  CHECK(large.read_rest().size() == 200'000);
}

TEST_CASE("child process: variables are set beside those of this process, or instead of them") {
  ::setenv("TROUPE_CHILD_TEST_A", "ours", 1);
  ::setenv("TROUPE_CHILD_TEST_B", "ours", 1);
  auto command = shell_command(
    "[ \"$TROUPE_CHILD_TEST_A\" = ours ] && [ \"$TROUPE_CHILD_TEST_B\" = theirs ] && "
    "[ \"$TROUPE_CHILD_TEST_C\" = 'a=b c' ]");
  command.environment = {{"TROUPE_CHILD_TEST_B", "theirs"}, {"TROUPE_CHILD_TEST_C", "a=b c"}};
  CHECK(end_of(command).ok());
  CHECK(std::getenv("TROUPE_CHILD_TEST_C") == nullptr);
  // Each once: a shell would take the last of two, getenv the first.
  child_process lister{child_command{
    .program = "env", .environment = command.environment, .capture = captured_output::output}};
  std::vector<std::string> seen;
  while (const auto line = lister.read_line(long_time))
    if (line->starts_with("TROUPE_CHILD_TEST_B="))
      seen.push_back(*line);
  CHECK(seen == std::vector<std::string>{"TROUPE_CHILD_TEST_B=theirs"});
  ::unsetenv("TROUPE_CHILD_TEST_A");
  ::unsetenv("TROUPE_CHILD_TEST_B");
}

TEST_CASE("child process: this program runs again under its own name") {
  const auto path = own_program();
  CHECK(::access(path.c_str(), X_OK) == 0);
  CHECK(
    end_of({.program = path, .arguments = {"--version"}, .capture = captured_output::output}).ok());
  auto named = shell_command("[ \"$0\" = another ]");
  named.name = "another"; // of argv[0], which `sh -c` calls itself by
  CHECK(end_of(named).ok());
}

TEST_CASE("child process: it may have a group of its own") {
  auto command =
    shell_command("read pid comm state parent group rest < /proc/self/stat; echo $group");
  command.capture = captured_output::output;
  CHECK(child_process{command}.read_line(long_time) == std::to_string(::getpgrp()));
  command.options.own_group = true;
  child_process alone{command};
  const auto pid = alone.pid();
  CHECK(alone.read_line(long_time) == std::to_string(pid));
}

TEST_CASE("child process: a started program has no signal blocked, whatever is here") {
  sigset_t some, before;
  ::sigemptyset(&some);
  ::sigaddset(&some, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &some, &before);
  child_process child{shell_command("kill -TERM $$; exit 0")};
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  CHECK(child.wait_or_kill(long_time) == exit_status{.signal = SIGTERM});
}

TEST_CASE("child process: a body's result is the exit code, and what it throws is 99") {
  child_process seven{[] { return 7; }};
  CHECK(seven.wait() == exit_status{.code = 7});
  child_process threw{[]() -> int {
    ::close(STDERR_FILENO); // it says why
    throw std::runtime_error{"it broke"};
  }};
  CHECK(threw.wait() == exit_status{.code = 99});
  child_process threw_a_number{[]() -> int {
    ::close(STDERR_FILENO);
    throw 5;
  }};
  CHECK(threw_a_number.wait() == exit_status{.code = 99});
  child_process killed{[]() -> int {
    ::raise(SIGKILL);
    return 0;
  }};
  CHECK(killed.wait() == exit_status{.signal = SIGKILL});
}

TEST_CASE("child process: limits hold in the child and not here") {
  rlimit memory{};
  child_process child{[] {
                        rlimit core_there{}, memory_there{};
                        ::getrlimit(RLIMIT_CORE, &core_there);
                        ::getrlimit(RLIMIT_AS, &memory_there);
                        const bool good = core_there.rlim_cur == 0 && core_there.rlim_max == 0
                                          && memory_there.rlim_cur == std::uint64_t{1} << 40;
                        return good ? 0 : 1;
                      },
                      {.address_space_bytes_max = std::uint64_t{1} << 40, .core_file = false}};
  CHECK(child.wait().ok());
  REQUIRE(::getrlimit(RLIMIT_AS, &memory) == 0);
  CHECK(memory.rlim_cur != std::uint64_t{1} << 40);
}

TEST_CASE("child process: it dies with its parent") {
  // A child that starts another, says its number and is killed.
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  child_process parent{[&]() -> int {
    child_process grandchild{shell_command("exec sleep 100")};
    const pid_t pid = grandchild.pid();
    (void)!::write(ends[1], &pid, sizeof pid);
    for (;;)
      ::pause();
  }};
  pid_t grandchild = 0;
  REQUIRE(::read(ends[0], &grandchild, sizeof grandchild) == sizeof grandchild);
  CHECK(is_there(grandchild));
  parent.signal(SIGKILL);
  parent.wait();
  // Whoever inherits it has to collect it too: a zombie is as good as gone.
  CHECK(troupe::testing::eventually([&] {
    child_process look{shell_command("read pid comm state rest < /proc/"
                                     + std::to_string(grandchild)
                                     + "/stat 2> /dev/null && [ $state != Z ]")};
    return !look.wait().ok();
  }));
  ::close(ends[0]);
  ::close(ends[1]);
}
