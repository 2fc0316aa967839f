#include <troupe/transport/detail/network_engine.hpp>

namespace troupe::detail {

bool network_engine::before_sleep(channel_poller& poller) {
  for (std::uint32_t peer = 0; peer < links_.size(); ++peer)
    if (links_[peer].data != nullptr && (runner_.wants_receive(peer) || runner_.wants_send(peer)))
      poller.watch(*links_[peer].data, runner_.wants_send(peer));
  return true;
}

void network_engine::after_sleep(channel_poller& poller) {
  for (data_link& link : links_)
    if (link.data != nullptr)
      poller.forget(*link.data);
}

} // namespace troupe::detail
