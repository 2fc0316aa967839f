// The program as a user types it: training in one process and over processes, through kills, its
// last lines, its errors.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include <troupe/troupe.hpp>

#include "../support/processes.hpp"
#include "../support/scratch_folder.hpp"

namespace {

using troupe::testing::child_process;

struct outcome {
  int code = -1;
  std::string text{};
};

/// Runs a shell command line with `troupe` standing for the program; both outputs.
outcome run(std::string line) {
  const char* program = std::getenv("TROUPE_BIN");
  REQUIRE(program != nullptr);
  line = "troupe() { command " + std::string{program} + " \"$@\"; }; " + line;
  child_process shell{tool::child_command{.program = "bash",
                                          .arguments = {"-c", line},
                                          .capture = tool::captured_output::output_and_errors}};
  outcome out;
  out.text = shell.read_rest();
  out.code = shell.wait().code;
  return out;
}

/// The number after `label` in the last line that begins with it.
std::optional<double> number_after(const std::string& text, const std::string& label) {
  std::optional<double> out;
  std::istringstream lines{text};
  for (std::string line; std::getline(lines, line);)
    if (line.rfind(label, 0) == 0)
      out = std::atof(line.c_str() + label.size());
  return out;
}

/// Processes on this machine whose command line holds `text`.
int count_processes(const std::string& text) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator{"/proc"}) {
    std::ifstream file{entry.path() / "cmdline"};
    std::string line{std::istreambuf_iterator<char>{file}, {}};
    for (auto& c : line)
      c = c == '\0' ? ' ' : c;
    count += line.find(text) != std::string::npos;
  }
  return count;
}

/// Runs the program until what it says holds all of `texts`, then ends it. All that it has said.
std::string run_until(const std::string& arguments, const std::vector<std::string>& texts,
                      std::chrono::seconds limit) {
  const char* path = std::getenv("TROUPE_BIN");
  REQUIRE(path != nullptr);
  child_process program{
    tool::child_command{.program = "sh",
                        .arguments = {"-c", "exec " + std::string{path} + " " + arguments},
                        .capture = tool::captured_output::output_and_errors}};
  const auto until = std::chrono::steady_clock::now() + limit;
  const auto has_all = [&](const std::string& said) {
    return std::all_of(texts.begin(), texts.end(), [&](const std::string& each) {
      return said.find(each) != std::string::npos;
    });
  };
  std::string said;
  bool ended = false; // every line comes in time: kills and stops are told
  while (const auto line = program.read_line(std::chrono::minutes{10})) {
    said += *line + '\n';
    if (!ended && (has_all(said) || std::chrono::steady_clock::now() > until)) {
      ended = true;
      program.signal(SIGTERM);
    }
  }
  program.wait();
  return said;
}

} // namespace

TEST_CASE("one process: an epoch of training ends with the lines that add up") {
  auto seen = run("troupe train fashion_mnist --epochs 1");
  CAPTURE(seen.text);
  CHECK(seen.code == 0);
  CHECK(std::regex_search(seen.text, std::regex{"closures: scheduled \\d+ run 937 retried \\d+"}));
  CHECK(std::regex_search(seen.text, std::regex{"pushes: applied \\d+ duplicates 0"}));
  CHECK(std::regex_search(seen.text, std::regex{"ps:0 shards \\d+ bytes \\d+ pushes \\d+"}));
  CHECK(std::regex_search(seen.text, std::regex{"ps:1 shards \\d+ bytes \\d+ pushes \\d+"}));
  CHECK(number_after(seen.text, "updates lost: ") == 0.0);
  CHECK(number_after(seen.text, "updates doubled: ") == 0.0);
  CHECK(number_after(seen.text, "test accuracy: ").value_or(0) > 0.8);
  CHECK(seen.text.find("kills:") == std::string::npos);
}

TEST_CASE("replicas: every strategy trains the same model, and its copies stay equal") {
  for (const char* strategy : {"one_device", "mirrored", "central_storage", "tpu"}) {
    auto seen =
      run(std::string{"troupe train fashion_mnist --epochs 1 --replicas 2 --strategy "} + strategy);
    CAPTURE(seen.text);
    CHECK(seen.code == 0);
    CHECK(number_after(seen.text, "trained: ") == 938.0);
    CHECK(number_after(seen.text, "replicas: ")
          == (std::string{strategy} == "one_device" ? 1.0 : 2.0));
    CHECK(number_after(seen.text, "copies that differ: ") == 0.0);
    CHECK(number_after(seen.text, "test accuracy: ").value_or(0) > 0.8);
  }
  const auto before = count_processes("troupe train");
  auto workers = run(
    "troupe train fashion_mnist --epochs 1 --replicas 1 --processes --workers 3 "
    "--strategy multi_worker_mirrored");
  CAPTURE(workers.text);
  CHECK(workers.code == 0);
  CHECK(number_after(workers.text, "replicas: ") == 3.0);
  CHECK(number_after(workers.text, "copies that differ: ") == 0.0);
  CHECK(number_after(workers.text, "test accuracy: ").value_or(0) > 0.8);
  CHECK(count_processes("troupe train") == before);
  auto one = run("troupe train fashion_mnist --strategy mirrored --processes");
  CHECK(one.code == 64);
  CHECK(one.text.find("--processes") != std::string::npos);
  auto unknown = run("troupe train fashion_mnist --strategy fastest");
  CHECK(unknown.code == 64);
  CHECK(unknown.text.find("fastest") != std::string::npos);
}

TEST_CASE("processes: equal workers are killed, and the same weights come of it") {
  troupe::testing::scratch_folder at;
  const std::string train =
    "troupe train fashion_mnist --epochs 12 --replicas 1 --processes "
    "--workers 3 --strategy multi_worker_mirrored";
  auto calm = run(train);
  auto before = count_processes("troupe train");
  auto seen = run(train + " --checkpoint-every 20 --kill worker:every=2s --checkpoint "
                  + (at.path() / "saved").string());
  CAPTURE(seen.text);
  CHECK(seen.code == 0);
  CHECK(number_after(seen.text, "processes killed: ").value_or(0) >= 1);
  CHECK(number_after(seen.text, "copies that differ: ") == 0.0);
  CHECK(number_after(seen.text, "test accuracy: ") == number_after(calm.text, "test accuracy: "));
  CHECK(count_processes("troupe train") == before);
}

TEST_CASE("processes: equal workers that get no further say so, and why, and end when asked") {
  troupe::testing::scratch_folder at;
  const auto before = count_processes("troupe train");
  const std::string train =
    "train fashion_mnist --epochs 1000 --replicas 1 --processes --workers 3 "
    "--strategy multi_worker_mirrored --checkpoint-every 1000000 --checkpoint "
    + (at.path() / "saved").string();
  const std::string saves = "a checkpoint is saved every 1000000 steps";
  const auto killed = run_until(train + " --kill worker:every=700ms",
                                {"no progress for ", saves, "processes exited before", "worker:2"},
                                std::chrono::seconds{60});
  CAPTURE(killed);
  CHECK(killed.find("no progress for ") != std::string::npos);
  CHECK(killed.find(saves) != std::string::npos);
  CHECK(killed.find("processes exited before the next: worker:0 ") != std::string::npos);
  const auto stopped =
    run_until(train + " --kill worker:every=3s,signal=STOP,resume=6s",
              {"no progress for ", "a step needs all workers", "a step waits for worker:"},
              std::chrono::seconds{90});
  CAPTURE(stopped);
  CHECK(stopped.find("processes were stopped: ") != std::string::npos);
  CHECK(stopped.find("a step waits for worker:") != std::string::npos); // by the workers
  CHECK(count_processes("troupe train") == before);
}

TEST_CASE("processes: an equal worker that another hand kills comes back, as any worker does") {
  troupe::testing::scratch_folder at;
  const auto saved = (at.path() / "saved").string();
  const auto before = count_processes("troupe train");
  auto seen = run(
    "$TROUPE_BIN train fashion_mnist --epochs 4 --replicas 1 --processes --workers 2 "
    "--strategy multi_worker_mirrored --checkpoint-every 20 --checkpoint "
    + saved + " & launcher=$!; for i in $(seq 600); do ls " + saved
    + "/ckpt-2* >/dev/null 2>&1 && break; sleep 0.05; done; "
      "set -- $(cat /proc/$launcher/task/$launcher/children); kill -9 $2; wait $launcher");
  CAPTURE(seen.text);
  CHECK(seen.code == 0);
  CHECK(seen.text.find("worker:1 ended by signal 9, start 1") != std::string::npos);
  CHECK(seen.text.find("started again: 1") != std::string::npos);
  CHECK(number_after(seen.text, "copies that differ: ") == 0.0);
  CHECK(count_processes("troupe train") == before);
}

TEST_CASE("processes: workers are killed, nothing is lost or doubled, no child is left") {
  auto before = count_processes("troupe serve");
  auto seen = run(
    "troupe train fashion_mnist --processes --workers 3 --ps 2 --seconds 6 --kill worker:every=1s");
  CAPTURE(seen.text);
  CHECK(seen.code == 0);
  CHECK(number_after(seen.text, "kills: ").value_or(0) >= 3);
  CHECK(number_after(seen.text, "fenced: ").value_or(0) >= 3);
  CHECK(number_after(seen.text, "updates lost: ") == 0.0);
  CHECK(number_after(seen.text, "updates doubled: ") == 0.0);
  CHECK(seen.text.find("processes: 6 of 6 exited with code 0") != std::string::npos);
  CHECK(std::regex_search(seen.text, std::regex{"killed worker:\\d pid \\d+ incarnation \\d"}));
  CHECK(count_processes("troupe serve") == before);
}

TEST_CASE("processes: a stopped worker is fenced and comes back") {
  auto seen = run(
    "troupe train fashion_mnist --processes --workers 2 --ps 1 --seconds 9 "
    "--kill worker:every=3s,signal=STOP,resume=4s");
  CAPTURE(seen.text);
  CHECK(seen.code == 0);
  CHECK(number_after(seen.text, "fenced: ").value_or(0) >= 1);
  CHECK(number_after(seen.text, "updates lost: ") == 0.0);
  CHECK(number_after(seen.text, "updates doubled: ") == 0.0);
  CHECK(seen.text.find("processes: 4 of 4 exited with code 0") != std::string::npos);
}

TEST_CASE("by hand: coordinator, two workers and two servers from one cluster file") {
  troupe::testing::scratch_folder at;
  auto port = 20'000 + static_cast<int>(getpid() % 20'000);
  auto address = [&](int i) { return "\"127.0.0.1:" + std::to_string(port + i) + "\""; };
  std::ofstream{at.path() / "cluster.json"}
    << "{\"cluster\": {\"chief\": [" << address(0) << "], \"worker\": [" << address(1) << ", "
    << address(2) << "], \"ps\": [" << address(3) << ", " << address(4) << "]}}";
  auto serve = "troupe serve --cluster " + (at.path() / "cluster.json").string() + " --task ";
  auto seen = run(serve + "ps:0 & " + serve + "ps:1 & " + serve + "worker:0 & " + serve
                  + "worker:1 & " + serve + "chief --epochs 1; code=$?; wait; exit $code");
  CAPTURE(seen.text);
  CHECK(seen.code == 0);
  CHECK(number_after(seen.text, "updates lost: ") == 0.0);
  CHECK(number_after(seen.text, "test accuracy: ").value_or(0) > 0.8);
}

TEST_CASE(
  "TF_CONFIG in the environment of --processes changes nothing: what is said by hand wins") {
  auto seen =
    run("TF_CONFIG=\"{}\" troupe train fashion_mnist --processes --workers 1 --ps 1 --epochs 1");
  CAPTURE(seen.text);
  CHECK(seen.code == 0);
  CHECK(seen.text.find("processes: 3 of 3 exited with code 0") != std::string::npos);
}

TEST_CASE("a checkpoint is resumed where it ended") {
  troupe::testing::scratch_folder at;
  auto flags = "troupe train fashion_mnist --checkpoint " + at.path().string() + " ";
  auto first = run(flags + "--epochs 1");
  CAPTURE(first.text);
  REQUIRE(first.code == 0);
  auto second = run(flags + "--epochs 2 --resume");
  CAPTURE(second.text);
  CHECK(second.code == 0);
  CHECK(std::regex_search(
    second.text, std::regex{"closures: scheduled \\d+ run 937 "})); // the second epoch only
}

TEST_CASE("replicas: on a device their gradients are computed and summed there") {
  for (const char* strategy : {"one_device", "mirrored", "multi_worker_mirrored"}) {
    auto seen = run(std::string{"troupe train fashion_mnist --epochs 1 --device cpu:1 --strategy "}
                    + strategy);
    CAPTURE(seen.text);
    CHECK(seen.code == 0);
    CHECK(number_after(seen.text, "replicas: ") == 1.0);
    CHECK(number_after(seen.text, "test accuracy: ").value_or(0) > 0.8);
  }
  auto workers = run(
    "troupe train fashion_mnist --epochs 1 --device cpu:0 --processes --workers 2 --stats "
    "--strategy multi_worker_mirrored");
  CAPTURE(workers.text);
  CHECK(workers.code == 0);
  CHECK(number_after(workers.text, "replicas: ") == 2.0);
  CHECK(number_after(workers.text, "copies that differ: ") == 0.0);
  CHECK(number_after(workers.text, "test accuracy: ").value_or(0) > 0.8);
  for (const char* task : {"stats worker:0: ", "stats worker:1: "})
    CHECK(workers.text.find(task) != std::string::npos);
}

TEST_CASE("a checkpoint that cannot be is told before the training") {
  for (const char* how :
       {"", "--processes --workers 1 --ps 1", "--strategy mirrored",
        "--strategy multi_worker_mirrored --processes --workers 2 --replicas 1"}) {
    auto seen = run(std::string{"troupe train fashion_mnist --checkpoint /proc/nosuch "} + how);
    CAPTURE(seen.text);
    CHECK(seen.code == 64);
    CHECK(seen.text.find("--checkpoint is '/proc/nosuch'") != std::string::npos);
    CHECK_FALSE(number_after(seen.text, "trained: ").has_value());
  }
}

TEST_CASE("--resume where nothing was saved is an error, not a start from nothing") {
  troupe::testing::scratch_folder at;
  const auto nothing = (at.path() / "nothing").string();
  for (const char* how :
       {"", "--strategy mirrored",
        "--strategy multi_worker_mirrored --processes --workers 2 --replicas 1"}) {
    auto seen = run("troupe train fashion_mnist --resume --checkpoint " + nothing + " " + how);
    CAPTURE(seen.text);
    CHECK(seen.code == 1);
    CHECK(seen.text.find(nothing) != std::string::npos);
    CHECK(seen.text.find("--resume: no checkpoint found") != std::string::npos);
    CHECK(seen.text.find("list ")
          == std::string::npos); // what the storage was asked is nobody's matter
    CHECK_FALSE(std::filesystem::exists(nothing));
  }
}

TEST_CASE("workers by hand: each has TF_CONFIG and a token") {
  const auto port = 20'000 + static_cast<int>((getpid() + 100) % 20'000);
  const auto worker = [&](int i) {
    return "TF_CONFIG=\"{\\\"cluster\\\": {\\\"worker\\\": [\\\"127.0.0.1:" + std::to_string(port)
           + "\\\", \\\"127.0.0.1:" + std::to_string(port + 1)
           + "\\\"]}, \\\"task\\\": {\\\"type\\\": \\\"worker\\\", \\\"index\\\": "
           + std::to_string(i)
           + "}}\" TROUPE_TOKEN=secret troupe train fashion_mnist --epochs 1 --replicas 1 "
             "--strategy multi_worker_mirrored";
  };
  auto seen = run(worker(1) + " & " + worker(0) + "; code=$?; wait; exit $code");
  CAPTURE(seen.text);
  CHECK(seen.code == 0);
  CHECK(number_after(seen.text, "replicas: ") == 2.0);
  CHECK(number_after(seen.text, "copies that differ: ") == 0.0);
}

TEST_CASE("bad input gets one line that names it") {
  auto flag = run("troupe train fashion_mnist --no-such-flag");
  CHECK(flag.code == 64);
  CHECK(flag.text.find("no-such-flag") != std::string::npos);
  auto data = run("troupe train fashion_mnist --data /nowhere");
  CHECK(data.code != 0);
  CHECK(data.text.find("/nowhere") != std::string::npos);
  for (const char* strategy : {"parameter_server", "mirrored"}) {
    auto missing =
      run(std::string{"troupe train fashion_mnist --data /nowhere --strategy "} + strategy);
    CHECK(missing.code == 1);
    CHECK(missing.text.find("--data is '/nowhere'") != std::string::npos);
    CHECK(missing.text.find("dataset-fashion-mnist") != std::string::npos);
  }
  auto alone = run("troupe train fashion_mnist --strategy multi_worker_mirrored --workers 3");
  CHECK(alone.code == 64);
  CHECK(alone.text.find("--workers 3") != std::string::npos);
  auto serve = run("troupe serve --task worker:0 --strategy multi_worker_mirrored");
  CHECK(serve.code == 64);
  CHECK(serve.text.find("serve supports --strategy") != std::string::npos);
  auto kill = run("troupe train fashion_mnist --processes --kill worker:every=fast");
  CHECK(kill.code != 0);
  CHECK(kill.text.find("fast") != std::string::npos);
  auto config = run("TF_CONFIG=nonsense troupe serve --task worker:0");
  CHECK(config.code != 0);
  CHECK(config.text.find("TF_CONFIG") != std::string::npos);
}

TEST_CASE("how long workers and servers wait for their coordinator was fixed: --coordinator-lost") {
  auto seen = run(
    "troupe serve --task worker:0 --coordinator 127.0.0.1:9 --coordinator-lost 1.5; echo code $?");
  CAPTURE(seen.text);
  CHECK(seen.text.find("no coordinator at 127.0.0.1:9 for 1500 ms") != std::string::npos);
  CHECK(seen.text.find("code 69") != std::string::npos);
  auto bad = run("troupe serve --task worker:0 --coordinator 127.0.0.1:9 --coordinator-lost soon");
  CHECK(bad.code == 64);
  CHECK(bad.text.find("--coordinator-lost") != std::string::npos);
}

TEST_CASE("a start that fails names who is missing, and ends with 69 all who came") {
  troupe::testing::scratch_folder at;
  auto port = 20'000 + static_cast<int>((getpid() + 200) % 20'000);
  auto address = [&](int i) { return "\"127.0.0.1:" + std::to_string(port + i) + "\""; };
  std::ofstream{at.path() / "cluster.json"} << "{\"cluster\": {\"chief\": [" << address(0)
                                            << "], \"worker\": [" << address(1) << "], \"ps\": ["
                                            << address(2) << ", " << address(3) << "]}}";
  auto serve = "troupe serve --cluster " + (at.path() / "cluster.json").string() + " --task ";
  auto seen = run(serve + "ps:0 & pid=$!; " + serve
                  + "chief --epochs 1 --start-timeout 7; echo chief $?; wait $pid; echo ps $?");
  CAPTURE(seen.text);
  const auto missing = "missing: ps:1 (127.0.0.1:" + std::to_string(port + 3)
                       + "), worker:0 (127.0.0.1:" + std::to_string(port + 1) + ")";
  CHECK(seen.text.find("troupe: start: after 5") != std::string::npos); // said while it waits
  CHECK(seen.text.find(missing) != std::string::npos);
  CHECK(seen.text.find("chief 69") != std::string::npos);
  CHECK(seen.text.find("ps 69") != std::string::npos);
}

TEST_CASE("a command that is mistyped was said to be required; --version was unknown") {
  auto trian = run("troupe trian fashion_mnist");
  CHECK(trian.code != 0);
  CHECK(trian.text.find("unknown command ") != std::string::npos);
  CHECK(trian.text.find("train") != std::string::npos);
  auto version = run("troupe --version");
  CHECK(version.code == 0);
  CHECK(std::regex_search(version.text, std::regex{"^troupe \\d+\\.\\d+"}));
}

TEST_CASE("TF_CONFIG with a task and no cluster trained alone, and ended well") {
  for (const char* strategy : {"multi_worker_mirrored", "parameter_server", "mirrored"}) {
    auto seen = run(
      "TF_CONFIG=\"{\\\"sparseCluster\\\": {}, \\\"task\\\": {\\\"type\\\": \\\"worker\\\", "
      "\\\"index\\\": 0}}\" troupe train fashion_mnist --epochs 1 --strategy "
      + std::string{strategy});
    CAPTURE(seen.text);
    CHECK(seen.code != 0);
    CHECK(seen.text.find("TF_CONFIG") != std::string::npos);
    CHECK_FALSE(number_after(seen.text, "trained: ").has_value());
  }
}

TEST_CASE("a limit on file sizes killed a save by SIGXFSZ: it is an error that names the file") {
  troupe::testing::scratch_folder at;
  const auto saved = (at.path() / "saved").string();
  for (const char* how : {"", "--strategy mirrored"}) {
    auto seen =
      run("ulimit -f 64; troupe train fashion_mnist --epochs 1 --checkpoint " + saved + " " + how);
    CAPTURE(seen.text);
    CHECK(seen.code > 0); // not a signal: that would be -1, or 153 of a shell
    CHECK(seen.code < 128);
    CHECK(seen.text.find(saved) != std::string::npos);
    CHECK(seen.text.find("File too large") != std::string::npos);
    CHECK(seen.text.find("ulimit -f") != std::string::npos);
  }
}

TEST_CASE(
  "a worker with another token: it is told to set TROUPE_TOKEN, and the coordinator logs it") {
  troupe::testing::scratch_folder at;
  const auto port = 20'000 + static_cast<int>((getpid() + 300) % 20'000);
  const auto coordinator =
    "--coordinator 127.0.0.1:" + std::to_string(port) + " --workers 1 --ps 1";
  auto seen = run("TROUPE_TOKEN=right troupe serve --task chief --epochs 1 " + coordinator + " >"
                  + (at.path() / "chief").string()
                  + " 2>&1 & chief=$!; TROUPE_TOKEN=wrong troupe serve --task worker:0 "
                  + coordinator + "; code=$?; troupe serve --task worker:0 " + coordinator
                  + "; kill $chief; wait $chief; exit $code");
  CAPTURE(seen.text);
  CHECK(seen.code != 0);
  CHECK(seen.text.find("its token is not the coordinator") != std::string::npos);
  CHECK(seen.text.find("it has no token, but the coordinator requires one") != std::string::npos);
  CHECK(seen.text.find("TROUPE_TOKEN") != std::string::npos);
  std::ifstream file{at.path() / "chief"};
  const std::string log{std::istreambuf_iterator<char>{file}, {}};
  CAPTURE(log);
  CHECK(log.find("refused: wrong_peer: hello of worker:0: its token is not the coordinator")
        != std::string::npos);
  CHECK(log.find("it has no token") != std::string::npos);
}

TEST_CASE(
  "the flags of a program's runtime were in no text: --troupe-help lists them and ends, and so "
  "does the manual") {
  const troupe::testing::scratch_folder at;
  std::fflush(nullptr); // what is not printed yet is not to be the child's
  const tool::descriptor output{::creat((at / "output").c_str(), 0600)};
  REQUIRE(output.is_open());
  child_process child{[] {
                        std::string words[] = {"program", "--own-flag", "--troupe-help"};
                        char* argv[] = {words[0].data(), words[1].data(), words[2].data()};
                        (void)troupe::runtime::options_from_args(3, argv);
                        return 99; // it was to end before
                      },
                      {.output_to = output.get()}};
  CHECK(child.wait().ok());
  const auto text = troupe::testing::content_of(at / "output");
  CHECK(text == troupe::runtime::flags_help());

  const char* source = std::getenv("TROUPE_SOURCE");
  REQUIRE(source != nullptr);
  std::ifstream page{std::filesystem::path{source} / "docs/clusters.md"};
  const std::string manual{std::istreambuf_iterator<char>{page}, {}};
  const std::regex flag{"--(troupe-[a-z-]+|cluster|task)"};
  int flags = 0;
  for (auto at = std::sregex_iterator{text.begin(), text.end(), flag}; at != std::sregex_iterator{};
       ++at, ++flags)
    CHECK_MESSAGE(manual.find("`" + at->str()) != std::string::npos, at->str());
  CHECK(flags >= 14);
}
