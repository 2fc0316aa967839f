// All JSON of cluster specifications and TF_CONFIG.
#include <troupe/strategies/cluster/cluster_resolver.hpp>

#include <nlohmann/json.hpp>
#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <set>
#include <span>

#include <troupe/core/nearest_word.hpp>

namespace troupe {

namespace {

using nlohmann::json;

constexpr std::uint64_t cluster_file_bytes_max = 1 << 20;
constexpr std::size_t shown_chars_max = 80;
constexpr int depth_max = 16;

std::string shown(const json& value) {
  auto text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  return text.size() <= shown_chars_max ? text : text.substr(0, shown_chars_max) + "...";
}

failure bad_config(std::string_view what, const std::string& text) {
  return make_failure(errc::bad_config, std::string{what} + ": " + text);
}

std::string job_text(const std::string& job) { return "job " + shown(json(job)); }

// The object in `text`. A key that stands twice would silently win over the first one, so it is
// refused.
result<json> parse_object(std::string_view text, std::string_view what) {
  std::vector<std::set<std::string>> keys;
  std::string twice;
  bool too_deep = false;
  auto watch = [&](int depth, json::parse_event_t event, json& value) {
    too_deep = too_deep || depth > depth_max;
    if (event == json::parse_event_t::object_start)
      keys.emplace_back();
    else if (event == json::parse_event_t::object_end)
      keys.pop_back();
    else if (event == json::parse_event_t::key && twice.empty()
             && !keys.back().insert(value.get<std::string>()).second)
      twice = shown(value);
    return depth <= depth_max;
  };
  json root;
  try {
    root = json::parse(text, watch);
  } catch (const json::exception& e) { // a number that is too large is no parse_error
    return bad_config(what, std::string{"not JSON: "} + e.what());
  }
  if (too_deep)
    return bad_config(what, "nested deeper than " + std::to_string(depth_max) + " levels");
  if (!twice.empty())
    return bad_config(what, "duplicate key " + twice);
  if (!root.is_object())
    return bad_config(what, "expected an object, got " + shown(root));
  return root;
}

std::optional<std::uint32_t> number_in(const std::string& text) {
  std::uint32_t out = 0;
  auto* end = text.data() + text.size();
  auto [at, failed] = std::from_chars(text.data(), end, out);
  if (failed != std::errc{} || at != end)
    return std::nullopt;
  return out;
}

result<task_addresses> addresses_of(const std::string& job, const json& tasks,
                                    std::string_view what) {
  task_addresses out;
  for (const auto& [key, address] : tasks.items()) {
    auto index = number_in(key); // a list's keys are its positions
    if (!index)
      return bad_config(what, job_text(job) + ": the index " + shown(json(key))
                                + " is not an integer of at least 0");
    if (!address.is_string())
      return bad_config(what, job_text(job) + ": the address of task " + key + " is "
                                + shown(address) + ", not a string");
    if (!out.emplace(*index, address.get<std::string>()).second)
      return bad_config(what, job_text(job) + ": duplicate index " + std::to_string(*index));
  }
  return out;
}

result<cluster_spec> spec_of(const json& jobs, std::string_view what) {
  if (!jobs.is_object())
    return bad_config(what, "the cluster is " + shown(jobs) + ", not an object of jobs");
  cluster_spec out;
  for (const auto& [job, tasks] : jobs.items()) {
    if (!tasks.is_array() && !tasks.is_object())
      return bad_config(what, job_text(job) + " is " + shown(tasks)
                                + ", neither a list of addresses nor a map by index");
    auto addresses = addresses_of(job, tasks, what);
    if (!addresses)
      return addresses.error();
    out.set_sparse_job(job, std::move(*addresses));
  }
  return out;
}

/// A field that is none of these, and looks like one of them. @pre `object` is one
result<void> refuse_misspelt(const json& object, std::span<const std::string_view> known,
                             std::string_view what, const std::string& of) {
  for (const auto& [name, value] : object.items()) {
    const auto near = nearest_word(name, known);
    if (!near.empty() && near != name)
      return bad_config(what, "unknown field " + shown(json(name)) + of + "; did you mean \""
                                + std::string{near} + "\"?");
  }
  return {};
}

constexpr std::array<std::string_view, 5> known_fields{"cluster", "task", "rpc_layer",
                                                       "environment", "session_master"};
constexpr std::array<std::string_view, 2> task_fields{"type", "index"};

result<own_task> task_of(const json& task, std::string_view what) {
  if (!task.is_object())
    return bad_config(what, "task is " + shown(task) + ", not an object");
  if (auto well = refuse_misspelt(task, task_fields, what, " in task"); !well)
    return well.error();
  own_task out;
  if (auto type = task.find("type"); type != task.end() && !type->is_null()) {
    if (type->is_string())
      out.type = type->get<std::string>();
    else if (type->is_number_integer())
      out.type = type->dump();
    else
      return bad_config(what, "task.type is " + shown(*type) + ", not a string");
  }
  if (auto index = task.find("index"); index != task.end() && !index->is_null()) {
    auto text = index->is_string() ? index->get<std::string>() : index->dump();
    out.id = number_in(text);
    if (!out.id)
      return bad_config(what,
                        "task.index is " + shown(*index) + ", expected an integer of at least 0");
  }
  return out;
}

// Text of an optional field; absent and null are "".
result<std::string> text_of(const json& root, const char* field, std::string_view what) {
  auto at = root.find(field);
  if (at == root.end() || at->is_null())
    return std::string{};
  if (!at->is_string())
    return bad_config(what, std::string{field} + " is " + shown(*at) + ", not a string");
  return at->get<std::string>();
}

result<cluster_config> config_of(const json& root, std::string_view what) {
  if (auto well = refuse_misspelt(root, known_fields, what, ""); !well)
    return well.error();
  cluster_config out;
  for (const auto& [name, value] : root.items())
    out.fields.push_back(name);
  if (auto jobs = root.find("cluster"); jobs != root.end()) {
    auto spec = spec_of(*jobs, what);
    if (!spec)
      return spec.error();
    out.cluster = std::move(*spec);
  }
  if (auto task = root.find("task"); task != root.end()) {
    auto own = task_of(*task, what);
    if (!own)
      return own.error();
    out.task = std::move(*own);
  }
  for (auto [field, to] :
       {std::pair{"rpc_layer", &out.rpc_layer}, std::pair{"environment", &out.environment},
        std::pair{"session_master", &out.session_master}}) {
    auto text = text_of(root, field, what);
    if (!text)
      return text.error();
    *to = std::move(*text);
  }
  return out;
}

} // namespace

result<cluster_spec> cluster_spec::from_json(std::string_view text) {
  auto root = parse_object(text, "cluster");
  if (!root)
    return root.error();
  return spec_of(*root, "cluster");
}

std::string cluster_spec::to_json() const {
  auto text = [](const std::string& x) {
    return json(x).dump(-1, ' ', false, json::error_handler_t::replace);
  };
  std::string out = "{";
  const char* job_separator = "";
  for (const auto& [job, tasks] : jobs_) {
    out += job_separator + text(job) + ": ";
    job_separator = ", ";
    const bool dense = !tasks.empty() && tasks.rbegin()->first + std::size_t{1} == tasks.size();
    out += dense ? "[" : "{";
    const char* separator = "";
    for (const auto& [index, address] : tasks) {
      out += separator;
      out += dense ? text(address) : text(std::to_string(index)) + ": " + text(address);
      separator = ", ";
    }
    out += dense ? "]" : "}";
  }
  return out + "}";
}

result<void> validate_whole(const cluster_config& config, std::string_view what) {
  if (config.cluster)
    return {};
  std::string fields;
  bool half = config.task.type || config.task.id;
  for (const auto& name : config.fields) {
    fields += (fields.empty() ? "" : ", ") + shown(json(name));
    auto lower = name;
    std::transform(lower.begin(), lower.end(), lower.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    half = half || (name != "cluster" && lower.find("cluster") != std::string::npos);
  }
  if (!half)
    return {};
  const bool is_empty =
    std::find(config.fields.begin(), config.fields.end(), "cluster") != config.fields.end();
  return bad_config(
    what, (is_empty ? "field \"cluster\" has no jobs" : "field \"cluster\" is missing")
            + std::string{", so this process would train alone; fields given: "} + fields);
}

result<cluster_config> parse_cluster_config(std::string_view text, std::string_view what) {
  auto root = parse_object(text, what);
  if (!root)
    return root.error();
  return config_of(*root, what);
}

result<cluster_config> load_cluster_file(storage_port& storage, const std::string& path) {
  auto file = storage.open(path);
  if (!file)
    return file.error();
  auto size = (*file)->size_bytes();
  if (size > cluster_file_bytes_max)
    return make_failure(errc::too_large, path + ": " + std::to_string(size)
                                           + " bytes; the limit for a cluster file is "
                                           + std::to_string(cluster_file_bytes_max));
  std::string text(static_cast<std::size_t>(size), '\0');
  if (auto read = (*file)->read_at(0, std::as_writable_bytes(std::span{text})); !read)
    return read.error();
  auto root = parse_object(text, path);
  if (!root)
    return root.error();
  const bool is_bare = !root->contains("cluster") && !root->contains("task")
                       && refuse_misspelt(*root, known_fields, path, "");
  if (!is_bare) {
    auto config = config_of(*root, path);
    if (config)
      if (auto whole = validate_whole(*config, path); !whole)
        return whole.error();
    return config;
  }
  auto spec = spec_of(*root, path);
  if (!spec)
    return spec.error();
  return cluster_config{.cluster = std::move(*spec)};
}

} // namespace troupe
