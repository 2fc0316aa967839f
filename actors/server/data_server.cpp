#include <troupe/actors/server/data_server.hpp>

#include <utility>

namespace troupe {

data_server::data_server(std::shared_ptr<server_event_loop> server, std::string address)
  : server_{std::move(server)}, address_{std::move(address)} {}

data_server::~data_server() { stop(); }

result<std::unique_ptr<data_server>> data_server::start(const environment& env,
                                                        server_event_loop_options options,
                                                        const std::string& thread_name) {
  auto server = std::make_shared<server_event_loop>(env, std::move(options));
  auto address = server->open();
  if (!address)
    return address.error();
  std::unique_ptr<data_server> out{new data_server{server, std::move(*address)}};
  out->thread_ = env.threads.start(thread_name, [server = std::move(server)] { server->run(); });
  return out;
}

void data_server::stop() {
  server_->stop();
  if (thread_)
    thread_->join();
  thread_ = nullptr;
}

} // namespace troupe
