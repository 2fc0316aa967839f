#include <troupe/strategies/runtime/detail/cluster_inputs.hpp>

#include <cstdlib>

#include <troupe/core/production_ports.hpp>
#include <troupe/strategies/cluster/cluster_roles.hpp>
#include <troupe/strategies/runtime/detail/runtime_flags.hpp>

namespace troupe::detail {

runtime_options options_of_environment() {
  runtime_options options;
  if (const char* transport = std::getenv("TROUPE_TRANSPORT")) // what a launcher's children inherit
    options.shared_memory = flag_shares_memory("TROUPE_TRANSPORT", transport);
  if (const char* token =
        std::getenv("TROUPE_TOKEN")) // not a flag: those are seen by every user of the machine
    options.token = token;
  return options;
}

cluster_config config_of_environment() {
  const char* text = std::getenv(tf_config);
  auto out = text ? parse_cluster_config(text, tf_config).value_or_throw() : cluster_config{};
  require(validate_whole(out, tf_config), "");
  return out;
}

cluster_config config_of_file(const std::string& path) {
  const auto ports = make_production_ports();
  return load_cluster_file(ports->storage(), path).value_or_throw();
}

void require(const result<void>& verdict, const std::string& where) {
  if (!verdict)
    throw_failure(verdict.error().code,
                  (where.empty() ? where : where + ": ") + verdict.error().text);
}

} // namespace troupe::detail
