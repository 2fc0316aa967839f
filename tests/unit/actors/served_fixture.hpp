// Servers on lanes of their own behind a memory transport, for the tests of the wire.
#pragma once

#include <troupe/actors/remote_server_link.hpp>
#include <troupe/actors/server_caller.hpp>
#include <troupe/actors/server_lane.hpp>

#include "parameter_fixture.hpp"

namespace parameter_test {

class running_server {
public:
  running_server(const environment& env, server_lane_options options)
    : lane_{env, std::move(options)} {
    address = lane_.open().value_or_throw();
    thread_ = env.lanes.start("server", [this] { lane_.run(); });
  }
  ~running_server() {
    lane_.stop();
    thread_->join();
  }
  server_lane* operator->() { return &lane_; }
  std::string address{};

private:
  server_lane lane_;
  std::unique_ptr<lane> thread_{};
};

struct served {
  explicit served(std::uint32_t servers, memory_transport_options transport = {},
                  server_lane_options like = {})
    : w{transport}, vars{servers, &w.tracer} {
    for (std::uint32_t i = 0; i < servers; ++i) {
      like.address = "ps" + std::to_string(i) + ":0";
      like.cluster = "test";
      like.store = vars.stores[i];
      lanes.push_back(std::make_unique<running_server>(w.env(), like));
    }
  }
  data_peer peer(std::uint32_t server, const origin& from = worker()) {
    data_peer out;
    out.address = lanes.at(server)->address;
    out.cluster = "test";
    out.self = from;
    out.term = static_cast<term_no>(1);
    return out;
  }
  parameter_client::link_maker remote(origin from = worker()) {
    return [this, from](std::uint32_t server) {
      return remote_server_link::connect(w.env(), peer(server, from),
                                         w.in(std::chrono::seconds{20}));
    };
  }
  std::unique_ptr<server_caller> caller(std::uint32_t server = 0) {
    return server_caller::connect(w.env(), peer(server), w.in(std::chrono::seconds{20}))
      .value_or_throw();
  }
  world w;
  variables vars;
  std::vector<std::unique_ptr<running_server>> lanes{};
};

} // namespace parameter_test
