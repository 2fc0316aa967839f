// Frames of a channel: reading, what is told of broken ones, answering. What each question asks for
// is in server_session_parameters.cpp and server_session_blobs.cpp, where bulk goes in
// server_session_staging.cpp.
#include <troupe/actors/server/detail/server_session.hpp>

#include <new>
#include <utility>

#include <troupe/core/planted.hpp>

namespace troupe {

namespace {

// Frames of one channel before the others get their turn.
constexpr int server_frames_per_turn = 16;
// How often a channel is tried whose peer does not take its answers: it can't be watched for that
// alone.
constexpr auto paused_retry = std::chrono::milliseconds{1};
constexpr auto ending_max = std::chrono::seconds{1};

} // namespace

server_session::server_session(std::unique_ptr<channel> wire, const context& shared)
  : env_{shared.env},
    options_{shared.options},
    admission_{shared.admission},
    pool_{shared.pool},
    wire_{std::move(wire)},
    in_{data_limits(options_.frame_bytes_max)},
    out_{data_limits(options_.frame_bytes_max), wire_->can_damage()},
    until_{after(env_.clock.now(), options_.hello_max)} {}

bool server_session::serve(time_point now) {
  bool more = false;
  try {
    more = serve_frames();
  } catch (const std::bad_alloc&) { // between two calls: nobody could be told which one failed
    mark(env_, "server.out_of_memory");
    ended = true;
  }
  ended = ended || now >= until_;
  return more;
}

bool server_session::serve_frames() {
  flush();
  int frames = 0;
  while (!ending_ && !ended && frames < server_frames_per_turn
         && out_.queued_bytes() <= options_.queued_bytes_max) {
    auto event = in_.pump(*wire_);
    if (!event)
      return on_broken(event.error());
    if (*event == frame_event::idle) {
      flush();
      ended = ended || deaf_;
      return false;
    }
    auto ok = take(*event);
    if (!ok)
      finish_refused(std::move(ok.error()));
    frames += *event == frame_event::complete ? 1 : 0;
  }
  flush();
  // The reader may hold frames that came with the last ones and that no poller sees.
  return !ending_ && !ended && out_.queued_bytes() <= options_.queued_bytes_max;
}

void server_session::flush() {
  if (deaf_)
    return;
  if (auto sent = out_.pump(*wire_); !sent) {
    deaf_ = true;
    out_.clear();
  }
  if (ending_ && (deaf_ || out_.empty()))
    ended = true;
}

/// Nothing more comes.
bool server_session::on_broken(const failure& why) {
  if (receiving_push_ && why.code == errc::connection_lost) {
    mark(env_, "server.push_cut_short");
    if (planted(planted_bug::half_a_push) && options_.store)
      for (const auto& piece : pieces_)
        (void)options_.store->mutate(piece, from_);
  }
  if (why.code != errc::connection_lost && options_.store)
    options_.store->note_refused();
  trace(env_, "server.channel_ended", {{"peer", wire_->peer()}, {"why", why.text}});
  ended = true;
  return false;
}

result<void> server_session::take(frame_event event) {
  try {
    return event == frame_event::need_bulk ? place_bulk() : handle();
  } catch (const std::bad_alloc&) {
    mark(env_, "server.out_of_memory");
    pieces_.clear();
    tensors_.clear();
    blob_ = {};
    if (event == frame_event::complete)
      answer_no_memory();
    else {
      no_memory_ = placed_ = true;
      in_.discard();
    }
    return {};
  }
}

channel_wait server_session::wait() const {
  // To watch it would wake for the questions that we don't read now.
  if (out_.queued_bytes() > options_.queued_bytes_max)
    return {.watched = false, .until = std::min(until_, after(env_.clock.now(), paused_retry))};
  return {.send = !out_.empty(), .until = until_};
}

void server_session::check_again() {
  if (!welcomed_ || ending_)
    return;
  if (as_ != admission_.self())
    return finish_refused(make_failure(errc::unavailable, "the server has a new incarnation"));
  if (auto why = admission_.refuse_fenced(from_.task, from_.inc)) {
    mark(env_, "server.fenced_refused");
    finish_refused(std::move(*why));
  }
}

// -- frames
// -------------------------------------------------------------------------------------------------------------

result<void> server_session::handle() {
  auto kind = static_cast<data_kind>(in_.header().kind);
  if (welcomed_ == (kind == data_kind::hello))
    return make_failure(errc::bad_frame,
                        "a frame of kind " + std::to_string(in_.header().kind)
                          + (welcomed_ ? " after the hello" : " before the hello"));
  if (welcomed_ && options_.store && term_ < options_.store->term())
    return make_failure(errc::superseded, "a channel of term " + std::to_string(value_of(term_))
                                            + ", this server follows term "
                                            + std::to_string(value_of(options_.store->term())));
  if (!placed_)
    if (auto ok = place_bulk(); !ok)
      return ok;
  placed_ = false;
  receiving_push_ = false;
  if (std::exchange(no_memory_, false)) {
    answer_no_memory();
    return {};
  }
  return answer_question(kind);
}

result<void> server_session::answer_question(data_kind kind) {
  switch (kind) {
    case data_kind::hello: return on_hello();
    case data_kind::read: return on_read();
    case data_kind::gather: return on_gather();
    case data_kind::mutate: return on_mutate();
    case data_kind::put_blob: return on_put_blob();
    case data_kind::get_blob: return on_get_blob();
    case data_kind::drop_blob: return on_drop_blob();
    case data_kind::read_snapshot: return on_read_snapshot();
    case data_kind::restore: return on_restore();
    case data_kind::stats: return on_stats();
    default:
      return make_failure(errc::bad_frame, "a frame of kind " + std::to_string(in_.header().kind)
                                             + ", which only servers may send");
  }
}

result<void> server_session::on_hello() {
  auto hello = decode_meta<hello_meta>(in_.meta(), "hello");
  if (!hello)
    return hello.error();
  if (auto why = admission_.refuse(*hello)) {
    if (why->code == errc::fenced)
      mark(env_, "server.fenced_refused");
    return std::move(*why);
  }
  welcomed_ = true;
  until_ = never;
  from_.task = hello->task;
  from_.inc = hello->inc;
  term_ = hello->term;
  // As whom it was just found to be meant: a new incarnation of ours ends the session.
  as_ = hello->receiver.counter != 0 ? hello->receiver : admission_.self();
  answer(data_kind::welcome, encode_meta(welcome_meta{as_}));
  return {};
}

// -- answers
// ------------------------------------------------------------------------------------------------------------

void server_session::answer(data_kind kind, std::string meta, std::vector<bulk_part> bulk) {
  if (deaf_)
    return;
  outgoing_frame frame;
  frame.kind = static_cast<std::uint8_t>(kind);
  frame.request = in_.header().request;
  frame.meta = std::move(meta);
  frame.bulk = std::move(bulk);
  if (auto ok = out_.push(std::move(frame)); !ok) {
    trace(env_, "server.answer_dropped", {{"peer", wire_->peer()}, {"why", ok.error().text}});
    end_within({}); // the peer must not wait for ever
  }
}

void server_session::answer_done(result<void> how) {
  outcome_meta meta;
  if (!how)
    meta.why = std::move(how.error());
  answer(data_kind::done, encode_meta(std::move(meta)));
}

void server_session::answer_blocks(data_kind kind, blocks_meta meta, std::vector<bulk_part> bulk) {
  std::uint64_t bytes = 0;
  for (const auto& part : bulk)
    bytes += part.bytes.size();
  if (meta.why.code == errc::none && bytes > options_.frame_bytes_max)
    meta.why = make_failure(errc::too_large,
                            "an answer of " + std::to_string(bytes) + " bytes, at most "
                              + std::to_string(options_.frame_bytes_max) + " fit in a frame");
  if (meta.why.code != errc::none) {
    meta.blocks.clear();
    bulk.clear();
  }
  answer(kind, encode_meta(std::move(meta)), std::move(bulk));
}

/// The call of the frame that is complete fails.
void server_session::answer_no_memory() {
  const auto& header = in_.header();
  outcome_meta end{make_failure(
    errc::out_of_memory, std::string{options_.store ? "this server" : "the coordinator"}
                           + " is out of memory for a call of kind " + std::to_string(header.kind)
                           + " with " + std::to_string(header.bulk_bytes) + " bytes")};
  switch (static_cast<data_kind>(header.kind)) {
    case data_kind::read:
      return answer(data_kind::read_reply, encode_meta(blocks_meta{std::move(end.why), {}}));
    case data_kind::gather:
      return answer(data_kind::gather_reply, encode_meta(blocks_meta{std::move(end.why), {}}));
    case data_kind::mutate: {
      ack_meta all;
      if (auto meta = decode_meta<mutate_meta>(in_.meta(), "mutate"))
        all.answers.resize(meta->pieces.size(), piece_answer{0, 0, end.why});
      return answer(data_kind::mutate_ack, encode_meta(std::move(all)));
    }
    case data_kind::read_snapshot: {
      snapshot_meta piece;
      piece.why = std::move(end.why);
      return answer(data_kind::snapshot_reply, encode_meta(std::move(piece)));
    }
    case data_kind::get_blob: return answer(data_kind::blob_reply, encode_meta(std::move(end)));
    case data_kind::put_blob:
    case data_kind::drop_blob:
    case data_kind::restore: return answer(data_kind::done, encode_meta(std::move(end)));
    default: ended = true;
  }
}

void server_session::finish_refused(failure why) {
  trace(env_, "server.channel_refused", {{"peer", wire_->peer()}, {"why", why.text}});
  if (options_.store)
    options_.store->note_refused();
  end_within(ending_max);
  answer(data_kind::refused, encode_meta(outcome_meta{std::move(why)}));
}

/// What is queued may still go out.
void server_session::end_within(duration patience) {
  ending_ = true;
  until_ = after(env_.clock.now(), patience);
}

} // namespace troupe
