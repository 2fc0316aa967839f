#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/actors/control_plane/control_link.hpp>
#include <troupe/actors/support/channel_loop.hpp>
#include <troupe/core/environment.hpp>
#include <troupe/core/error.hpp>

namespace troupe {

struct hello_meta;

/// The owner of a link: one incarnation of one worker.
struct link_owner {
  task_id task{};
  incarnation inc{};
  friend auto operator<=>(const link_owner&, const link_owner&) = default;
};

/// Events of links. Called on the loop's thread, in order; may call the loop.
class link_events {
public:
  virtual ~link_events() = default;
  /// The link is up: both ends have agreed, and frames may come and go.
  virtual void on_up(const link_owner& owner, const std::shared_ptr<control_link>& link) = 0;
  /// A message has come; an error that is returned ends the link.
  virtual result<void> on_message(const link_owner& owner, link_kind kind, std::uint64_t request,
                                  std::string_view bytes) = 0;
  /// The link ended, or did not come about. `clean`: one end wanted it so.
  virtual void on_down(const link_owner& owner, const failure& why, bool clean) = 0;
};

struct control_event_loop_options {
  std::string address{};           ///< to take links at, port 0 for a free one; empty: takes none
  std::string cluster{};           ///< a hello must name it
  std::string token{};             ///< a hello must bear it
  std::uint32_t links_max = 4'096; ///< more wait until one ends
  std::uint64_t queue_bytes_max = std::uint64_t{64} << 20; ///< a link's, of what its peer reads not
  duration connect_max = std::chrono::seconds{2};
  duration hello_max =
    std::chrono::seconds{10}; ///< a link without hello or welcome ends after that
  duration ending_max = std::chrono::seconds{1}; ///< for what is queued when a link ends
};

/// The links of a process, on one thread: the coordinator's takes those that workers dial. All
/// state machines run on the thread that calls `run`; everything else may be called by any thread.
class control_event_loop {
public:
  control_event_loop(const environment& env, control_event_loop_options options,
                     link_events& events);
  ~control_event_loop();
  control_event_loop(const control_event_loop&) = delete;
  control_event_loop& operator=(const control_event_loop&) = delete;

  /// Listens; the address that workers dial. Once, before `run`.
  result<std::string> open();
  /// Serves until `stop`; then says goodbye on all links.
  void run();

  void stop();
  /// Makes a link for `self`; ends those of its earlier incarnations. The last order counts.
  void dial(const link_owner& self, term_no term, std::string address);
  /// Ends the owner's link in good order after `grace`, or never makes it.
  void end(const link_owner& owner, duration grace);

private:
  struct session;
  struct dial_order {
    link_owner self{};
    term_no term{};
    std::string address{};
  };
  struct end_order {
    link_owner owner{};
    time_point at{};
  };

  void take_orders();
  void connect(const dial_order& order);
  session& add(std::unique_ptr<channel> wire, std::uint32_t receive_bytes_max);
  bool serve(session& s);
  bool serve_frames(session& s);
  result<void> handle(session& s);
  result<void> on_hello(session& s);
  std::optional<failure> refuse(const hello_meta& hello) const;
  void welcome(session& s, const link_owner& owner);
  void say_goodbye(session& s);
  void down(session& s, const failure& why, bool clean);
  static channel_wait wait_of(session& s);
  void part();

  const environment env_;
  const control_event_loop_options options_;
  link_events& events_;
  const std::shared_ptr<channel_poller> poller_; ///< links, whose wake uses it, outlive the loop
  channel_loop<session> links_;
  std::atomic<bool> stopped_{false};

  std::mutex orders_mutex_{}; // guards the next two; at most one end an incarnation
  std::atomic<bool> any_order_{false};
  std::optional<dial_order> dial_{};
  std::vector<end_order> ends_{};
};

} // namespace troupe
