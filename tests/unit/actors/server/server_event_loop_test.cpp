// Goal: over a wire that chops, stalls and breaks, a step reads and changes what it would in one
// process, once.
#include <doctest/doctest.h>

#include "served_fixture.hpp"

using namespace parameter_test;

namespace {

using std::chrono::seconds;

// Sends a frame as it is and returns what comes back first.
result<std::pair<data_kind, std::string>> raw_call(world& w, data_session& s, data_kind kind,
                                                   std::string meta, std::string bulk = {}) {
  outgoing_frame frame;
  frame.kind = static_cast<std::uint8_t>(kind);
  frame.request = s.next_request();
  frame.meta = std::move(meta);
  auto kept = std::make_shared<const std::string>(std::move(bulk));
  if (!kept->empty())
    frame.bulk.push_back({std::as_bytes(std::span{*kept}), kept});
  if (auto ok = s.out().push(std::move(frame)); !ok)
    return ok.error();
  auto poller = w.transport->make_poller();
  auto deadline = w.in(seconds{20});
  for (;;) {
    auto sent = s.out().pump(s.wire());
    auto event = s.in().pump(s.wire());
    if (!event)
      return event.error();
    if (*event == frame_event::need_bulk)
      s.in().discard();
    if (*event == frame_event::complete)
      return std::pair{static_cast<data_kind>(s.in().header().kind), s.in().take_meta()};
    if (*event != frame_event::idle)
      continue;
    REQUIRE(w.ports->clock().now() < deadline);
    poller->watch(s.wire(), sent && !*sent);
    poller->wait(deadline);
  }
}

std::string refusal(world& w, data_session& s, data_kind kind, std::string meta,
                    std::string bulk = {}) {
  auto got = raw_call(w, s, kind, std::move(meta), std::move(bulk));
  if (!got)
    return to_string(got.error());
  REQUIRE(got->first == data_kind::refused);
  auto end = decode_meta<outcome_meta>(got->second, "refused").value_or_throw();
  CHECK(end.why.code == errc::bad_frame);
  return end.why.text;
}

} // namespace

TEST_CASE(
  "server_event_loop: over a chopping wire random reads and changes agree with a plain array") {
  for (unsigned seed = 1; seed <= 6; ++seed) {
    served x{2, {.capacity_bytes = 300, .chunk_seed = seed, .chunk_bytes_max = 97}};
    compare_with_array(x, seed, 23, 40);
  }
}

TEST_CASE(
  "server_event_loop: what is read remotely is one tensor whose rows are the blocks, each with its "
  "version") {
  served x{2};
  parameter_client client{x.w.env(), x.vars.catalogue(), x.remote()};
  client.begin(closure(1), attempt_1, worker());
  auto id = x.vars.add(make_variable(1, {5, 2}, 2, 2));
  auto scalar = x.vars.add(make_variable(2, {}, 1, 1));
  std::vector<mutation> ops{
    {id, mutation_kind::assign, tensor::of<float>({5, 2}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}), {}},
    {scalar, mutation_kind::assign_add, tensor::scalar(3.0f), {}}};
  client.mutate(ops).value_or_throw();
  std::vector<variable_id> ids{id, scalar};
  auto got = client.read(ids).value_or_throw();
  REQUIRE(got[0].blocks.size() == 2);
  CHECK(got[0].blocks[0].values.bytes().data() + 3 * 8 == got[0].blocks[1].values.bytes().data());
  CHECK(got[0].blocks[1].version == 1);
  CHECK(got[0].to_tensor() == ops[0].values);
  CHECK(got[1].to_tensor() == tensor::scalar(3.0f));
  client.finish(x.w.in(seconds{20})).value_or_throw();
  CHECK(x.w.tracer.marks("client.pushed_k_of_n") == 2);
}

TEST_CASE(
  "INV-S2 a push over a wire that breaks after n bytes, for every n, is whole or nothing, and once "
  "in the end") {
  std::map<bool, int> applied_without_ack;
  int acknowledged = 0;
  int cut_short = 0;
  for (std::uint64_t n = 1; acknowledged < 3; ++n) {
    REQUIRE(n < 5000);
    served x{1, {.cut_after_bytes = n}};
    auto id = x.vars.add(make_variable(1, {4}, 2, 1, dtype::i64));
    std::vector<mutation> ops{
      {id, mutation_kind::assign_add, tensor::vector<std::int64_t>({1, 2, 3, 4}), {}}};
    bool acked = false;
    std::uint64_t dialled = 0;
    {
      parameter_client client{x.w.env(), x.vars.catalogue(),
                              [&, dial = x.remote()](std::uint32_t to) {
                                ++dialled;
                                return dial(to);
                              }};
      client.begin(closure(7), attempt_1, worker());
      acked = client.mutate(ops) && client.finish(x.w.in(seconds{20}));
    }
    auto& server = *x.loops[0];
    auto all_seen = [&] { // also of a channel that it had not accepted when the client went
      return x.w.tracer.events("server.channel_accepted") == dialled
             && server->channel_count() == 0;
    };
    for (auto until = x.w.in(seconds{20}); !all_seen() && x.w.env().clock.now() < until;)
      x.w.env().threads.yield();
    CHECK(all_seen()); // the server has read all that came, and seen the end
    x.loops.clear();
    auto a = x.vars.stores[0]->find(id, shard_index{0})->state();
    auto b = x.vars.stores[0]->find(id, shard_index{1})->state();
    CHECK(a.version == b.version); // both pieces were in one frame
    CHECK(a.values
          == (a.version == 1 ? tensor::vector<std::int64_t>({1, 2})
                             : tensor::vector<std::int64_t>({0, 0})));
    CHECK(b.values
          == (b.version == 1 ? tensor::vector<std::int64_t>({3, 4})
                             : tensor::vector<std::int64_t>({0, 0})));
    if (acked)
      CHECK(a.version == 1);
    acknowledged += acked ? 1 : 0;
    if (!acked)
      ++applied_without_ack[a.version == 1];
    cut_short += static_cast<int>(x.w.tracer.marks("server.push_cut_short"));

    // The closure runs again, as attempt 2, over a sound way.
    parameter_client again{x.w.env(), x.vars.catalogue(), x.vars.local()};
    again.begin(closure(7), static_cast<attempt_no>(2), worker(1));
    again.mutate(ops).value_or_throw();
    again.finish(x.w.in(seconds{20})).value_or_throw();
    std::vector<variable_id> ids{id};
    CHECK(again.read(ids).value_or_throw()[0].to_tensor() == ops[0].values);
    CHECK(x.w.tracer.marks("server.duplicate_dropped") == (a.version == 1 ? 2u : 0u));
  }
  CHECK(applied_without_ack[true] > 10);  // cut in the acknowledgement
  CHECK(applied_without_ack[false] > 10); // cut in the push
  CHECK(cut_short > 0); // how often the server had begun to read it is a matter of scheduling
}

TEST_CASE("server_event_loop: a hello that does not fit is refused with its reason") {
  server_event_loop_options like;
  like.token = "secret";
  served x{1, {}, like};
  auto dial = [&](const std::function<void(data_peer&)>& change) {
    auto peer = x.peer(0);
    peer.token = "secret";
    change(peer);
    auto got = data_session::open(x.w.env(), peer, x.w.in(seconds{20}));
    return got ? failure{} : got.error();
  };
  CHECK(dial([](data_peer&) {}).code == errc::none);
  auto other = dial([](data_peer& p) { p.cluster = "prod"; });
  CHECK(other.code == errc::wrong_peer);
  CHECK(other.text.find("'prod'") != std::string::npos);
  CHECK(other.text.find("'test'") != std::string::npos);
  CHECK(dial([](data_peer& p) { p.token = "guess"; }).code == errc::wrong_peer);
  CHECK(dial([](data_peer& p) { p.receiver = {3, 4}; }).code == errc::try_again);
  (*x.loops[0])->set_incarnation({3, 4});
  CHECK(dial([](data_peer& p) { p.receiver = {3, 4}; }).code == errc::none);
  CHECK(dial([](data_peer& p) { p.receiver = {2, 9}; }).code == errc::unavailable);
  x.vars.stores[0]->grant_term(static_cast<term_no>(5), 1).value_or_throw();
  auto old = dial([](data_peer&) {});
  CHECK(old.code == errc::superseded);
  CHECK(old.text.find("term 5") != std::string::npos);
  auto at_5 = [](data_peer& p) { p.term = static_cast<term_no>(5); };
  CHECK(dial(at_5).code == errc::none);
  x.vars.stores[0]->fence({job_kind::worker, 0}, 1);
  CHECK(dial(at_5).code == errc::fenced);
}

TEST_CASE("server_event_loop: a fence ends the sender's channel, the next incarnation is welcome") {
  served x{1};
  auto id = x.vars.add(make_variable(1, {2}, 1, 1));
  std::vector<mutation> ops{{id, mutation_kind::assign_add, tensor::vector<float>({1, 1}), {}}};
  parameter_client client{x.w.env(), x.vars.catalogue(), x.remote()};
  client.begin(closure(1), attempt_1, worker());
  client.mutate(ops).value_or_throw();
  client.finish(x.w.in(seconds{20})).value_or_throw();
  x.vars.stores[0]->fence({job_kind::worker, 0}, 1);
  (*x.loops[0])->fence({job_kind::worker, 0}, 1);
  client.begin(closure(2), attempt_1, worker());
  auto done = client.mutate(ops);
  if (done)
    done = client.finish(x.w.in(seconds{20}));
  REQUIRE(!done);
  CHECK((done.error().code == errc::fenced || done.error().code == errc::unavailable));
  client.begin(closure(2), static_cast<attempt_no>(2), worker());
  std::vector<variable_id> ids{id};
  CHECK(client.read(ids).error().code == errc::fenced);
  CHECK(x.vars.stores[0]->read(id, shard_index{0}).value_or_throw().version == 1);
  CHECK(x.w.tracer.marks("server.fenced_refused") > 0);
  parameter_client next{x.w.env(), x.vars.catalogue(), x.remote(worker(0, 2))};
  next.begin(closure(2), static_cast<attempt_no>(3), worker(0, 2));
  CHECK(next.read(ids).value_or_throw()[0].to_tensor() == tensor::vector<float>({1, 1}));
}

TEST_CASE(
  "server_event_loop: an operation of an older term is refused on a channel that is older than the "
  "new "
  "term") {
  served x{1};
  auto id = x.vars.add(make_variable(1, {2}, 1, 1));
  std::vector<mutation> ops{{id, mutation_kind::assign, tensor::vector<float>({1, 1}), {}}};
  std::vector<variable_id> ids{id};
  parameter_client client{x.w.env(), x.vars.catalogue(), x.remote()};
  client.begin(closure(1), attempt_1, worker());
  client.read(ids).value_or_throw();
  x.vars.stores[0]->grant_term(static_cast<term_no>(2), 1).value_or_throw();
  auto done = client.mutate(ops);
  if (done)
    done = client.finish(x.w.in(seconds{20}));
  REQUIRE(!done);
  CHECK(done.error().code == errc::superseded);
  CHECK(x.vars.stores[0]->read(id, shard_index{0}).value_or_throw().version == 0);
}

TEST_CASE(
  "server_event_loop: a lost server is unavailable and named; the link is made anew when it is "
  "back") {
  served x{2};
  auto id = x.vars.add(make_variable(1, {4}, 2, 2));
  std::vector<mutation> ops{
    {id, mutation_kind::assign_add, tensor::vector<float>({1, 1, 1, 1}), {}}};
  std::vector<variable_id> ids{id};
  parameter_client client{x.w.env(), x.vars.catalogue(), x.remote()};
  client.begin(closure(1), attempt_1, worker());
  client.read(ids).value_or_throw();
  server_event_loop_options like{
    .address = x.loops[1]->address, .cluster = "test", .store = x.vars.stores[1]};
  auto address = x.loops[1]->address;
  x.loops[1].reset();
  x.loops[1] = std::make_unique<running_server>(
    x.w.env(), server_event_loop_options{.address = "ps9:0", .cluster = "other"});
  auto got = client.read(ids);
  REQUIRE(!got);
  CHECK(got.error().text.find("ps:1") != std::string::npos);
  x.loops[1] = std::make_unique<running_server>(x.w.env(), like);
  CHECK(x.loops[1]->address == address);
  client.begin(closure(1), static_cast<attempt_no>(2), worker());
  client.mutate(ops).value_or_throw();
  client.finish(x.w.in(seconds{20})).value_or_throw();
  CHECK(client.read(ids).value_or_throw()[0].to_tensor() == tensor::vector<float>({1, 1, 1, 1}));
}

TEST_CASE(
  "server_event_loop: refusals of single questions name the matter and leave the channel as it "
  "is") {
  served x{1};
  auto id = x.vars.add(make_variable(1, {2}, 1, 1));
  auto ghost = make_variable(9, {2}, 1, 1);
  x.vars.specs[ghost.id] = std::make_shared<const variable_spec>(ghost);
  parameter_client client{x.w.env(), x.vars.catalogue(), x.remote()};
  client.begin(closure(1), attempt_1, worker());
  std::vector<variable_id> unknown{ghost.id};
  CHECK(client.read(unknown).error().code == errc::unknown_variable);
  CHECK(client.gather(ghost.id, ids_of({0})).error().code == errc::unknown_variable);
  std::vector<mutation> bad{{ghost.id, mutation_kind::assign, tensor::vector<float>({1, 1}), {}}};
  auto done = client.mutate(bad);
  auto end = client.finish(x.w.in(seconds{20}));
  REQUIRE(!end);
  CHECK(end.error().code == errc::unknown_variable);
  std::vector<variable_id> ids{id};
  client.begin(closure(2), attempt_1, worker());
  CHECK(client.read(ids).value_or_throw()[0].to_tensor() == tensor::vector<float>({0, 0}));
  CHECK(client.finish(x.w.in(seconds{20})));
  CHECK((*x.loops[0])->channel_count() == 1);
}

TEST_CASE(
  "server_event_loop: bad kinds, counts, offsets and sizes end the channel and change nothing") {
  served x{1};
  auto id = x.vars.add(make_variable(1, {2}, 1, 1));
  auto open = [&] {
    return data_session::open(x.w.env(), x.peer(0), x.w.in(seconds{20})).value_or_throw();
  };
  auto try_one = [&](data_kind kind, std::string meta, std::string bulk = {}) {
    auto s = open();
    return refusal(x.w, *s, kind, std::move(meta), std::move(bulk));
  };
  auto push = [&](std::uint8_t kind, std::int64_t rows, std::string bulk) {
    piece_meta p;
    p.to = {id, shard_index{0}};
    p.kind = static_cast<mutation_kind>(kind);
    p.flags = piece_meta::has_values;
    p.shape = {rows};
    return try_one(data_kind::mutate, encode_meta(mutate_meta{{p}}), std::move(bulk));
  };
  CHECK(push(200, 2, "12345678").find("kind 200") != std::string::npos);
  CHECK(push(1, 3, "12345678").find("8 bytes") != std::string::npos);
  CHECK(push(1, 1, "12345678").find("4 bytes of bulk too many") != std::string::npos);
  CHECK(try_one(data_kind::mutate, std::string(8, '\x7f')).find("mutate") != std::string::npos);
  CHECK(try_one(data_kind::read, "\x01").find("read") != std::string::npos);
  CHECK(try_one(data_kind::read, encode_meta(read_meta{}), "x").find("kind 4")
        != std::string::npos);
  auto gather = encode_meta(gather_meta{{{{id, shard_index{0}}, std::uint64_t{1} << 61}}});
  CHECK(try_one(data_kind::gather, gather, "12345678").find("gather") != std::string::npos);
  auto restore = restore_meta{{id, shard_index{0}}, 0, dtype::f32, {2}, 3000000000u};
  CHECK(try_one(data_kind::restore, encode_meta(restore), "12345678").find("slots")
        != std::string::npos);
  restore.slots = 1;
  CHECK(try_one(data_kind::restore, encode_meta(restore), "12345678").find("16")
        != std::string::npos);
  CHECK(try_one(data_kind::hello, encode_meta(hello_meta{})).find("after the hello")
        != std::string::npos);
  CHECK(try_one(data_kind::mutate_ack, encode_meta(ack_meta{})).find("only servers")
        != std::string::npos);
  auto state = x.vars.stores[0]->find(id, shard_index{0})->state();
  CHECK(state.version == 0);
  CHECK(state.values == tensor::zeros(dtype::f32, {2}));
}

TEST_CASE("server_event_loop: a frame over the limit is refused before it is staged") {
  server_event_loop_options like;
  like.frame_bytes_max = 1024;
  served x{1, {}, like};
  auto id = x.vars.add(make_variable(1, {1024}, 1, 1));
  parameter_client client{x.w.env(), x.vars.catalogue(), x.remote()};
  client.begin(closure(1), attempt_1, worker());
  std::vector<mutation> ops{{id, mutation_kind::assign, tensor::zeros(dtype::f32, {1024}), {}}};
  auto done = client.mutate(ops);
  if (done)
    done = client.finish(x.w.in(seconds{20}));
  CHECK(!done);
  CHECK(x.vars.stores[0]->read(id, shard_index{0}).value_or_throw().version == 0);
  client.begin(closure(2), attempt_1, worker());
  std::vector<variable_id> ids{id};
  CHECK(client.read(ids).error().code == errc::too_large);
}

TEST_CASE(
  "server_event_loop: a peer that takes no answers is not read any more, and gets them all in the "
  "end") {
  server_event_loop_options like;
  like.queued_bytes_max = 64 * 1024;
  served x{1, {.capacity_bytes = 32 * 1024}, like};
  auto id = x.vars.add(make_variable(1, {4096}, 1, 1)); // 16 KiB
  auto s = data_session::open(x.w.env(), x.peer(0), x.w.in(seconds{20})).value_or_throw();
  constexpr int questions = 100;
  for (int i = 0; i < questions; ++i) {
    outgoing_frame frame;
    frame.kind = static_cast<std::uint8_t>(data_kind::read);
    frame.request = s->next_request();
    frame.meta = encode_meta(read_meta{{{id, shard_index{0}}}});
    s->out().push(std::move(frame)).value_or_throw();
  }
  CHECK(s->out().pump(s->wire()).value_or_throw());
  auto other = x.caller();
  std::uint64_t reads = 0;
  for (int i = 0; i < 200; ++i) // each is served after a turn of the greedy one
    reads = other->stats().value_or_throw().reads;
  CHECK(reads >= 2);
  CHECK(reads <= (64 + 32) / 16 + 2);
  auto poller = x.w.transport->make_poller();
  int answers = 0;
  tensor memory{dtype::f32, {4096}};
  while (answers < questions) {
    auto event = s->in().pump(s->wire()).value_or_throw();
    if (event == frame_event::need_bulk)
      s->in().provide({memory.mutable_bytes()}).value_or_throw();
    answers += event == frame_event::complete ? 1 : 0;
    if (event == frame_event::idle) {
      poller->watch(s->wire(), false);
      REQUIRE(poller->wait(x.w.in(seconds{20})));
    }
  }
  CHECK(other->stats().value_or_throw().reads == questions);
}

TEST_CASE("server_event_loop: no more channels than allowed; one that ends lets the next one in") {
  server_event_loop_options like;
  like.channels_max = 2;
  served x{1, {}, like};
  auto open = [&](seconds s) { return data_session::open(x.w.env(), x.peer(0), x.w.in(s)); };
  auto a = open(seconds{20}).value_or_throw();
  auto b = open(seconds{20}).value_or_throw();
  auto late = data_session::open(x.w.env(), x.peer(0), x.w.in(seconds{0}));
  CHECK(!late);
  a.reset();
  CHECK(open(seconds{20}));
}

TEST_CASE("server_event_loop: blobs are kept by key, bounded, and gone when dropped") {
  server_event_loop_options like;
  like.blobs = std::make_shared<blob_table>(1000);
  served x{1, {.chunk_seed = 5, .chunk_bytes_max = 50}, like};
  auto caller = x.caller();
  blob_key key{closure(4), attempt_1, blob_role::result};
  std::string bytes(900, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<char>(i * 7);
  caller->put_blob(key, bytes).value_or_throw();
  CHECK(caller->get_blob(key).value_or_throw() == bytes);
  auto other = key;
  other.role = blob_role::argument;
  CHECK(caller->get_blob(other).error().code == errc::not_found);
  CHECK(caller->put_blob(other, bytes).error().code == errc::too_large);
  caller->drop_blob(key).value_or_throw();
  CHECK(caller->get_blob(key).error().code == errc::not_found);
  caller->put_blob(other, "").value_or_throw();
  CHECK(caller->get_blob(other).value_or_throw().empty());
  served none{1};
  CHECK(none.caller()->get_blob(key).error().code == errc::wrong_state);
}

TEST_CASE("server_event_loop: a snapshot is read part by part and restored into another server") {
  served x{2, {.chunk_seed = 9, .chunk_bytes_max = 31}};
  auto spec = make_variable(1, {6, 2}, 1, 1);
  spec.optimizer.kind = optimizer_kind::adam;
  auto id = x.vars.add(spec);
  x.vars.stores[1]->create(spec, shard_index{0}).value_or_throw();
  parameter_client client{x.w.env(), x.vars.catalogue(), x.remote()};
  client.begin(closure(1), attempt_1, worker());
  tensor g{dtype::f32, {6, 2}};
  for (auto& v : g.mutable_as<float>())
    v = 0.5f;
  std::vector<mutation> ops{{id, mutation_kind::apply, g, {}}};
  client.mutate(ops).value_or_throw();
  client.finish(x.w.in(seconds{20})).value_or_throw();
  auto snapshot = static_cast<snapshot_id>(3);
  x.vars.stores[0]->take_snapshot(snapshot).value_or_throw();
  auto from = x.caller(0);
  std::vector<tensor> parts;
  for (std::uint32_t part = 0; part < 3; ++part) {
    auto piece = from->read_snapshot(snapshot, id, shard_index{0}, part).value_or_throw();
    CHECK(piece.applies == 1);
    parts.push_back(piece.rows);
  }
  CHECK(from->read_snapshot(snapshot, id, shard_index{0}, 3).error().code == errc::not_found);
  CHECK(from->read_snapshot(static_cast<snapshot_id>(4), id, shard_index{0}, 0).error().code
        == errc::not_found);
  x.caller(1)
    ->restore(id, shard_index{0}, parts[0], std::span{parts}.subspan(1), 1)
    .value_or_throw();
  auto a = x.vars.stores[0]->find(id, shard_index{0})->state();
  auto b = x.vars.stores[1]->find(id, shard_index{0})->state();
  CHECK(a.values == b.values);
  CHECK(a.slots == b.slots);
  CHECK(b.applies == 1);
  auto wrong = tensor::zeros(dtype::f32, {5, 2});
  CHECK(x.caller(1)->restore(id, shard_index{0}, wrong, {}, 1).error().code
        == errc::shape_mismatch);
}

TEST_CASE("remote_server_link: the window takes two pushes, and any one when it is empty") {
  served x{1, {.capacity_bytes = 64}};
  auto id = x.vars.add(make_variable(1, {64}, 1, 1));
  auto link =
    remote_server_link::connect(x.w.env(), x.peer(0), x.w.in(seconds{20})).value_or_throw();
  mutation_piece p;
  p.variable = id;
  p.kind = mutation_kind::assign;
  p.key = {closure(1), {}};
  p.values = tensor::zeros(dtype::f32, {64});
  std::vector<mutation_piece> one{p};
  CHECK(link->may_push(std::uint64_t{1} << 40));
  link->start_mutations(one, worker()).value_or_throw();
  CHECK(link->may_push(1000));
  CHECK(!link->may_push(remote_server_link::window_bytes_max));
  link->start_mutations(one, worker()).value_or_throw();
  CHECK(!link->may_push(1));
  CHECK(link->pushes_pending());
  link->disown_pushes();
  CHECK(!link->pushes_pending());
  CHECK(!link->may_push(1)); // the window knows them still
  auto poller = x.w.transport->make_poller();
  for (;;) {
    link->pump().value_or_throw();
    if (link->may_push(std::uint64_t{1} << 40)) // before the wait: the last answer may be in
      break;
    poller->watch(*link->wire(), link->wants_send());
    REQUIRE(poller->wait(x.w.in(seconds{20})));
  }
  CHECK(link->take_push_failure().code == errc::none);
}

TEST_CASE(
  "parameter_client: many pushes flow through a narrow window, in order, and all are "
  "acknowledged") {
  served x{2, {.capacity_bytes = 500}};
  auto id = x.vars.add(make_variable(1, {40}, 2, 2, dtype::i64));
  parameter_client client{x.w.env(), x.vars.catalogue(), x.remote()};
  client.begin(closure(1), attempt_1, worker());
  for (std::int64_t i = 1; i <= 50; ++i) {
    tensor values{dtype::i64, {40}};
    for (auto& v : values.mutable_as<std::int64_t>())
      v = i;
    std::vector<mutation> ops{{id, mutation_kind::assign, values, {}}};
    client.mutate(ops).value_or_throw();
  }
  client.finish(x.w.in(seconds{20})).value_or_throw();
  for (std::uint32_t shard : {0u, 1u}) {
    auto now = x.vars.stores[shard]->read(id, shard_index{shard}).value_or_throw();
    CHECK(now.version == 50);
    CHECK(now.values.as<std::int64_t>()[0] == 50);
  }
}

TEST_CASE("parameter_client: waiting for a mute server ends by cancel, or as unavailable") {
  world w;
  variables vars{1, &w.tracer};
  auto id = vars.add(make_variable(1, {2}, 1, 1));
  auto listener = w.transport->listen("mute:0").value_or_throw();
  std::atomic<bool> stop{false};
  auto mute = w.ports->threads().start("mute", [&] { // says welcome and nothing more
    std::vector<std::unique_ptr<channel>> wires;
    auto poller = w.transport->make_poller();
    poller->watch(*listener);
    while (!stop) {
      if (auto wire = listener->try_accept()) {
        frame_writer out{data_limits(0)};
        out
          .push(
            {static_cast<std::uint8_t>(data_kind::welcome), 0, 0, encode_meta(welcome_meta{}), {}})
          .value_or_throw();
        out.pump(*wire).value_or_throw();
        wires.push_back(std::move(wire));
      }
      poller->wait(w.in(seconds{1}));
    }
  });
  data_peer peer{.address = listener->address(), .self = worker()};
  auto connect = [&](std::uint32_t) {
    return remote_server_link::connect(w.env(), peer, w.in(seconds{20}));
  };
  std::vector<variable_id> ids{id};
  {
    int asked = 0;
    parameter_client client{
      w.env(), vars.catalogue(), connect, {.interrupted = [&] { return ++asked > 0; }}};
    client.begin(closure(1), attempt_1, worker());
    CHECK(client.read(ids).error().code == errc::cancelled);
  }
  {
    parameter_client client{
      w.env(), vars.catalogue(), connect, {.reply_max = std::chrono::milliseconds{5}}};
    client.begin(closure(1), attempt_1, worker());
    auto got = client.read(ids);
    CHECK(got.error().code == errc::unavailable);
    CHECK(got.error().text.find("ps:0") != std::string::npos);
    std::vector<mutation> ops{{id, mutation_kind::assign, tensor::vector<float>({1, 1}), {}}};
    client.mutate(ops).value_or_throw();
    CHECK(client.finish(w.in(seconds{0})).error().code == errc::deadline);
    client.abandon();
    client.begin(closure(2), attempt_1, worker());
    CHECK(client.finish(w.in(seconds{0})));
  }
  stop = true;
  mute->join();
}
