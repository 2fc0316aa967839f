#include <troupe/actors/control_plane/control_lane.hpp>

#include <algorithm>
#include <new>
#include <utility>

#include <troupe/actors/data_plane/parameter_protocol.hpp>
#include <troupe/core/mac.hpp>

namespace troupe {

namespace {

// Frames of one link before the others get their turn.
constexpr int frames_per_turn = 64;
// A worker's reports are small messages; one error's text is cut there.
constexpr std::uint32_t report_bytes_max = std::uint32_t{1} << 20;

std::string name_of(const link_owner& owner) {
  return to_string(owner.task) + " incarnation " + std::to_string(owner.inc.counter);
}

} // namespace

struct control_lane::session {
  std::shared_ptr<control_link> link{};
  link_owner owner{};
  bool dialled = false;
  bool up = false;
  bool ending = false; ///< goodbye is said: what is queued goes out, nothing is read
  bool ended = false;
  time_point until = never;  ///< when its hello or its end is late
  time_point end_at = never; ///< when to say goodbye
  bool watched = false;
  bool watched_send = false;
};

control_lane::control_lane(const environment& env, control_lane_options options,
                           link_events& events)
  : env_{env},
    options_{std::move(options)},
    events_{events},
    poller_{env.transport.make_poller()} {}

control_lane::~control_lane() { close_all(); }

result<std::string> control_lane::open() {
  auto made = env_.transport.listen(options_.address);
  if (!made)
    return made.error();
  listener_ = std::move(*made);
  return listener_->address();
}

void control_lane::run() {
  struct at_end { // also when a simulated process ends in the middle
    control_lane& lane;
    ~at_end() { lane.close_all(); }
  } guard{*this};
  while (!stopped_.load(std::memory_order_acquire)) {
    if (any_order_.exchange(false, std::memory_order_acq_rel))
      take_orders();
    accept_new();
    bool more = false;
    auto deadline = never;
    for (auto& s : sessions_) {
      more = serve(*s) || more;
      if (!s->ended)
        deadline = std::min(deadline, watch(*s));
    }
    const bool room = drop_ended() && listener_ && !listening_watched_;
    if (!more && !room)
      poller_->wait(deadline);
  }
  part();
}

/// Goodbye to all, and until they have heard it.
void control_lane::part() {
  for (auto& s : sessions_)
    if (!s->up)
      s->ended = true;
    else if (!s->ending)
      say_goodbye(*s);
  while (drop_ended(), !sessions_.empty()) {
    auto deadline = never;
    for (auto& s : sessions_) {
      serve(*s);
      if (!s->ended)
        deadline = std::min(deadline, watch(*s));
    }
    if (deadline != never)
      poller_->wait(deadline);
  }
}

void control_lane::stop() {
  stopped_.store(true, std::memory_order_release);
  poller_->wake();
}

// -- orders
// -----------------------------------------------------------------------------------------------------------

void control_lane::dial(const link_owner& self, term_no term, std::string address) {
  {
    std::lock_guard lock{orders_mutex_};
    dial_ = {.self = self, .term = term, .address = std::move(address)};
  }
  any_order_.store(true, std::memory_order_release);
  poller_->wake();
}

void control_lane::end(const link_owner& owner, duration grace) {
  {
    std::lock_guard lock{orders_mutex_};
    if (dial_ && dial_->self == owner)
      dial_.reset();
    ends_.push_back({.owner = owner, .at = after(env_.clock.now(), grace)});
  }
  any_order_.store(true, std::memory_order_release);
  poller_->wake();
}

void control_lane::take_orders() {
  std::optional<dial_order> wanted;
  std::vector<end_order> ends;
  {
    std::lock_guard lock{orders_mutex_};
    wanted = std::exchange(dial_, std::nullopt);
    ends = std::exchange(ends_, {});
  }
  for (auto& s : sessions_)
    for (const auto& order : ends)
      if (s->owner == order.owner)
        s->end_at = std::min(s->end_at, order.at);
  if (wanted) {
    for (auto& s : sessions_)
      if (s->dialled)
        s->end_at = {};
    connect(*wanted);
  }
}

void control_lane::connect(const dial_order& order) {
  auto wire = env_.transport.connect(order.address, after(env_.clock.now(), options_.connect_max));
  if (!wire)
    return events_.on_down(order.self, wire.error(), false);
  auto& s = add(std::move(*wire), link_bytes_max);
  s.dialled = true;
  s.owner = order.self;
  hello_meta hello{.version = data_protocol_version,
                   .cluster = options_.cluster,
                   .task = order.self.task,
                   .inc = order.self.inc,
                   .receiver = {},
                   .term = order.term,
                   .token = {}};
  hello.token = hello_code(hello, options_.token, hello_use::link);
  s.link->send(link_kind::hello, 0, encode_meta(std::move(hello)));
}

auto control_lane::add(std::unique_ptr<channel> wire, std::uint32_t receive_bytes_max) -> session& {
  auto& s = *sessions_.emplace_back(std::make_unique<session>());
  s.link = std::make_shared<control_link>(
    std::move(wire), [poller = poller_] { poller->wake(); }, receive_bytes_max,
    options_.queue_bytes_max);
  s.until = after(env_.clock.now(), options_.hello_max);
  return s;
}

void control_lane::accept_new() {
  if (!listener_)
    return;
  while (sessions_.size() < options_.links_max) {
    auto wire = listener_->try_accept();
    if (!wire) {
      if (!std::exchange(listening_watched_, true))
        poller_->watch(*listener_);
      return;
    }
    add(std::move(wire), report_bytes_max);
  }
  if (std::exchange(listening_watched_, false))
    poller_->forget(*listener_);
}

// -- sessions
// ---------------------------------------------------------------------------------------------------------

/// True when there is more to do without waiting.
bool control_lane::serve(session& s) {
  try {
    return serve_frames(s);
  } catch (const std::bad_alloc&) { // a message may be lost: the link can't go on
    down(s, make_failure(errc::out_of_memory, "no memory"), false);
    return false;
  }
}

bool control_lane::serve_frames(session& s) {
  const auto now = env_.clock.now();
  if (!s.ending && now >= s.end_at)
    say_goodbye(s);
  auto sent = s.link->flush();
  if (s.ending) { // to close over what was not read would take what is on its way along
    auto event = s.link->receive();
    const bool whole = event && *event == frame_event::complete;
    const bool goodbye =
      whole && s.link->frame().header().kind == static_cast<std::uint8_t>(link_kind::goodbye);
    s.ended = !sent || !event || goodbye || now >= s.until; // both may say it at once
    return !s.ended && whole;
  }
  if (!sent && sent.error().code != errc::connection_lost) {
    down(s, sent.error(), false);
    return false;
  }
  if (now >= s.until) {
    down(s, make_failure(errc::deadline, "no answer to the hello"), false);
    return false;
  }
  for (int frames = 0; frames < frames_per_turn; ++frames) {
    auto event = s.link->receive(); // a goodbye may wait behind a lost connection
    if (!event) {
      down(s, sent ? event.error() : sent.error(), false);
      return false;
    }
    if (*event == frame_event::idle) {
      if (!sent)
        down(s, sent.error(), false);
      return false;
    }
    auto ok = handle(s);
    if (!ok)
      down(s, ok.error(), false);
    if (s.ended || s.ending)
      return false;
  }
  return true; // the reader may hold frames that no poller sees
}

result<void> control_lane::handle(session& s) {
  const auto& frame = s.link->frame();
  const auto kind = static_cast<link_kind>(frame.header().kind);
  if (s.up && kind == link_kind::goodbye) {
    down(s, make_failure(errc::connection_lost, "closed by the peer"), true);
    return {};
  }
  if (s.up && kind > link_kind::goodbye)
    return events_.on_message(s.owner, kind, frame.header().request, frame.meta());
  if (!s.up && !s.dialled && kind == link_kind::hello)
    return on_hello(s);
  if (!s.up && s.dialled && kind == link_kind::welcome) {
    s.up = true;
    s.until = never;
    events_.on_up(s.owner, s.link);
    return {};
  }
  if (!s.up && s.dialled && kind == link_kind::refused) {
    auto why = decode_meta<outcome_meta>(frame.meta(), "refused");
    if (why && why->why.code != errc::none)
      return why->why;
  }
  return make_failure(errc::bad_frame, "link with " + s.link->wire().peer() + ": frame kind "
                                         + std::to_string(frame.header().kind)
                                         + (s.up ? " after the welcome" : " before the welcome"));
}

result<void> control_lane::on_hello(session& s) {
  auto hello = decode_meta<hello_meta>(s.link->frame().meta(), "hello");
  if (!hello)
    return hello.error();
  const link_owner owner{hello->task, hello->inc};
  auto stranger = [&]() -> std::optional<failure> {
    auto why = [&](const std::string& what) {
      return make_failure(errc::wrong_peer, "hello of " + name_of(owner) + ": " + what);
    };
    if (hello->version != data_protocol_version)
      return why("data protocol " + std::to_string(hello->version) + ", expected "
                 + std::to_string(data_protocol_version));
    if (hello->cluster != options_.cluster)
      return why("cluster '" + hello->cluster.substr(0, 100) + "', expected '" + options_.cluster
                 + "'");
    if (!same_code(hello->token, hello_code(*hello, options_.token, hello_use::link)))
      return why((hello->token.empty()     ? "the token is missing: "
                  : options_.token.empty() ? "unexpected token, this process has none: "
                                           : "wrong token: ")
                 + std::string{token_advice});
    if (hello->task.job != job_kind::worker || hello->inc.counter == 0)
      return why("only workers may open a link");
    for (const auto& x : sessions_) {
      if (x->ended || !x->up || x->owner.task != owner.task || x->owner.inc < owner.inc)
        continue;
      return x->owner == owner ? why("a link is already open")
                               : why("a newer incarnation has a link");
    }
    return std::nullopt;
  }();
  if (stranger) {
    trace(env_, "link.refused", {{"peer", s.link->wire().peer()}, {"why", stranger->text}});
    s.link->send(link_kind::refused, 0, encode_meta(outcome_meta{std::move(*stranger)}));
    s.ending = true;
    s.until = after(env_.clock.now(), options_.ending_max);
    return {};
  }
  for (auto& x : sessions_) // of lives before this one: their ends are known, or will be
    if (x->up && !x->ended && x->owner.task == owner.task && x->owner.inc < owner.inc)
      x->end_at = env_.clock.now();
  poller_->wake(); // those had their turn
  s.owner = owner;
  s.up = true;
  s.until = never;
  s.link->send(link_kind::welcome, 0, {});
  trace(env_, "link.up", {{"task", to_string(owner.task)}, {"incarnation", owner.inc.counter}});
  events_.on_up(s.owner, s.link);
  return {};
}

void control_lane::say_goodbye(session& s) {
  s.ending = true;
  s.until = after(env_.clock.now(), options_.ending_max);
  s.link->send(link_kind::goodbye, 0, {});
  s.link->seal();
  if (s.up)
    events_.on_down(s.owner, make_failure(errc::connection_lost, "closed by this process"), true);
}

void control_lane::down(session& s, const failure& why, bool clean) {
  s.ended = true;
  s.link->seal(); // before anybody hears of it: whoever sends from then on is told that it is gone
  if (!s.up && !s.dialled) // a stranger
    return;
  trace(env_, "link.down",
        {{"task", to_string(s.owner.task)},
         {"incarnation", s.owner.inc.counter},
         {"clean", clean ? 1 : 0},
         {"why", why.text}});
  events_.on_down(s.owner, why, clean);
}

/// Watches for what the session waits for; the time at which it wants its turn anyway.
time_point control_lane::watch(session& s) {
  const bool send = s.link->blocked();
  if (!s.watched || s.watched_send != send) {
    poller_->watch(s.link->wire(), send);
    s.watched = true;
    s.watched_send = send;
  }
  return std::min(s.until, s.ending ? never : s.end_at);
}

/// True when one was dropped.
bool control_lane::drop_ended() {
  for (auto& s : sessions_)
    if (s->ended) {
      if (s->watched)
        poller_->forget(s->link->wire());
      s->link->close();
    }
  return std::erase_if(sessions_, [](const auto& s) { return s->ended; }) > 0;
}

void control_lane::close_all() {
  for (auto& s : sessions_)
    s->ended = true;
  drop_ended();
  if (listener_ && std::exchange(listening_watched_, false))
    poller_->forget(*listener_);
  listener_.reset();
}

} // namespace troupe
