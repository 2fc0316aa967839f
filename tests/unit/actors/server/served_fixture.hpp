// Servers on threads of their own behind a memory transport, for the tests of the wire.
#pragma once

#include <doctest/doctest.h>

#include <random>

#include <troupe/actors/data_plane/remote_server_link.hpp>
#include <troupe/actors/data_plane/server_rpc.hpp>
#include <troupe/actors/server/server_event_loop.hpp>

#include "../data_plane/parameter_fixture.hpp"

namespace parameter_test {

class running_server {
public:
  running_server(const environment& env, server_event_loop_options options)
    : loop_{env, std::move(options)} {
    address = loop_.open().value_or_throw();
    thread_ = env.threads.start("server", [this] { loop_.run(); });
  }
  ~running_server() {
    loop_.stop();
    thread_->join();
  }
  server_event_loop* operator->() { return &loop_; }
  std::string address{};

private:
  server_event_loop loop_;
  std::unique_ptr<thread_handle> thread_{};
};

struct served {
  explicit served(std::uint32_t servers, memory_transport_options transport = {},
                  server_event_loop_options like = {})
    : w{transport}, vars{servers, &w.tracer} {
    for (std::uint32_t i = 0; i < servers; ++i)
      start(i, "ps" + std::to_string(i) + ":0", like);
  }
  /// Over sockets or memory of this host.
  explicit served(host_transport_options transport, std::uint32_t servers,
                  server_event_loop_options like = {})
    : w{transport}, vars{servers, &w.tracer} {
    for (std::uint32_t i = 0; i < servers; ++i)
      start(i, "127.0.0.1:0", like);
  }
  void start(std::uint32_t server, const std::string& address, server_event_loop_options like) {
    like.address = address;
    like.cluster = "test";
    like.store = vars.stores[server];
    loops.push_back(std::make_unique<running_server>(w.env(), like));
  }
  data_peer peer(std::uint32_t server, const origin& from = worker()) {
    data_peer out;
    out.address = loops.at(server)->address;
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
  std::unique_ptr<server_rpc> caller(std::uint32_t server = 0) {
    return server_rpc::connect(w.env(), peer(server), w.in(std::chrono::seconds{20}))
      .value_or_throw();
  }
  world w;
  variables vars;
  std::vector<std::unique_ptr<running_server>> loops{};
};

/// Random scatters, reads and gathers, each compared with an array that had the same.
inline void compare_with_array(served& x, unsigned seed, std::int64_t rows, std::size_t ids_max) {
  std::mt19937 random{seed};
  parameter_client client{x.w.env(), x.vars.catalogue(), x.remote(), {.thread = seed % 3}};
  auto id = x.vars.add(make_variable(1, {rows}, 5, 2, dtype::i64));
  std::vector<std::int64_t> model(static_cast<std::size_t>(rows), 0);
  for (std::uint64_t step = 1; step <= 12; ++step) {
    std::vector<std::int64_t> ids(random() % ids_max);
    std::vector<std::int64_t> values(ids.size());
    for (std::size_t i = 0; i < ids.size(); ++i) {
      ids[i] = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(rows));
      values[i] = static_cast<std::int64_t>(random() % 1000);
      model[static_cast<std::size_t>(ids[i])] += values[i];
    }
    client.begin(closure(step), attempt_1, worker());
    std::vector<mutation> ops{
      {id, mutation_kind::scatter_add,
       tensor::of<std::int64_t>({static_cast<std::int64_t>(values.size())}, values), ids_of(ids)}};
    client.mutate(ops).value_or_throw();
    std::vector<variable_id> both{id, id};
    auto got = client.read(both).value_or_throw(); // reads its own writes
    REQUIRE(got[0].to_tensor() == tensor::of<std::int64_t>({rows}, model));
    REQUIRE(got[1].to_tensor() == got[0].to_tensor());
    std::vector<std::int64_t> expected;
    for (auto i : ids)
      expected.push_back(model[static_cast<std::size_t>(i)]);
    REQUIRE(client.gather(id, ids_of(ids)).value_or_throw()
            == tensor::of<std::int64_t>({static_cast<std::int64_t>(expected.size())}, expected));
    client.finish(x.w.in(std::chrono::seconds{20})).value_or_throw();
  }
}

} // namespace parameter_test
