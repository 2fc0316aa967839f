#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include <troupe/core/data_port.hpp>
#include <troupe/sim/detail/data_connection.hpp>
#include <troupe/sim/detail/ports.hpp>
#include <troupe/sim/detail/process_instance.hpp>

namespace troupe::sim {

class sim_channel final : public channel {
public:
  sim_channel(process_instance& l, std::shared_ptr<data_connection> c, int end);
  ~sim_channel() override;
  result<std::size_t> try_send(std::span<const const_bytes> parts) override;
  result<std::size_t> try_receive(std::span<const mutable_bytes> parts) override;
  void close() override;
  std::string peer() const override { return peer_; }
  bool ready(bool want_send) const;
  data_connection::end_point& end() { return connection_->ends[end_]; }

private:
  friend class sim_poller;
  failure lost() const;
  bool is_lost() const;
  std::size_t room() const;

  process_instance& instance_;
  std::shared_ptr<data_connection> connection_;
  int end_;
  std::string peer_{};
  bool closed_ = false;
  std::vector<sim_poller*> watching_{};
};

class sim_listener final : public channel_listener {
public:
  sim_listener(process_instance& l, std::uint16_t port);
  ~sim_listener() override;
  std::unique_ptr<channel> try_accept() override;
  std::string address() const override;
  /// Takes a connection that was dialled; false when too many wait.
  bool take(std::shared_ptr<data_connection> c);
  bool has_waiting() const { return !waiting_.empty(); }

private:
  friend class sim_poller;
  process_instance& instance_;
  std::uint16_t port_;
  std::deque<std::shared_ptr<data_connection>> waiting_{};
  std::vector<sim_poller*> watching_{};
};

class sim_poller final : public channel_poller {
public:
  explicit sim_poller(process_instance& l) : point_{l} {}
  ~sim_poller() override;
  void watch(channel& c, bool want_send) override;
  void watch(channel_listener& l) override;
  void forget(channel& c) override;
  void forget(channel_listener& l) override;
  bool wait(time_point deadline) override;
  void wake() override;
  /// Tells that something watched may have become ready.
  void happened();
  /// Waits until something happened, ready or not.
  bool wait_happening(time_point deadline) { return point_.wait(deadline); }

private:
  struct entry {
    sim_channel* what = nullptr;
    bool want_send = false;
  };
  bool any_ready() const;
  sim_point point_;
  std::vector<entry> channels_{};
  std::vector<sim_listener*> listeners_{};
  bool woken_ = false;
};

} // namespace troupe::sim
