#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <caf/atom.hpp>

#include <troupe/actors/membership/published_port.hpp>
#include <troupe/core/mac.hpp>
#include <troupe/core/promise.hpp>
#include <troupe/messages/interfaces.hpp>
#include <troupe/messages/membership.hpp>
#include <troupe/messages/message_header.hpp>
#include <troupe/messages/tick.hpp>

namespace troupe {

/// Settings by which a worker or server finds its cluster.
struct member_options {
  task_id task{};
  std::string cluster = "troupe";
  std::string token{}; ///< shared secret; empty: none
  /// The membership actor, within one process; else its address, dialled through `network`.
  membership_actor membership{};
  caf::actor network{};
  std::string coordinator_host{};
  std::uint16_t coordinator_port = 0;
  /// The address at which the member's own actor is published, port 0 for the system's choice;
  /// empty within one process.
  std::string listen_host{};
  std::uint16_t listen_port = 0;
  std::string data_address{};
  std::uint64_t heartbeat_ms = 100;
  std::uint64_t connect_ms = 2'000;
  std::uint64_t hello_ms = 5'000;
  std::uint64_t retry_ms_max = 500;
  /// The process ends after this long without a sign of life of a coordinator.
  std::uint64_t coordinator_lost_ms_max = 60'000;
  /// Takes a line for people, about a coordinator that isn't there and what becomes of it. On the
  /// actor's thread: must not wait.
  std::function<void(const std::string& line)> say{};
  /// Set when the member has ended, with the reason in a failure when it did not end by order.
  std::shared_ptr<promise_slot<bool>> ended{};
  /// Set with the first admission, or with the failure that makes trying again useless.
  std::shared_ptr<promise_slot<incarnation>> admitted{};
};

/// A member's side of the membership: dials, says hello, beats, rejoins with a new nonce after a
/// fence, and ends with its cluster. Part of a worker's or server's state; runs on its actor.
template <class Interface>
class member_client {
public:
  struct events {
    std::function<void(const incarnation&, const view&)> on_admitted{};
    std::function<void(const view&)> on_view{};
    /// The incarnation is void: whatever it does must end.
    std::function<void()> on_fenced{};
    std::function<std::vector<thread_status>()> threads{};
  };
  enum timer : std::uint8_t { beat_timer = 200, dial_timer = 201, publish_timer = 202 };

  member_client(typename Interface::pointer self, const environment& env, member_options options,
                events on)
    : self_{self},
      env_{env},
      options_{std::move(options)},
      on_{std::move(on)},
      port_{self,
            {.network = options_.network,
             .who = to_string(options_.task),
             .host = options_.listen_host,
             .port = options_.listen_port,
             .request_ms = options_.connect_ms}} {}

  ~member_client() {
    if (options_.ended)
      options_.ended->set(true);
    if (options_.admitted)
      options_.admitted->set(make_failure(
        errc::unavailable, to_string(options_.task) + " ended before joining the cluster"));
  }

  void start() {
    heard_at_ = said_at_ = env_.clock.now();
    if (options_.membership) {
      membership_ = options_.membership;
      self_->monitor(membership_);
      say_hello();
    } else {
      publish();
    }
  }

  const incarnation& inc() const { return inc_; }
  bool is_member() const { return inc_.counter != 0; }
  const view& current() const { return view_; }
  const member_options& options() const { return options_; }
  /// The address at which the coordinator takes a link of this session; empty: it takes none.
  const std::string& link_address() const { return link_address_; }
  void learn_term(term_no term) { view_.term = std::max(view_.term, term); }

  message_header header(const incarnation& receiver = {}) {
    return {.term = view_.term,
            .epoch = view_.epoch,
            .from = options_.task,
            .sender = inc_,
            .receiver = receiver,
            .request = static_cast<request_no>(++next_request_)};
  }

  /// False, and counted, for a message that is not for this incarnation or comes from an older
  /// term.
  bool accepts(const message_header& h) {
    if (h.receiver == inc_ && is_member() && h.term >= view_.term)
      return true;
    mark(env_, "member.stale_message_refused");
    return false;
  }

  void on_view(view_changed& msg) {
    heard(msg.header);
    if (!is_for_me(msg.header) || msg.current.epoch < view_.epoch)
      return;
    auto term = std::max(view_.term, msg.current.term);
    view_ = std::move(msg.current);
    view_.term = term;
    trace_view("member.view");
    if (on_.on_view)
      on_.on_view(view_);
  }

  void on_probe(probe_member& msg) {
    heard(msg.header);
    if (is_for_me(msg.header))
      beat();
  }

  void on_fenced(const fenced_notice& msg) {
    heard(msg.header);
    if (msg.header.receiver != inc_ || !is_member())
      return;
    trace(env_, "member.fenced",
          {{"task", to_string(options_.task)}, {"incarnation", inc_.counter}});
    mark(env_, "member.fenced");
    inc_ = {};
    nonce_ = 0;
    on_.on_fenced();
    say_hello();
  }

  void on_end(const end_member& msg) {
    if (is_for_me(msg.header))
      end_with_cluster(msg.why);
  }

  /// Leaves on its own will; `why`, if it is one, is what its process ends with.
  void leave_now(std::optional<failure> why = {}) {
    if (is_member() && membership_)
      tell(self_, membership_, leave{.header = header()});
    end(std::move(why));
  }

  /// The link of this session is gone, and the coordinator may believe that we are: comes back as
  /// somebody new.
  void on_link_lost(const std::string& why) {
    if (!is_member() || ended_)
      return;
    trace(env_, "member.link_lost",
          {{"task", to_string(options_.task)}, {"incarnation", inc_.counter}, {"why", why}});
    mark(env_, "member.link_lost");
    if (membership_)
      tell(self_, membership_, leave{.header = header()});
    inc_ = {};
    nonce_ = 0;
    heard_at_ = env_.clock.now(); // until now there was somebody at its other end
    on_.on_fenced();
    dial_later(jitter(options_.retry_ms_max));
  }

  bool on_tick(const tick& msg) {
    switch (msg.what) {
      case beat_timer:
        beat_timer_set_ = false;
        notice_lateness();
        beat();
        look_for_coordinator();
        return true;
      case dial_timer:
        dial_timer_set_ = false;
        membership_ ? say_hello() : dial();
        return true;
      case publish_timer: port_.retry_open(); return true;
      default: return false;
    }
  }

  /// @returns true when it was the membership that went.
  bool on_down(const caf::down_msg& msg) {
    if (!membership_ || msg.source != membership_.address())
      return false;
    membership_ = nullptr;
    if (ended_)
      return true;
    trace(env_, "member.coordinator_lost", {{"task", to_string(options_.task)}});
    const bool was_member = is_member();
    if (was_member) {
      inc_ = {};
      heard_at_ = env_.clock.now(); // a dead actor that is found was never heard
      on_.on_fenced();
    }
    nonce_ = 0;
    view_ = {};
    if (options_.membership) // within one process there is nobody else to find
      end(make_failure(errc::unavailable, "the coordinator has ended"));
    else
      dial_later(jitter(was_member ? 50 : options_.retry_ms_max));
    return true;
  }

private:
  /// Whether a message of the membership is for this incarnation. The membership's term is that of
  /// its process, which is found anew when it changes.
  bool is_for_me(const message_header& h) const { return is_member() && h.receiver == inc_; }

  /// A sign of life of the membership.
  void heard(const message_header& h) {
    if (h.receiver == inc_)
      heard_at_ = env_.clock.now();
  }

  /// Takes the time that this process itself slept out of the silences.
  void notice_lateness() {
    const auto now = env_.clock.now();
    const auto late = now - beat_due_;
    if (late > std::chrono::milliseconds{options_.heartbeat_ms})
      heard_at_ = std::min(now, heard_at_ + late);
  }

  /// A coordinator whose machine went away ends no connection: after a quarter of the time that a
  /// member waits for one, it is asked whether it lives; after all of it, it counts as lost.
  void look_for_coordinator() {
    if (ended_ || options_.membership || !membership_ || give_up_if_late())
      return;
    auto now = env_.clock.now();
    auto quarter = std::chrono::milliseconds{options_.coordinator_lost_ms_max / 4};
    if (now - std::max(heard_at_, asked_at_) < quarter)
      return;
    asked_at_ = now;
    say_hello(); // the same nonce again: its answer is a sign of life and nothing else
  }

  void publish() {
    if (options_.listen_host.empty())
      return dial();
    port_.open(
      caf::actor_cast<caf::strong_actor_ptr>(self_handle<Interface>(self_)),
      [this](std::uint16_t port) {
        control_address_ = options_.listen_host + ":" + std::to_string(port);
        dial();
      },
      [this](failure why) { end(std::move(why)); },
      [this](std::uint64_t ms) { later(publish_timer, ms); });
  }

  /// Starts an attempt, or the timer for the next: one at a time, whatever asks for it.
  void dial() {
    if (ended_ || dialling_ || give_up_if_late())
      return;
    dialling_ = true;
    self_
      ->request(options_.network, std::chrono::milliseconds{options_.connect_ms},
                caf::connect_atom::value, options_.coordinator_host, options_.coordinator_port)
      .then(
        [this](const caf::node_id&, caf::strong_actor_ptr& found, const std::set<std::string>&) {
          dialling_ = false;
          if (ended_)
            return;
          if (!found)
            return dial_later(jitter(options_.retry_ms_max));
          // No sign of life yet: the port of a process that lives may lead to an actor that
          // doesn't.
          membership_ = caf::actor_cast<membership_actor>(found);
          self_->monitor(membership_);
          say_hello();
        },
        [this](caf::error&) {
          dialling_ = false;
          dial_later(jitter(options_.retry_ms_max));
        });
  }

  void dial_later(std::uint64_t ms) {
    if (ended_ || std::exchange(dial_timer_set_, true))
      return;
    later(dial_timer, ms);
  }

  void say_hello() {
    if (ended_ || give_up_if_late())
      return;
    if (nonce_ == 0)
      nonce_ = env_.random.draw("member.nonce") | 1;
    auto& table = function_table::global();
    hello msg{.cluster = options_.cluster,
              .task = options_.task,
              .nonce = nonce_,
              .functions_hash = table.hash(),
              .functions = table.lines(),
              .data_address = options_.data_address,
              .control_address = control_address_};
    std::size_t bytes = 0;
    for (const auto& line : msg.functions)
      bytes += line.name.size() + line.signature.size() + 8;
    if (bytes > message_bytes_max - 4096)
      msg.functions.clear();
    msg.token_mac = token_proof(options_.token, hello_text(msg));
    ask(
      self_, membership_, std::chrono::milliseconds{options_.hello_ms}, std::move(msg),
      [this, nonce = nonce_](hello_answer& answer) { on_answer(nonce, answer); },
      [this](const std::string&) {
        if (!is_member())
          dial_later(jitter(options_.retry_ms_max));
      });
  }

  void on_answer(std::uint64_t nonce, hello_answer& answer) {
    if (nonce != nonce_ || ended_)
      return;
    heard_at_ = env_.clock.now();
    if (answer.ending)
      return end_with_cluster(answer.why);
    if (answer.why.code == errc::fenced) { // admitted once, its welcome or the news of its fence
                                           // lost: come as somebody new
      mark(env_, "member.welcome_was_lost");
      if (is_member()) {
        inc_ = {};
        on_.on_fenced();
      }
      nonce_ = 0;
      return dial_later(jitter(options_.retry_ms_max));
    }
    if (answer.why.code == errc::try_again)
      return dial_later(jitter(options_.retry_ms_max));
    if (answer.why.code != errc::none)
      return end(std::move(answer.why));
    if (answer.inc == inc_)
      return;
    inc_ = answer.inc;
    view_ = std::move(answer.current);
    link_address_ = std::move(answer.link_address);
    trace_view("member.admitted");
    on_.on_admitted(inc_, view_);
    if (options_.admitted)
      options_.admitted->set(inc_);
    beat();
  }

  void beat() {
    if (!is_member() || !membership_ || ended_)
      return;
    tell(self_, membership_,
         heartbeat{.header = header(),
                   .threads = on_.threads ? on_.threads() : std::vector<thread_status>{}});
    if (beat_timer_set_)
      return;
    beat_timer_set_ = true;
    beat_due_ = after(env_.clock.now(), std::chrono::milliseconds{options_.heartbeat_ms});
    later(beat_timer, options_.heartbeat_ms);
  }

  /// Counts from the coordinator's last sign of life: a member that was fenced after hours comes
  /// back. A connection, or an actor that is found at the address, is none.
  bool give_up_if_late() {
    if (options_.membership)
      return false;
    const auto silent =
      std::chrono::duration_cast<std::chrono::milliseconds>(env_.clock.now() - heard_at_);
    if (silent < std::chrono::milliseconds{options_.coordinator_lost_ms_max}) {
      tell_wait(silent);
      return false;
    }
    end(make_failure(errc::unavailable, "no coordinator at " + coordinator_address() + " for "
                                          + seconds(options_.coordinator_lost_ms_max)));
    return true;
  }

  std::string coordinator_address() const {
    return options_.coordinator_host + ":" + std::to_string(options_.coordinator_port);
  }
  static std::string seconds(std::uint64_t ms) {
    return ms % 1'000 == 0 ? std::to_string(ms / 1'000) + " s" : std::to_string(ms) + " ms";
  }

  /// Tells whoever looks at this process, every few seconds, that the coordinator is missing. A
  /// member hears of its coordinator once in a quarter of its patience: less silence is no news.
  void tell_wait(std::chrono::milliseconds silent) {
    constexpr std::chrono::milliseconds say_every{5'000};
    const auto now = env_.clock.now();
    const std::chrono::milliseconds usual{is_member() ? options_.coordinator_lost_ms_max / 4 : 0};
    if (silent < usual + say_every || now - said_at_ < say_every)
      return;
    said_at_ = now;
    const auto waited = static_cast<std::uint64_t>(silent.count()) / 1'000 * 1'000;
    trace(env_, "member.waits", {{"task", to_string(options_.task)}, {"silent_ms", waited}});
    if (options_.say)
      options_.say(to_string(options_.task) + ": no coordinator at " + coordinator_address()
                   + " for " + seconds(waited) + ", giving up after "
                   + seconds(options_.coordinator_lost_ms_max));
  }

  void end_with_cluster(const failure& why) {
    end(why.code == errc::none ? std::nullopt : std::optional{why});
  }

  void end(std::optional<failure> why) {
    if (std::exchange(ended_, true))
      return;
    if (is_member())
      on_.on_fenced();
    inc_ = {};
    if (why) {
      trace(env_, "member.ended", {{"task", to_string(options_.task)}, {"why", why->text}});
      if (options_.ended)
        options_.ended->set(*why);
      if (options_.admitted)
        options_.admitted->set(std::move(*why));
    }
    port_.close([self = self_] { self->quit(); });
  }

  void later(std::uint8_t what, std::uint64_t ms) {
    tell_after(self_, self_handle<Interface>(self_), std::chrono::milliseconds{ms},
               tick{.what = what});
  }
  void trace_view(std::string_view id) const {
    trace(env_, id,
          {{"task", to_string(options_.task)},
           {"incarnation", inc_.counter},
           {"nonce", inc_.nonce},
           {"term", view_.term},
           {"epoch", view_.epoch}});
  }
  std::uint64_t jitter(std::uint64_t ms) {
    return ms / 2 + env_.random.draw("member.jitter") % (ms / 2 + 1);
  }

  typename Interface::pointer self_;
  const environment& env_;
  member_options options_;
  events on_;
  published_port<typename Interface::pointer> port_;
  membership_actor membership_{};
  std::string control_address_{};
  std::string link_address_{};
  std::uint64_t nonce_ = 0;
  incarnation inc_{};
  view view_{};
  std::uint64_t next_request_ = 0;
  time_point heard_at_{}; ///< the last sign of life of a membership
  time_point asked_at_{}; ///< for one
  time_point said_at_{};  ///< that it is waited for
  time_point beat_due_{};
  bool beat_timer_set_ = false;
  bool dial_timer_set_ = false;
  bool dialling_ = false;
  bool ended_ = false;
};

} // namespace troupe
