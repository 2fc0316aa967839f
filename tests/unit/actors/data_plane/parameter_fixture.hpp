// What the tests of the parameter plane share: ports with a memory transport, and variables over
// several servers.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <troupe/actors/worker/parameter_client.hpp>
#include <troupe/core/production_ports.hpp>
#include <troupe/core/tracers.hpp>
#include <troupe/transport/host_transport.hpp>
#include <troupe/transport/memory_transport.hpp>

#include "../../../support/tensors.hpp"

namespace parameter_test {

using namespace troupe;
using namespace troupe::testing;

struct world {
  explicit world(memory_transport_options options = {})
    : transport{make_memory_transport(ports->waits(), options)} {}
  explicit world(host_transport_options options)
    : transport{make_host_transport(ports->clock(), options)} {}
  std::unique_ptr<production_ports> ports = make_production_ports();
  std::unique_ptr<data_transport> transport;
  counting_tracer tracer{};
  environment env() {
    return {ports->clock(), ports->random(), ports->storage(), ports->threads(),
            ports->waits(), *transport,      &tracer};
  }
  time_point in(std::chrono::seconds s) { return after(ports->clock().now(), s); }
};

/// Rows divided as evenly as can be, the first shards get one more; shard i on server i % servers.
inline variable_spec make_variable(std::uint32_t id, shape_t shape, std::uint32_t shards,
                                   std::uint32_t servers, dtype type = dtype::f32) {
  variable_spec out;
  out.id = static_cast<variable_id>(id);
  out.name = "v" + std::to_string(id);
  out.type = type;
  out.shape = std::move(shape);
  std::int64_t at = 0;
  for (std::uint32_t i = 0; i < shards; ++i) {
    auto n = out.rows() / shards + (i < out.rows() % shards ? 1 : 0);
    out.shards.push_back({at, at + n, i % servers});
    at += n;
  }
  return out;
}

struct variables {
  std::map<variable_id, std::shared_ptr<const variable_spec>> specs{};
  std::vector<std::shared_ptr<shard_store>> stores{};

  variables(std::uint32_t servers, tracer* trace) {
    for (std::uint32_t i = 0; i < servers; ++i)
      stores.push_back(std::make_shared<shard_store>(trace));
  }
  variable_id add(const variable_spec& spec) {
    specs[spec.id] = std::make_shared<const variable_spec>(spec);
    for (std::uint32_t i = 0; i < spec.shards.size(); ++i)
      stores[spec.shards[i].server]->create(spec, static_cast<shard_index>(i)).value_or_throw();
    return spec.id;
  }
  parameter_client::catalogue catalogue() {
    return [this](variable_id id) -> std::shared_ptr<const variable_spec> {
      auto at = specs.find(id);
      return at == specs.end() ? nullptr : at->second;
    };
  }
  parameter_client::link_maker local() {
    return [this](std::uint32_t server) -> result<std::unique_ptr<server_link>> {
      return std::unique_ptr<server_link>{std::make_unique<local_server_link>(stores.at(server))};
    };
  }
};

inline origin worker(std::uint32_t index = 0, std::uint32_t counter = 1) {
  return {{job_kind::worker, index}, {counter, 1000 + index}, {}};
}

inline closure_id closure(std::uint64_t seq, std::uint32_t term = 1) {
  return {static_cast<term_no>(term), seq};
}

inline constexpr auto attempt_1 = static_cast<attempt_no>(1);

} // namespace parameter_test
