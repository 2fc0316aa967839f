// Texts: clusters, addresses, the simulator's failure files, the report through the launcher's
// pipe.
#include <algorithm>
#include <charconv>

#include <troupe/sim/tools/pick_text.hpp>
#include <troupe/strategies/cluster/cluster_resolver.hpp>
#include <troupe/transport/detail/address.hpp>

#include "../../tools/report.hpp"
#include "../support/fake_storage.hpp"
#include "message_decoders.hpp"

namespace fuzz {

namespace {

using namespace troupe;

// --- clusters

void check(const cluster_spec& spec) {
  auto again = cluster_spec::from_json(spec.to_json());
  require(again && *again == spec, "a cluster changes when it is written and read");
  (void)static_cast<bool>(validate_parameter_server_cluster(spec));
  for (const auto& job : spec.jobs())
    try {
      require(spec.job_tasks(job).size() >= spec.num_tasks(job), "a list of tasks lacks some");
    } catch (const error& e) {
      require(e.code() == errc::too_large, "only a list that is too long is refused");
    }
}

void check_refusal(const failure& why) {
  require(why.code == errc::bad_config && !why.text.empty(),
          "a bad cluster is a bad configuration");
}

bool decode_cluster(std::string_view input) {
  auto spec = cluster_spec::from_json(input);
  spec ? check(*spec) : check_refusal(spec.error());
  return spec.operator bool();
}

bool decode_config(std::string_view input) {
  auto config = parse_cluster_config(input, "TF_CONFIG");
  if (!config) {
    check_refusal(config.error());
    return false;
  }
  check(config->cluster);
  (void)static_cast<bool>(validate_parameter_server_cluster(config->cluster, config->task));
  return true;
}

bool decode_cluster_file(std::string_view input) {
  testing::fake_storage disk;
  const std::string text{input};
  auto file = disk.create("cluster.json");
  require(file && (*file)->write(std::as_bytes(std::span{text})), "a file is written");
  auto config = load_cluster_file(disk, "cluster.json");
  config ? check(config->cluster) : check_refusal(config.error());
  return config.operator bool();
}

std::vector<std::string> cluster_seeds() {
  return {R"({"chief": ["h:1"], "ps": ["a:1", "b:2"], "worker": {"3": "c:4", "7": "d:5"}})", "{}",
          R"({"ps": [], "worker": {}})"};
}

std::vector<std::string> config_seeds() {
  return {R"({"cluster": {"ps": ["a:1"], "worker": ["b:2"]}, "task": {"type": "worker", "index": 0},
 "rpc_layer": "grpc", "environment": "cloud", "session_master": null})",
          R"({"task": {"type": 3, "index": "1"}})"};
}

std::vector<std::string> cluster_file_seeds() {
  auto out = cluster_seeds();
  out.push_back(config_seeds()[0]);
  return out;
}

// --- addresses

bool decode_address(std::string_view input) {
  auto got = detail::split_address(std::string{input});
  if (!got) {
    require(got.error().code == errc::invalid_argument, "a bad address is an invalid argument");
    return false;
  }
  require(!got->host.empty(), "an address has a host");
  std::uint16_t port = 0;
  const auto* end = got->port.data() + got->port.size();
  const auto read = std::from_chars(got->port.data(), end, port);
  require(read.ec == std::errc{} && read.ptr == end, "an address has a port");
  return true;
}

std::vector<std::string> address_seeds() { return {"127.0.0.1:80", "[::1]:65535", "host:0"}; }

// --- the simulator's picks

/// So many picks as a "*" may stand for are no finding: the bound is the reader's own.
bool asks_for_many(std::string_view text) {
  constexpr std::uint64_t many = 1'000'000;
  std::uint64_t all = 0;
  for (auto at = text.find('*'); at != text.npos; at = text.find('*', at + 1)) {
    std::uint64_t times = 0;
    const auto* const first = text.data() + at + 1;
    if (std::from_chars(first, text.data() + text.size(), times).ec
          == std::errc::result_out_of_range
        || times > many || (all += times) > many)
      return true;
  }
  return false;
}

bool decode_picks(std::string_view input) {
  if (asks_for_many(input))
    return false;
  auto picks = sim::picks_from_text(input);
  if (!picks)
    return false;
  auto again = sim::picks_from_text(sim::picks_to_text(*picks));
  require(again && *again == *picks, "picks change when they are written and read");
  return true;
}

std::vector<std::string> picks_seeds() { return {"f*120 3 0*2", "", "1 2 3"}; }

// --- the launcher's pipe

bool decode_report(std::string_view input) {
  auto report = tool::decode_report(input);
  if (!report) {
    require(report.error().code == errc::corrupt, "a report that is refused is corrupt");
    return false;
  }
  if (report->seconds > 1e9) // what a float can no longer tell apart
    return false;
  const auto text = tool::encode_report(*report);
  auto again = tool::decode_report(text);
  require(again && again->steps == report->steps && again->rerun_begin_ns == report->rerun_begin_ns
            && again->statistics.servers.size() == report->statistics.servers.size(),
          "a report changes when it is written and read");
  return true;
}

std::vector<std::string> report_seeds() {
  tool::training_report report;
  report.steps = 9370;
  report.seconds = 4.25;
  report.rerun_begin_ns = {1, 2};
  report.statistics.servers.resize(2);
  return {tool::encode_report(report)};
}

} // namespace

void add_texts(std::vector<decoder>& to) {
  to.push_back({"cluster", decode_cluster, cluster_seeds});
  to.push_back({"TF_CONFIG", decode_config, config_seeds});
  to.push_back({"cluster file", decode_cluster_file, cluster_file_seeds});
  to.push_back({"address", decode_address, address_seeds});
  to.push_back({"picks", decode_picks, picks_seeds});
  to.push_back({"report", decode_report, report_seeds});
}

} // namespace fuzz
