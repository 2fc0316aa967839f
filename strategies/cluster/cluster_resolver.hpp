#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include <troupe/core/environment.hpp>
#include <troupe/strategies/cluster/cluster_spec.hpp>

/// Descriptions of a cluster and of a process's own place in it. Any thread may read a resolver
/// that nobody changes.
namespace troupe {

/// The content of TF_CONFIG or of a cluster file.
struct cluster_config {
  cluster_spec cluster{};
  own_task task{};
  std::string rpc_layer{};           ///< "grpc" prefixes addresses with "grpc://"; empty: no prefix
  std::string environment{};         ///< free text, e.g. "cloud"
  std::string session_master{};      ///< wins over every address in `master`
  std::vector<std::string> fields{}; ///< names of all fields that are there, sorted
};

/// Whether `config` describes a cluster, or none at all: a task without one, as when the field has
/// another name (`sparseCluster`), would make every process train alone. `bad_config` names the
/// field that is missing and those that are there.
result<void> validate_whole(const cluster_config& config, std::string_view what);

/// Reads the text of {"cluster": {...}, "task": {"type", "index"}, "rpc_layer", "environment",
/// "session_master"}, all optional. Other fields are ignored, unless they look like one of these
/// misspelt. A numeric type is taken as its digits, an index in a string as its number.
/// `bad_config` names `what`, the field and the value.
result<cluster_config> parse_cluster_config(std::string_view text, std::string_view what);

/// Reads what `--cluster FILE` names: the same JSON, or the bare job map alone (a "cluster" key
/// tells them apart). At most 1 MiB. Errors name the path.
result<cluster_config> load_cluster_file(storage_port& storage, const std::string& path);

/// Values that the caller of `master` sets; the resolver's own values stand for the rest.
struct master_request {
  std::optional<std::string> task_type{};
  std::optional<std::uint32_t> task_id{};
  std::optional<std::string> rpc_layer{};
};

/// "layer://address", or the address when the layer is empty.
std::string format_master_url(const std::string& address, const std::string& rpc_layer);

/// Tells a process the cluster and its own place in it.
class cluster_resolver {
public:
  virtual ~cluster_resolver() = default;
  /// Jobs, tasks and addresses.
  virtual result<cluster_spec> cluster() const = 0;
  /// The process's own job; none when the process was not told.
  virtual result<std::optional<std::string>> task_type() const = 0;
  /// The process's own index in its job; none when the process was not told.
  virtual result<std::optional<std::uint32_t>> task_id() const = 0;
  virtual result<std::string> rpc_layer() const = 0;
  virtual result<std::string> environment() const = 0;
  /// The address of the coordinator's session, "" for this process itself.
  virtual result<std::string> master(const master_request& request = {}) const = 0;
  /// Type and id at once.
  result<own_task> task() const;
};

/// Reads an environment variable; none when it is not set.
using get_variable = std::function<std::optional<std::string>(const char*)>;

/// Reads TF_CONFIG again at every access, so errors in it (`bad_config`) come at access, not at
/// construction. Values that were set here win over TF_CONFIG's.
class tf_config_resolver : public cluster_resolver {
public:
  /// `read` is called with "TF_CONFIG". Throws `invalid_argument` when it is empty.
  explicit tf_config_resolver(get_variable read, own_task task = {},
                              std::optional<std::string> rpc_layer = {},
                              std::optional<std::string> environment = {});

  result<cluster_spec> cluster() const override;
  result<std::optional<std::string>> task_type() const override;
  result<std::optional<std::uint32_t>> task_id() const override;
  result<std::string> rpc_layer() const override;
  result<std::string> environment() const override;
  /// `session_master` if there is one; "" without jobs or with a single job of a single task; else
  /// the address of the own task (or the request's) behind its layer. `bad_config` when the own
  /// task is not known, `unknown_name` or `out_of_range` when it is not in the cluster.
  result<std::string> master(const master_request& request = {}) const override;

  void set_task_type(std::string type) { task_.type = std::move(type); }
  void set_task_id(std::uint32_t id) { task_.id = id; }
  void set_rpc_layer(std::string layer) { rpc_layer_ = std::move(layer); }

private:
  result<cluster_config> read_config() const;
  get_variable read_;
  own_task task_;
  std::optional<std::string> rpc_layer_;
  std::optional<std::string> environment_;
};

/// Everything given in advance.
struct simple_resolver_options {
  cluster_spec cluster{};
  std::string master{};
  own_task task{};
  std::string environment{};
  std::map<std::string, std::uint32_t> num_accelerators{}; ///< kind -> number, e.g. {"GPU", 2}
  std::string rpc_layer{};
};

/// Answers with what it was given.
class simple_resolver : public cluster_resolver {
public:
  explicit simple_resolver(simple_resolver_options options) : options_{std::move(options)} {}
  result<cluster_spec> cluster() const override { return options_.cluster; }
  result<std::optional<std::string>> task_type() const override { return options_.task.type; }
  result<std::optional<std::uint32_t>> task_id() const override { return options_.task.id; }
  result<std::string> rpc_layer() const override { return options_.rpc_layer; }
  result<std::string> environment() const override { return options_.environment; }
  const std::map<std::string, std::uint32_t>& num_accelerators() const {
    return options_.num_accelerators;
  }
  /// The address of the requested task when type and id are requested, else the given master; ""
  /// stays "".
  result<std::string> master(const master_request& request = {}) const override;
  void set_task_type(std::string type) { options_.task.type = std::move(type); }
  void set_task_id(std::uint32_t id) { options_.task.id = id; }
  void set_rpc_layer(std::string layer) { options_.rpc_layer = std::move(layer); }

private:
  simple_resolver_options options_;
};

} // namespace troupe
