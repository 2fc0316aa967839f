#include <troupe/actors/control_plane/control_event_loop.hpp>

#include <algorithm>
#include <new>
#include <utility>

#include <troupe/actors/support/hello_meta.hpp>

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

struct control_event_loop::session : served_channel {
  channel& wire() { return link->wire(); }
  void close() { link->close(); }

  std::shared_ptr<control_link> link{};
  link_owner owner{};
  bool dialled = false;
  bool up = false;
  bool ending = false;       ///< goodbye is said: what is queued goes out, nothing is read
  time_point until = never;  ///< when its hello or its end is late
  time_point end_at = never; ///< when to say goodbye
};

control_event_loop::control_event_loop(const environment& env, control_event_loop_options options,
                                       link_events& events)
  : env_{env},
    options_{std::move(options)},
    events_{events},
    poller_{env.transport.make_poller()},
    links_{poller_} {}

control_event_loop::~control_event_loop() = default;

result<std::string> control_event_loop::open() {
  auto made = env_.transport.listen(options_.address);
  if (!made)
    return made.error();
  auto address = (*made)->address();
  links_.listen(std::move(*made));
  return address;
}

void control_event_loop::run() {
  struct at_end { // also when a simulated process ends in the middle
    channel_loop<session>& links;
    ~at_end() { links.close(); }
  } guard{links_};
  while (!stopped_.load(std::memory_order_acquire)) {
    if (any_order_.exchange(false, std::memory_order_acq_rel))
      take_orders();
    links_.accept(options_.links_max, [this](std::unique_ptr<channel> wire) {
      add(std::move(wire), report_bytes_max);
    });
    links_.turn([this](session& s) { return serve(s); }, wait_of);
  }
  part();
}

/// Goodbye to all, and until they have heard it.
void control_event_loop::part() {
  for (const auto& s : links_.sessions())
    if (!s->up)
      s->ended = true;
    else if (!s->ending)
      say_goodbye(*s);
  links_.finish([this](session& s) { return serve(s); }, wait_of);
}

void control_event_loop::stop() {
  stopped_.store(true, std::memory_order_release);
  poller_->wake();
}

// -- orders
// -----------------------------------------------------------------------------------------------------------

void control_event_loop::dial(const link_owner& self, term_no term, std::string address) {
  {
    std::lock_guard lock{orders_mutex_};
    dial_ = {.self = self, .term = term, .address = std::move(address)};
  }
  any_order_.store(true, std::memory_order_release);
  poller_->wake();
}

void control_event_loop::end(const link_owner& owner, duration grace) {
  {
    std::lock_guard lock{orders_mutex_};
    if (dial_ && dial_->self == owner)
      dial_.reset();
    ends_.push_back({.owner = owner, .at = after(env_.clock.now(), grace)});
  }
  any_order_.store(true, std::memory_order_release);
  poller_->wake();
}

void control_event_loop::take_orders() {
  std::optional<dial_order> wanted;
  std::vector<end_order> ends;
  {
    std::lock_guard lock{orders_mutex_};
    wanted = std::exchange(dial_, std::nullopt);
    ends = std::exchange(ends_, {});
  }
  for (const auto& s : links_.sessions())
    for (const auto& order : ends)
      if (s->owner == order.owner)
        s->end_at = std::min(s->end_at, order.at);
  if (wanted) {
    for (const auto& s : links_.sessions())
      if (s->dialled)
        s->end_at = {};
    connect(*wanted);
  }
}

void control_event_loop::connect(const dial_order& order) {
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

auto control_event_loop::add(std::unique_ptr<channel> wire, std::uint32_t receive_bytes_max)
  -> session& {
  auto& s = links_.add(std::make_unique<session>());
  s.link = std::make_shared<control_link>(
    std::move(wire), [poller = poller_] { poller->wake(); }, receive_bytes_max,
    options_.queue_bytes_max);
  s.until = after(env_.clock.now(), options_.hello_max);
  return s;
}

// -- sessions
// ---------------------------------------------------------------------------------------------------------

/// True when there is more to do without waiting.
bool control_event_loop::serve(session& s) {
  try {
    return serve_frames(s);
  } catch (const std::bad_alloc&) { // a message may be lost: the link can't go on
    down(s, make_failure(errc::out_of_memory, "no memory"), false);
    return false;
  }
}

bool control_event_loop::serve_frames(session& s) {
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

result<void> control_event_loop::handle(session& s) {
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

result<void> control_event_loop::on_hello(session& s) {
  auto hello = decode_meta<hello_meta>(s.link->frame().meta(), "hello");
  if (!hello)
    return hello.error();
  if (auto why = refuse(*hello)) {
    trace(env_, "link.refused", {{"peer", s.link->wire().peer()}, {"why", why->text}});
    s.link->send(link_kind::refused, 0, encode_meta(outcome_meta{std::move(*why)}));
    s.ending = true;
    s.until = after(env_.clock.now(), options_.ending_max);
  } else {
    welcome(s, {hello->task, hello->inc});
  }
  return {};
}

/// Why that hello makes no link; nothing: it does.
std::optional<failure> control_event_loop::refuse(const hello_meta& hello) const {
  const link_owner owner{hello.task, hello.inc};
  auto stranger = [&](const std::string& what) {
    return make_failure(errc::wrong_peer, "hello of " + name_of(owner) + ": " + what);
  };
  if (hello.version != data_protocol_version)
    return stranger("data protocol " + std::to_string(hello.version) + ", expected "
                    + std::to_string(data_protocol_version));
  if (hello.cluster != options_.cluster)
    return stranger("cluster '" + hello.cluster.substr(0, 100) + "', expected '" + options_.cluster
                    + "'");
  if (!has_token(hello, options_.token, hello_use::link))
    return stranger(token_refusal(hello, options_.token, "this process"));
  if (hello.task.job != job_kind::worker || hello.inc.counter == 0)
    return stranger("only workers may open a link");
  for (const auto& x : links_.sessions()) {
    if (x->ended || !x->up || x->owner.task != owner.task || x->owner.inc < owner.inc)
      continue;
    return stranger(x->owner == owner ? "a link is already open"
                                      : "a newer incarnation has a link");
  }
  return std::nullopt;
}

void control_event_loop::welcome(session& s, const link_owner& owner) {
  // of earlier incarnations: their ends are known, or will be
  for (const auto& x : links_.sessions())
    if (x->up && !x->ended && x->owner.task == owner.task && x->owner.inc < owner.inc)
      x->end_at = env_.clock.now();
  poller_->wake(); // those had their turn
  s.owner = owner;
  s.up = true;
  s.until = never;
  s.link->send(link_kind::welcome, 0, {});
  trace(env_, "link.up", {{"task", to_string(owner.task)}, {"incarnation", owner.inc.counter}});
  events_.on_up(s.owner, s.link);
}

void control_event_loop::say_goodbye(session& s) {
  s.ending = true;
  s.until = after(env_.clock.now(), options_.ending_max);
  s.link->send(link_kind::goodbye, 0, {});
  s.link->seal();
  if (s.up)
    events_.on_down(s.owner, make_failure(errc::connection_lost, "closed by this process"), true);
}

void control_event_loop::down(session& s, const failure& why, bool clean) {
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

channel_wait control_event_loop::wait_of(session& s) {
  return {.send = s.link->blocked(), .until = std::min(s.until, s.ending ? never : s.end_at)};
}

} // namespace troupe
