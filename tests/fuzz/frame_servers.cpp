// Whole channels between workers and parameter servers: what a server makes of any questions, and a
// client of any answers.
#include <troupe/actors/data_plane/remote_server_link.hpp>
#include <troupe/actors/data_plane/server_rpc.hpp>
#include <troupe/actors/server/server_event_loop.hpp>
#include <troupe/core/production_ports.hpp>
#include <troupe/transport/detail/frame_wire.hpp>

#include "frame_decoders.hpp"

namespace fuzz {

namespace {

using namespace troupe;
using transport_test::scripted_channel;

/// Where the first `frames` frames of a stream end, as far as their lengths lead.
std::size_t end_of_frames(std::string_view stream, std::size_t frames) {
  std::size_t at = 0;
  for (; frames > 0 && stream.size() - at >= frame_header_bytes; --frames) {
    const auto* header = reinterpret_cast<const std::byte*>(stream.data()) + at;
    const std::uint64_t meta = troupe::detail::get<std::uint32_t>(header + 40);
    const auto bulk = troupe::detail::get<std::uint64_t>(header + 16);
    const std::uint64_t left = stream.size() - at - frame_header_bytes;
    if (meta > left || bulk > left - meta)
      return stream.size();
    at += frame_header_bytes + meta + bulk;
  }
  return frames > 0 ? stream.size() : at;
}

std::size_t count_frames(std::string_view stream) {
  std::size_t out = 0;
  while (!stream.empty()) {
    stream.remove_prefix(end_of_frames(stream, 1));
    ++out;
  }
  return out;
}

/// A channel that outlives its use, so that what was sent can be looked at. One that was dialled
/// answers each question with one frame, and with nothing before it was asked.
class borrowed_channel final : public channel {
public:
  borrowed_channel(scripted_channel& of, bool dialled) : of_{of}, dialled_{dialled} {}
  result<std::size_t> try_send(std::span<const const_bytes> parts) override {
    return of_.try_send(parts);
  }
  result<std::size_t> try_receive(std::span<const mutable_bytes> parts) override {
    if (!dialled_)
      return of_.try_receive(parts);
    const auto end = end_of_frames(of_.incoming, count_frames(of_.outgoing));
    if (of_.read_at >= end && end < of_.incoming.size())
      return std::size_t{0};
    const auto n = std::min(of_.chunk(), end - of_.read_at);
    auto cuts = std::exchange(of_.chunk, [n] { return n; });
    auto got = of_.try_receive(parts);
    of_.chunk = std::move(cuts);
    return got;
  }
  void close() override {}
  std::string peer() const override { return of_.peer(); }

private:
  scripted_channel& of_;
  bool dialled_;
};

/// One channel, dialled or accepted once. Who waits has nothing to wait for.
class one_channel final : public data_transport {
public:
  explicit one_channel(
    scripted_channel& wire, std::function<void()> on_wait = [] {})
    : wire_{wire}, on_wait_{std::move(on_wait)} {}

  result<std::unique_ptr<channel_listener>> listen(const std::string&) override {
    return std::unique_ptr<channel_listener>{std::make_unique<listener>(*this)};
  }
  result<std::unique_ptr<channel>> connect(const std::string&, time_point) override {
    return std::unique_ptr<channel>{std::make_unique<borrowed_channel>(wire_, true)};
  }
  std::unique_ptr<channel_poller> make_poller() override { return std::make_unique<poller>(*this); }

private:
  struct listener final : channel_listener {
    explicit listener(one_channel& of) : of_{of} {}
    std::unique_ptr<channel> try_accept() override {
      if (std::exchange(of_.accepted_, true))
        return nullptr;
      return std::make_unique<borrowed_channel>(of_.wire_, false);
    }
    std::string address() const override { return "fuzz:1"; }
    one_channel& of_;
  };
  struct poller final : channel_poller {
    explicit poller(one_channel& of) : of_{of} {}
    void watch(channel&, bool) override {}
    void watch(channel_listener&) override {}
    void forget(channel&) override {}
    void forget(channel_listener&) override {}
    bool wait(time_point) override {
      of_.on_wait_();
      return false;
    }
    void wake() override {}
    one_channel& of_;
  };

  scripted_channel& wire_;
  std::function<void()> on_wait_;
  bool accepted_ = false;
};

environment environment_over(data_transport& transport) {
  static const auto ports = make_production_ports();
  return {ports->clock(),   ports->random(), ports->storage(),
          ports->threads(), ports->waits(),  transport};
}

variable_spec spec_of(std::uint32_t id, shape_t shape, dtype type, optimizer_kind optimizer) {
  variable_spec out;
  out.id = variable_id{id};
  out.name = "v" + std::to_string(id);
  out.type = type;
  out.shape = std::move(shape);
  out.shards = {{0, out.rows(), 0}};
  out.optimizer.kind = optimizer;
  return out;
}

/// A server with a matrix, a vector of integers and a snapshot, as it is before the input.
server_event_loop_options served() {
  auto store = std::make_shared<shard_store>();
  for (const auto& spec : {spec_of(1, {4, 3}, dtype::f32, optimizer_kind::adam),
                           spec_of(2, {5}, dtype::i64, optimizer_kind::none)})
    store->create(spec, shard_index{0}).value_or_throw();
  store->take_snapshot(snapshot_id{1}).value_or_throw();
  server_event_loop_options out;
  out.store = store;
  out.blobs = std::make_shared<blob_table>(std::uint64_t{1} << 16);
  out.frame_bytes_max = std::uint64_t{1} << 20;
  return out;
}

/// What the server says to `wire.incoming`. The peer closes once there is nothing more to do.
void serve(scripted_channel& wire) {
  server_event_loop* running = nullptr;
  one_channel transport{wire, [&] {
                          if (std::exchange(wire.ends, true))
                            running->stop();
                        }};
  server_event_loop loop{environment_over(transport), served()};
  running = &loop;
  require(loop.open().operator bool(), "a thread listens");
  loop.run();
}

/// Whether a server's answers hold, each of its own kind; refusals are counted.
std::size_t check_answers(const std::string& stream, std::size_t& refused) {
  scripted_channel from;
  from.incoming = stream;
  transport_test::collector in{data_limits(std::uint64_t{1} << 30)};
  require(in.pump(from).operator bool(), "a server writes frames that hold");
  for (const auto& frame : in.frames) {
    const auto holds = [&](auto meta) {
      require(meta.operator bool(), "a server writes metas that hold");
    };
    switch (static_cast<data_kind>(frame.header.kind)) {
      case data_kind::welcome: holds(decode_meta<welcome_meta>(frame.meta, "welcome")); break;
      case data_kind::refused:
        ++refused;
        holds(decode_meta<outcome_meta>(frame.meta, "refused"));
        break;
      case data_kind::read_reply:
      case data_kind::gather_reply: holds(decode_meta<blocks_meta>(frame.meta, "blocks")); break;
      case data_kind::mutate_ack: holds(decode_meta<ack_meta>(frame.meta, "ack")); break;
      case data_kind::blob_reply:
      case data_kind::done: holds(decode_meta<outcome_meta>(frame.meta, "outcome")); break;
      case data_kind::snapshot_reply: holds(decode_meta<snapshot_meta>(frame.meta, "cut")); break;
      case data_kind::stats_reply: holds(decode_meta<store_stats>(frame.meta, "stats")); break;
      default: throw broken{"a server writes a kind that only clients write"};
    }
  }
  return in.frames.size();
}

/// A seed for the pieces, then the questions, repaired.
bool decode_questions(std::string_view input) {
  pieces in{input};
  scripted_channel wire;
  wire.chunk = cuts_of(in.byte());
  wire.incoming = repaired(std::string{in.rest()});
  serve(wire);
  std::size_t refused = 0;
  const auto answers = check_answers(wire.outgoing, refused);
  return answers > 0 && refused == 0 && wire.read_at == wire.incoming.size();
}

// --- a client

/// Asks for everything a worker or a snapshot reader asks; `worker` chooses which. Whether all was
/// answered.
bool ask(scripted_channel& wire, bool worker) {
  one_channel transport{wire};
  const auto env = environment_over(transport);
  const data_peer peer{.address = "fuzz:1", .frame_bytes_max = std::uint64_t{1} << 20};
  if (!worker) {
    auto caller = server_rpc::connect(env, peer, env.clock.now(), duration{0});
    if (!caller)
      return false;
    const blob_key key{.closure = {term_no{}, 1}, .role = blob_role::result};
    const auto zeros = tensor::zeros(dtype::f32, {4, 3});
    const std::array slots{zeros, zeros};
    bool all = (*caller)->put_blob(key, "blob").operator bool();
    auto blob = (*caller)->get_blob(key);
    all = (*caller)->drop_blob(key) && all && blob;
    auto cut = (*caller)->read_snapshot(snapshot_id{1}, variable_id{1}, shard_index{}, 0);
    auto restored = (*caller)->restore(variable_id{1}, shard_index{}, zeros, slots, 3);
    auto stats = (*caller)->stats();
    return all && cut && restored && stats;
  }
  row_block rows;
  row_block numbers;
  auto link = remote_server_link::connect(env, peer, env.clock.now());
  if (!link)
    return false;
  rows.values = tensor::zeros(dtype::f32, {4, 3});
  numbers.values = tensor::zeros(dtype::i64, {5});
  const std::array reads{read_part{{variable_id{1}, shard_index{}}, &rows},
                         read_part{{variable_id{2}, shard_index{}}, &numbers}};
  std::array gathers{gather_part{{variable_id{1}, shard_index{}},
                                 tensor::vector<std::int64_t>({3, 0}),
                                 tensor::zeros(dtype::f32, {2, 3})}};
  mutation_piece push;
  push.variable = variable_id{1};
  push.key = {{term_no{}, 1}, op_no{}};
  push.values = tensor::zeros(dtype::f32, {4, 3});
  const bool begun = (*link)->start_reads(reads) && (*link)->start_gathers(gathers)
                     && (*link)->start_mutations({&push, 1}, {});
  for (int i = 0; begun && i < 64 && ((*link)->reads_pending() || (*link)->pushes_pending()); ++i)
    if (!(*link)->pump())
      return false;
  return begun && !(*link)->reads_pending() && !(*link)->pushes_pending()
         && (*link)->take_read_failure().code == errc::none
         && (*link)->take_push_failure().code == errc::none;
}

/// Who asks (bit 0: a worker) and whether the channel ends then (bit 1), a seed for the pieces;
/// then the answers, repaired.
bool decode_answers(std::string_view input) {
  pieces in{input};
  const auto choices = in.byte();
  const bool worker = (choices & 1) != 0;
  scripted_channel wire;
  wire.chunk = cuts_of(in.byte());
  wire.incoming = repaired(std::string{in.rest()});
  wire.ends = (choices & 2) != 0;
  return ask(wire, worker);
}

// --- seeds

/// Questions of a client, and a server's answers to them: each in turn hears the other.
struct conversation {
  std::string questions{};
  std::string answers{};
};

conversation talk(bool worker) {
  conversation out;
  for (int i = 0; i < 32; ++i) {
    scripted_channel client;
    client.incoming = out.answers;
    const bool all = ask(client, worker);
    out.questions = client.outgoing;
    if (all)
      return out;
    scripted_channel server;
    server.incoming = out.questions;
    serve(server);
    out.answers = server.outgoing;
  }
  throw broken{"a client and a server don't understand each other"};
}

std::vector<std::string> question_seeds() {
  return {std::string{'\0'} + talk(false).questions, std::string{'\5'} + talk(true).questions};
}

std::vector<std::string> answer_seeds() {
  return {std::string("\0\0", 2) + talk(false).answers,
          std::string("\1\5", 2) + talk(true).answers};
}

} // namespace

void add_servers(std::vector<decoder>& to) {
  to.push_back({"questions", decode_questions, question_seeds});
  to.push_back({"answers", decode_answers, answer_seeds});
}

} // namespace fuzz
