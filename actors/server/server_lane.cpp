#include <troupe/actors/server/server_lane.hpp>

#include <algorithm>
#include <new>

#include <troupe/actors/server/detail/server_session.hpp>
#include <troupe/core/mac.hpp>
#include <troupe/core/planted.hpp>

namespace troupe {

namespace {

// Frames of one channel before the others get their turn.
constexpr int frames_per_turn = 16;
// How often a channel is tried whose peer does not take its answers: it can't be watched for that
// alone.
constexpr auto paused_retry = std::chrono::milliseconds{1};
constexpr auto ending_max = std::chrono::seconds{1};

} // namespace

server_lane::server_lane(const environment& env, server_lane_options options)
  : env_{env}, options_{std::move(options)}, poller_{env.transport.make_poller()} {}

server_lane::~server_lane() { close_all(); }

result<std::string> server_lane::open() {
  auto made = env_.transport.listen(options_.address);
  if (!made)
    return made.error();
  listener_ = std::move(*made);
  return listener_->address();
}

void server_lane::run() {
  TROUPE_ASSERT(listener_ != nullptr, "server_lane: open() comes before run()");
  while (!stopped_.load(std::memory_order_acquire)) {
    try {
      turn();
    } catch (const std::bad_alloc&) { // outside of any call: others may give some back
      mark(env_, "server.out_of_memory");
      env_.lanes.yield();
    }
  }
  close_all();
}

void server_lane::turn() {
  if (any_order_.exchange(false, std::memory_order_acq_rel))
    take_orders();
  accept_new();
  bool more = false;
  auto now = env_.clock.now();
  auto deadline = never;
  for (auto& s : sessions_) {
    more = serve(*s) || more;
    if (now >= s->until)
      s->ended = true;
    if (!s->ended)
      deadline = std::min(deadline, watch(*s));
  }
  bool room = drop_ended() && !listening_watched_; // for one that waits to be accepted
  if (!more && !room)
    poller_->wait(deadline);
}

void server_lane::stop() {
  stopped_.store(true, std::memory_order_release);
  poller_->wake();
}

void server_lane::set_incarnation(const incarnation& self) {
  std::lock_guard lock{orders_mutex_};
  self_ = self;
  any_order_ = true; // channels to the life before end
  poller_->wake();
  fences_.clear(); // of the life before; the view that comes with the new one names those that hold
}

void server_lane::fence(const task_id& task, std::uint32_t counter) {
  {
    std::lock_guard lock{orders_mutex_};
    auto& highest = fences_[task];
    highest = std::max(highest, counter);
  }
  any_order_.store(true, std::memory_order_release);
  poller_->wake();
}

// Channels of senders that were fenced since they said hello.
incarnation server_lane::self() {
  std::lock_guard lock{orders_mutex_};
  return self_;
}

void server_lane::take_orders() {
  for (auto& s : sessions_) {
    if (!s->welcomed || s->ending)
      continue;
    if (auto now = self(); s->as != now) {
      finish_refused(*s, make_failure(errc::unavailable, "the server has a new incarnation"));
      continue;
    }
    hello_meta again;
    again.task = s->from.task;
    again.inc = s->from.inc;
    if (auto why = refuse_fenced(again)) {
      mark(env_, "server.fenced_refused");
      finish_refused(*s, std::move(*why));
    }
  }
}

// -- channels
// -----------------------------------------------------------------------------------------------------------

void server_lane::accept_new() {
  while (sessions_.size() < options_.channels_max) {
    auto wire = listener_->try_accept();
    if (!wire) {
      if (!std::exchange(listening_watched_, true))
        poller_->watch(*listener_);
      return;
    }
    accept(std::move(wire));
  }
  if (std::exchange(listening_watched_, false))
    poller_->forget(*listener_);
}

void server_lane::accept(std::unique_ptr<channel> wire) {
  sessions_.push_back(std::make_unique<session>(std::move(wire), options_.frame_bytes_max));
  sessions_.back()->until = after(env_.clock.now(), options_.hello_max);
  channel_count_.store(sessions_.size());
  trace(env_, "server.channel_accepted", {{"peer", sessions_.back()->wire->peer()}});
}

// True when there is more to do without waiting.
bool server_lane::serve(session& s) {
  try {
    return serve_frames(s);
  } catch (const std::bad_alloc&) { // between two calls: nobody could be told which one failed
    mark(env_, "server.out_of_memory");
    s.ended = true;
    return false;
  }
}

bool server_lane::serve_frames(session& s) {
  auto flush = [&] {
    if (s.deaf)
      return;
    if (auto sent = s.out.pump(*s.wire); !sent) {
      s.deaf = true;
      s.out.clear();
    }
    if (s.ending && (s.deaf || s.out.empty()))
      s.ended = true;
  };
  flush();
  int frames = 0;
  while (!s.ending && !s.ended && frames < frames_per_turn
         && s.out.queued_bytes() <= options_.queued_bytes_max) {
    auto event = s.in.pump(*s.wire);
    if (!event) {
      if (s.receiving_push && event.error().code == errc::connection_lost) {
        mark(env_, "server.push_cut_short");
        if (planted(planted_bug::half_a_push) && options_.store)
          for (const auto& piece : s.pieces)
            (void)options_.store->mutate(piece, s.from);
      }
      if (event.error().code != errc::connection_lost && options_.store)
        options_.store->note_refused();
      trace(env_, "server.channel_ended", {{"peer", s.wire->peer()}, {"why", event.error().text}});
      s.ended = true;
      return false;
    }
    if (*event == frame_event::idle) {
      flush();
      s.ended = s.ended || s.deaf;
      return false;
    }
    auto ok = take(s, *event);
    if (!ok)
      finish_refused(s, std::move(ok.error()));
    frames += *event == frame_event::complete ? 1 : 0;
  }
  flush();
  // The reader may hold frames that came with the last ones and that no poller sees.
  return !s.ending && !s.ended && s.out.queued_bytes() <= options_.queued_bytes_max;
}

result<void> server_lane::take(session& s, frame_event event) {
  try {
    return event == frame_event::need_bulk ? place_bulk(s) : handle(s);
  } catch (const std::bad_alloc&) {
    mark(env_, "server.out_of_memory");
    s.pieces.clear();
    s.tensors.clear();
    s.blob = {};
    if (event == frame_event::complete)
      answer_no_memory(s);
    else {
      s.no_memory = s.placed = true;
      s.in.discard();
    }
    return {};
  }
}

// Watches for what the session waits for; the time at which it wants its turn anyway.
time_point server_lane::watch(session& s) {
  if (s.out.queued_bytes() > options_.queued_bytes_max) {
    // To watch it would wake for the questions that we don't read now.
    if (std::exchange(s.watched, false))
      poller_->forget(*s.wire);
    return std::min(s.until, after(env_.clock.now(), paused_retry));
  }
  bool send = !s.out.empty();
  if (!s.watched || s.watched_send != send) {
    poller_->watch(*s.wire, send);
    s.watched = true;
    s.watched_send = send;
  }
  return s.until;
}

// True when one was dropped.
bool server_lane::drop_ended() {
  for (auto& s : sessions_)
    if (s->ended) {
      if (s->watched)
        poller_->forget(*s->wire);
      s->wire->close();
    }
  bool dropped = std::erase_if(sessions_, [](const auto& s) { return s->ended; }) > 0;
  if (dropped)
    channel_count_.store(sessions_.size());
  return dropped;
}

void server_lane::close_all() {
  for (auto& s : sessions_)
    s->ended = true;
  drop_ended();
  if (listener_ && std::exchange(listening_watched_, false))
    poller_->forget(*listener_);
  listener_.reset();
}

void server_lane::finish_refused(session& s, failure why) {
  trace(env_, "server.channel_refused", {{"peer", s.wire->peer()}, {"why", why.text}});
  if (options_.store)
    options_.store->note_refused();
  s.ending = true;
  s.until = after(env_.clock.now(), ending_max);
  answer(s, data_kind::refused, encode_meta(outcome_meta{std::move(why)}));
}

// -- hello
// --------------------------------------------------------------------------------------------------------------

result<void> server_lane::on_hello(session& s) {
  auto hello = decode_meta<hello_meta>(s.in.meta(), "hello");
  if (!hello)
    return hello.error();
  if (auto why = refuse(*hello)) {
    if (why->code == errc::fenced)
      mark(env_, "server.fenced_refused");
    return std::move(*why);
  }
  s.welcomed = true;
  s.until = never;
  s.from.task = hello->task;
  s.from.inc = hello->inc;
  s.term = hello->term;
  // As whom it was just found to be meant: a new life of ours ends the session.
  s.as = hello->receiver.counter != 0 ? hello->receiver : self();
  answer(s, data_kind::welcome, encode_meta(welcome_meta{s.as}));
  return {};
}

std::optional<failure> server_lane::refuse(const hello_meta& hello) {
  auto stranger = [](const std::string& what) {
    return make_failure(errc::wrong_peer, "hello: " + what);
  };
  if (hello.version != data_protocol_version)
    return stranger("data protocol " + std::to_string(hello.version) + ", this server uses "
                    + std::to_string(data_protocol_version));
  if (hello.task.job > job_kind::evaluator)
    return stranger(to_string(hello.task));
  if (hello.cluster != options_.cluster)
    return stranger("cluster '" + hello.cluster + "', expected '" + options_.cluster + "'");
  if (!same_code(hello.token, hello_code(hello, options_.token)))
    return stranger((hello.token.empty()      ? "the token is missing: "
                     : options_.token.empty() ? "unexpected token, this server has none: "
                                              : "wrong token: ")
                    + std::string{token_advice});
  if (hello.receiver.counter != 0) {
    std::lock_guard lock{orders_mutex_};
    if (self_.counter == 0)
      return make_failure(errc::try_again, "hello: this server has not joined yet");
    if (hello.receiver != self_)
      return make_failure(errc::unavailable, "hello: expected incarnation "
                                               + std::to_string(hello.receiver.counter)
                                               + ", this is " + std::to_string(self_.counter));
  }
  if (options_.store && hello.term < options_.store->term())
    return make_failure(errc::superseded, "hello: term " + std::to_string(value_of(hello.term))
                                            + ", this server follows term "
                                            + std::to_string(value_of(options_.store->term())));
  return refuse_fenced(hello);
}

std::optional<failure> server_lane::refuse_fenced(const hello_meta& hello) {
  if (options_.store)
    if (auto ok = options_.store->admit(hello.task, hello.inc); !ok)
      return std::move(ok.error());
  std::lock_guard lock{orders_mutex_};
  auto at = fences_.find(hello.task);
  if (at == fences_.end() || hello.inc.counter > at->second || planted(planted_bug::missing_fence))
    return std::nullopt;
  return make_failure(errc::fenced, to_string(hello.task) + " incarnation "
                                      + std::to_string(hello.inc.counter) + " is fenced");
}

} // namespace troupe
