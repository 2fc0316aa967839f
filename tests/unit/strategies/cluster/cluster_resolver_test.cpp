#include <doctest/doctest.h>

#include <troupe/strategies/cluster/cluster_resolver.hpp>

#include <cstring>
#include <map>
#include <string>
#include <tuple>
#include <type_traits>

#include "../../../support/failures.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

constexpr auto full_config = R"({
  "cluster": {"chief": ["chief0:2222"], "ps": ["ps0:2222", "ps1:2222"],
              "worker": ["worker0:2222", "worker1:2222", "worker2:2222"]},
  "task": {"type": "ps", "index": 0}, "rpc_layer": "grpc"})";

// A variable that the test may change between accesses.
struct fake_variable {
  std::optional<std::string> value{};
  int reads = 0;
  get_variable reader() {
    return [this](const char* name) -> std::optional<std::string> {
      ++reads;
      CHECK(std::string{name} == "TF_CONFIG");
      return value;
    };
  }
};

template <class T>
std::string bad_config(const result<T>& x) {
  return refusal(x, errc::bad_config);
}

// Files by path, in memory; only what reading needs.
class file_map : public storage_port {
public:
  std::map<std::string, std::string> files;

  result<std::unique_ptr<file_reader>> open(const std::string& path) override {
    auto at = files.find(path);
    if (at == files.end())
      return make_failure(errc::not_found, path);
    return std::unique_ptr<file_reader>{std::make_unique<reader>(at->second)};
  }
  bool exists(const std::string& path) override { return files.count(path) > 0; }
  result<std::unique_ptr<file_writer>> create(const std::string& path) override { return no(path); }
  result<void> rename(const std::string& from, const std::string&) override { return no(from); }
  result<void> remove(const std::string& path) override { return no(path); }
  result<void> make_directories(const std::string& path) override { return no(path); }
  result<void> sync_directory(const std::string& path) override { return no(path); }
  result<std::vector<std::string>> list(const std::string& path) override { return no(path); }
  result<file_kind> kind(const std::string& path) override { return no(path); }
  result<std::unique_ptr<file_lock>> lock(const std::string& path) override { return no(path); }

private:
  static failure no(const std::string& path) { return make_failure(errc::io_failed, path); }
  struct reader : file_reader {
    explicit reader(std::string x) : text{std::move(x)} {}
    std::uint64_t size_bytes() const override { return text.size(); }
    result<void> read_at(std::uint64_t offset_bytes, std::span<std::byte> to) override {
      REQUIRE(offset_bytes + to.size() <= text.size());
      std::memcpy(to.data(), text.data() + offset_bytes, to.size());
      return {};
    }
    std::string text;
  };
};

} // namespace

TEST_CASE("PS-Z5 without TF_CONFIG, or with {}, there is no cluster, no task and no master") {
  for (std::optional<std::string> text : {std::optional<std::string>{}, {"{}"}}) {
    fake_variable variable{text};
    tf_config_resolver resolver{variable.reader()};
    CHECK_FALSE(*resolver.cluster());
    CHECK_FALSE(resolver.task_type()->has_value());
    CHECK_FALSE(resolver.task_id()->has_value());
    CHECK(*resolver.rpc_layer() == "");
    CHECK(*resolver.environment() == "");
    CHECK(*resolver.master() == "");
  }
}

TEST_CASE("PS-Z6 a broken TF_CONFIG is an error at access, and is read again each time") {
  fake_variable variable{"{not json"};
  tf_config_resolver resolver{variable.reader()};
  CHECK(variable.reads == 0);
  CHECK(says(bad_config(resolver.cluster()), "TF_CONFIG: not JSON"));
  CHECK(says(bad_config(resolver.task_type()), "TF_CONFIG"));
  CHECK(says(bad_config(resolver.master()), "TF_CONFIG"));
  CHECK(variable.reads == 3);
  variable.value = full_config;
  CHECK(resolver.cluster()->num_tasks("worker") == 3);
  CHECK(*resolver.task() == own_task{"ps", 0});
  variable.value = "";
  CHECK(says(bad_config(resolver.cluster()), "not JSON"));
}

TEST_CASE("PS-Z7 a numeric type becomes its digits, an index in a string its number") {
  fake_variable variable{R"({"task": {"type": 123456, "index": "1"}})"};
  tf_config_resolver resolver{variable.reader()};
  CHECK(*resolver.task_type() == "123456");
  CHECK(*resolver.task_id() == 1u);
  for (auto index : {"\"one\"", "-1", "1.5", "true", "[0]", "4294967296", "\"\""}) {
    variable.value = std::string{R"({"task": {"index": )"} + index + "}}";
    CHECK(says(bad_config(resolver.task_id()), std::string{"task.index is "} + index));
  }
  variable.value = R"({"task": {"type": ["ps"]}})";
  CHECK(says(bad_config(resolver.task_type()), R"(task.type is ["ps"])"));
  variable.value = R"({"task": "ps"})";
  CHECK(says(bad_config(resolver.task_type()), R"(task is "ps")"));
  variable.value = R"({"rpc_layer": 7})";
  CHECK(says(bad_config(resolver.rpc_layer()), "rpc_layer is 7"));
  variable.value = R"({"cluster": ["a:1"]})";
  CHECK(says(bad_config(resolver.cluster()), R"(["a:1"])"));
}

TEST_CASE("PS-Z8 given values win over TF_CONFIG and may change later") {
  fake_variable variable{full_config};
  variable.value->replace(variable.value->find("\"ps\", \"index\""), 4, "\"worker\"");
  tf_config_resolver resolver{variable.reader(), {"ps", 0}, std::nullopt, "cloud"};
  CHECK(*resolver.task() == own_task{"ps", 0});
  CHECK(*resolver.environment() == "cloud");
  CHECK(*resolver.master() == "grpc://ps0:2222");
  resolver.set_task_type("worker");
  resolver.set_task_id(1);
  resolver.set_rpc_layer("test");
  CHECK(*resolver.rpc_layer() == "test");
  CHECK(*resolver.master() == "test://worker1:2222");
}

TEST_CASE("PS-Z8 an override of task id 0 counts as set") {
  fake_variable variable{R"({"cluster": {"ps": ["p0:1", "p1:1"]},
                            "task": {"type": "ps", "index": 1}})"};
  tf_config_resolver resolver{variable.reader(), {std::nullopt, 0}};
  CHECK(*resolver.task_id() == 0u);
  CHECK(*resolver.master() == "p0:1");
}

TEST_CASE("PS-Z9 the master is session_master, nobody, or the own task's address") {
  fake_variable variable{R"({"cluster": {"worker": ["worker0:2222", "worker1:2222"]},
                            "task": {"type": "worker", "index": 0}})"};
  tf_config_resolver resolver{variable.reader()};
  CHECK(*resolver.master() == "worker0:2222");
  CHECK(*resolver.master({"worker", 1, {}}) == "worker1:2222");
  CHECK(*resolver.master({"worker", 1, "grpc"}) == "grpc://worker1:2222");
  variable.value = R"({"cluster": {"worker": ["worker0:2222"]},
                       "task": {"type": "worker", "index": 0}})";
  CHECK(*resolver.master() == "");
  variable.value = R"({"cluster": {"worker": ["w:1"], "ps": ["p:1"]}, "session_master": "here:1",
                       "rpc_layer": "grpc", "task": {"type": "ps", "index": 0}})";
  CHECK(*resolver.master() == "here:1");
  CHECK(*resolver.master({"worker", 0, {}}) == "here:1");
}

TEST_CASE("PS-Z10 a master that needs the own task is an error when it isn't there") {
  fake_variable variable{R"({"cluster": {"worker": ["w0:1", "w1:1"]}})"};
  tf_config_resolver resolver{variable.reader()};
  CHECK(says(bad_config(resolver.master()), "task.type is missing"));
  resolver.set_task_type("worker");
  CHECK(says(bad_config(resolver.master()), "task.index is missing"));
  resolver.set_task_id(2);
  auto past = resolver.master();
  REQUIRE_FALSE(past);
  CHECK(past.error().code == errc::out_of_range);
  CHECK(says(past.error().text, "job \"worker\" has no task 2"));
  auto strange = resolver.master({"ps", 0, {}});
  REQUIRE_FALSE(strange);
  CHECK(strange.error().code == errc::unknown_name);
  CHECK_THROWS_AS(tf_config_resolver{get_variable{}}, error);
}

TEST_CASE("PS-Z11 the simple resolver answers with what it was given") {
  simple_resolver bare{{.cluster = cluster_spec{{{"ps", {"p0:1"}}}}}};
  CHECK(bare.num_accelerators().empty());
  CHECK(*bare.master() == "");
  CHECK(*bare.task() == own_task{});
  simple_resolver_options given;
  given.cluster = cluster_spec{{{"ps", {"p0:1", "p1:1"}}}};
  given.master = "m:1";
  given.task = {"ps", 1};
  given.environment = "cloud";
  given.num_accelerators = {{"GPU", 2}};
  given.rpc_layer = "grpc";
  simple_resolver full{given};
  CHECK(*full.master() == "grpc://m:1");
  CHECK(*full.master({"ps", 1, "test"}) == "test://p1:1");
  CHECK_FALSE(full.master({"ps", 2, {}}));
  CHECK(full.num_accelerators().at("GPU") == 2);
  CHECK(*full.environment() == "cloud");
  full.set_task_id(0);
  CHECK(*full.task_id() == 0u);
  static_assert(!std::is_constructible_v<simple_resolver, std::string>);
  static_assert(!std::is_assignable_v<decltype(simple_resolver_options::master)&, cluster_spec>);
}

TEST_CASE("cluster file: TF_CONFIG's form and the bare job map are both read") {
  file_map storage;
  storage.files["full"] = full_config;
  storage.files["bare"] = R"({"ps": ["p0:1"], "worker": {"3": "w3:1"}})";
  auto full = load_cluster_file(storage, "full").value_or_throw();
  CHECK(full.cluster.num_tasks("ps") == 2);
  CHECK(full.task == own_task{"ps", 0});
  CHECK(full.rpc_layer == "grpc");
  auto bare = load_cluster_file(storage, "bare").value_or_throw();
  CHECK(bare.cluster.task_address("worker", 3) == "w3:1");
  CHECK(bare.task == own_task{});
}

TEST_CASE("cluster file: a number that no double holds is refused like any other text") {
  file_map storage;
  storage.files["n.json"] = R"({"ps": 1e999})";
  CHECK(says(bad_config(load_cluster_file(storage, "n.json")), "n.json"));
  CHECK(says(bad_config(cluster_spec::from_json(R"({"ps": -1e999})")), "1e999"));
}

TEST_CASE("cluster file: what cannot be used is refused with the path") {
  file_map storage;
  storage.files["a.json"] = R"({"ps": 3})";
  storage.files["b.json"] = R"({"cluster": {"ps": 3}})";
  storage.files["c.json"] = "";
  storage.files["d.json"] = std::string((1 << 20) + 1, ' ');
  for (auto path : {"a.json", "b.json", "c.json"})
    CHECK(says(bad_config(load_cluster_file(storage, path)), path));
  auto large = load_cluster_file(storage, "d.json");
  REQUIRE_FALSE(large);
  CHECK(large.error().code == errc::too_large);
  auto missing = load_cluster_file(storage, "e.json");
  REQUIRE_FALSE(missing);
  CHECK(missing.error().code == errc::not_found);
}

TEST_CASE("TF_CONFIG: a misspelt field was ignored: it is refused, with the one that was meant") {
  fake_variable variable;
  tf_config_resolver resolver{variable.reader()};
  for (const auto& [text, field, meant] :
       {std::tuple{R"({"clustr": {"worker": ["a:1"]}})", "\"clustr\"", "\"cluster\""},
        {R"({"Cluster": {}})", "\"Cluster\"", "\"cluster\""},
        {R"({"cluster": {}, "tsk": {}})", "\"tsk\"", "\"task\""},
        {R"({"task": {"type": "worker", "indx": 1}})", "\"indx\" in task", "\"index\""},
        {R"({"task": {"tpye": "worker"}})", "\"tpye\" in task", "\"type\""}}) {
    variable.value = text;
    const auto why = bad_config(resolver.cluster());
    CHECK(says(why, std::string{"TF_CONFIG: unknown field "} + field));
    CHECK(says(why, std::string{"did you mean "} + meant));
  }
  variable.value = R"({"cluster": {"worker": ["a:1"]}, "job": {}, "model_dir": "x",
                       "task": {"type": "worker", "index": 0, "trial": "", "cloud": "c"}})";
  CHECK(resolver.cluster()->num_tasks("worker") == 1); // what others write beside it is theirs
}

TEST_CASE("half a description: what is missing is named, and what is there") {
  auto whole = [](const char* text) {
    return validate_whole(parse_cluster_config(text, "TF_CONFIG").value_or_throw(), "TF_CONFIG");
  };
  const auto sparse = bad_config(whole(R"({"sparseCluster": {"worker": {"0": "a:1"}},
                                        "task": {"type": "worker", "index": 0}})"));
  CHECK(says(sparse, "field \"cluster\" is missing"));
  CHECK(says(sparse, "\"sparseCluster\", \"task\""));
  CHECK(says(bad_config(whole(R"({"task": {"type": "worker", "index": 0}})")),
             "fields given: \"task\""));
  CHECK(says(bad_config(whole(R"({"task": {"index": 0}})")), "\"task\""));
  CHECK(says(bad_config(whole(R"({"sparseCluster": {}})")), "\"sparseCluster\""));
  CHECK(says(bad_config(whole(R"({"cluster": {}, "task": {"type": "chief"}})")), "has no job"));
  for (const char* text : {"{}", R"({"environment": "cloud"})", R"({"cluster": {}})",
                           R"({"task": {}})", R"({"cluster": {"worker": ["a:1"]}})"})
    CHECK_MESSAGE(whole(text), text);
}

TEST_CASE(
  "cluster file: half a description is refused with the path, not taken for a map of jobs") {
  file_map storage;
  storage.files["a.json"] = R"({"clustr": {"ps": ["p:1"]}, "task": {"type": "ps", "index": 0}})";
  storage.files["b.json"] = R"({"task": {"type": "ps", "index": 0}})";
  storage.files["c.json"] = R"({"clusters": {"ps": ["p:1"]}})";
  CHECK(says(bad_config(load_cluster_file(storage, "a.json")), "a.json: unknown field \"clustr\""));
  CHECK(
    says(bad_config(load_cluster_file(storage, "b.json")), "b.json: field \"cluster\" is missing"));
  CHECK(says(bad_config(load_cluster_file(storage, "c.json")), "did you mean \"cluster\""));
}
