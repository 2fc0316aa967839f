#pragma once

#include <memory>

#include <troupe/transport/detail/collective_engine.hpp>
#include <troupe/transport/detail/plan_runner.hpp>

/// Operations over channels.
namespace troupe::detail {

class network_engine final : public collective_engine {
public:
  network_engine(const collective_plan& plan, operation_data data, std::span<data_link> links,
                 collective_counters& counters)
    : links_{links}, data_{data}, runner_{plan, data_, links, counters} {}

  result<bool> advance() override { return runner_.advance(); }
  bool done() const override { return runner_.done(); }
  std::uint32_t failed_peer() const override { return runner_.failed_peer(); }
  bool needs(std::uint32_t peer) const override { return runner_.needs(peer); }
  /// Data sent before a peer left still comes; data that the peer did not take never goes.
  bool ends_with(std::uint32_t peer) const override { return runner_.has_unsent(peer); }
  bool before_sleep(channel_poller& poller) override;
  void after_sleep(channel_poller& poller) override;
  bool give_up() override { return true; }

private:
  std::span<data_link> links_;
  operation_data data_;
  plan_runner runner_;
};

} // namespace troupe::detail
