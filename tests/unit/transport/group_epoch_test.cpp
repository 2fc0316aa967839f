#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <string>
#include <vector>

#include <troupe/transport/detail/group_hello.hpp>

#include "../../support/waiting.hpp"
#include "collective_support.hpp"

// Goal: an epoch ends for all, soon, and says who is missing; the next one works; nobody takes a
// partial result. Method: threads; members that stay away, leave, or call something else; cut and
// chopped channels.
namespace {

using namespace collective_test;

result<void> sum(std::uint32_t, collective_group& group, std::size_t count = 1000,
                 duration deadline = 20s) {
  tensor x = make_tensor(dtype::i64, count, [](std::size_t i) { return static_cast<double>(i); });
  collective_options options;
  options.deadline = deadline;
  auto done = group.all_reduce(x, reduce_op::sum, options);
  for (std::size_t i = 0; done && i < count; ++i)
    if (x.as<std::int64_t>()[i] != static_cast<std::int64_t>(i * group.size()))
      return make_failure(errc::corrupt, "a partial sum");
  return done;
}

bool has(const result<void>& r, const std::string& what) {
  return text_of(r).find(what) != std::string::npos;
}

double seconds_since(std::chrono::steady_clock::time_point t) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - t).count();
}

} // namespace

TEST_CASE("SYNC-GRP-C3 epochs: members that do different things refuse each other, on both sides") {
  for (const carrier by : all_carriers) {
    CAPTURE(name_of(by));
    {
      test_group group{by, 3};
      for (const auto& ended : group.collect([](std::uint32_t rank, collective_group&g) {
             return sum(rank, g, rank == 1 ? 11 : 10);
           })) {
        CHECK(!ended);
        CHECK(ended.error().code == errc::mismatch);
      }
      for (const auto& ended :
           group.collect([](std::uint32_t, collective_group& g) { return g.barrier(); }))
        CHECK(!ended);
    }
    test_group group{by, 2};
    for (const auto& ended : group.collect([](std::uint32_t rank, collective_group&g) {
           tensor x = zeros(dtype::f32, 10);
           return rank == 0 ? g.all_reduce(x, reduce_op::sum) : g.all_reduce(x, reduce_op::max);
         })) {
      CHECK(!ended);
      CHECK_MESSAGE(ended.error().code == errc::mismatch, text_of(ended));
    }
  }
}

TEST_CASE("epochs: a silent member ends an operation at its deadline, and is named by all") {
  for (const carrier by : all_carriers) {
    CAPTURE(name_of(by));
    test_group group{by, 3};
    const auto begin = std::chrono::steady_clock::now();
    const auto ended = group.collect([](std::uint32_t rank, collective_group& g) {
      return rank == 2 ? result<void>{} : sum(rank, g, 100'000, 150ms);
    });
    CHECK(seconds_since(begin) < 5);
    for (const std::uint32_t rank : {0u, 1u}) {
      CHECK_MESSAGE((!ended[rank] && ended[rank].error().code == errc::deadline),
                    text_of(ended[rank]));
      CHECK_MESSAGE(has(ended[rank], "member 2 (id 102"), text_of(ended[rank]));
      CHECK_MESSAGE(has(ended[rank], "all_reduce sum i64[100000]"), text_of(ended[rank]));
      CHECK_MESSAGE(has(ended[rank], "undefined"), text_of(ended[rank]));
      CHECK(group[rank].missing() == std::vector<std::uint64_t>{102});
    }
    // The late one is told, changes nothing, and all go on in the next epoch.
    CHECK(!sum(2, group[2], 100'000, 150ms));
    for (const auto& ok : group.form(group_epoch{2}))
      REQUIRE_MESSAGE(ok, text_of(ok));
    for (const auto& ok :
         group.collect([](std::uint32_t rank, collective_group&g) { return sum(rank, g); }))
      CHECK_MESSAGE(ok, text_of(ok));
  }
}

TEST_CASE("epochs: a member that ended before the first epoch was waited for until the deadline") {
  for (const carrier by : all_carriers)
    for (const std::size_t victim : {0u, 1u, 2u}) { // called by the others, both, calls the others
      CAPTURE(name_of(by));
      CAPTURE(victim);
      test_group group{by};
      group.members_listen = true;
      group.add(3);
      const auto all = group.members();
      group.destroy(victim);
      const auto begin = std::chrono::steady_clock::now();
      const auto formed = group.collect(
        [&](std::uint32_t, collective_group& g) { return g.form(group_epoch{1}, all, 30s); });
      CHECK(seconds_since(begin) < 15);
      for (std::size_t rank = 0; rank < 3; ++rank)
        if (rank != victim) {
          CHECK_MESSAGE((!formed[rank] && formed[rank].error().code == errc::peer_lost),
                        text_of(formed[rank]));
          CHECK_MESSAGE(has(formed[rank], "was lost"), text_of(formed[rank]));
        }
    }
}

TEST_CASE("epochs: a member that leaves is seen at once, and the survivors go on without it") {
  for (const carrier by : all_carriers) {
    CAPTURE(name_of(by));
    test_group group{by, 4};
    const auto begin = std::chrono::steady_clock::now();
    group.destroy(1);
    const auto ended = group.collect(
      [](std::uint32_t rank, collective_group& g) { return sum(rank, g, 200'000, 20s); });
    CHECK(seconds_since(begin) < 10);
    for (const std::uint32_t rank : {0u, 2u, 3u}) {
      CHECK_MESSAGE((!ended[rank] && ended[rank].error().code == errc::peer_lost),
                    text_of(ended[rank]));
      CHECK_MESSAGE(has(ended[rank], "member 1 (id 101"), text_of(ended[rank]));
    }
    const std::array<std::uint64_t, 3> survivors{100, 102, 103};
    for (std::size_t i = 0; const auto& ok : group.collect([&](std::uint32_t, collective_group& g) {
           return g.shrink(group_epoch{2}, survivors, 20s);
         }))
      if (i++ != 1)
        REQUIRE_MESSAGE(ok, text_of(ok));
    for (std::size_t i = 0;
         const auto& ok : group.collect([](std::uint32_t rank, collective_group&g) {
           return g.size() == 3 ? sum(rank, g, 200'000) : make_failure(errc::corrupt, "size");
         }))
      if (i++ != 1)
        CHECK_MESSAGE(ok, text_of(ok));
  }
}

TEST_CASE("epochs: the last member sees the only other one go, with and without an arena") {
  for (const std::size_t arena_bytes : {std::size_t{0}, std::size_t{4} << 20}) {
    CAPTURE(arena_bytes);
    test_group group{carrier::host};
    group.arena_bytes = arena_bytes;
    group.add(2);
    for (const auto& ok : group.form(group_epoch{1}))
      REQUIRE_MESSAGE(ok, text_of(ok));
    for (const auto& ok : group.collect(
           [](std::uint32_t rank, collective_group&g) { return sum(rank, g, 200'000, 20s); }))
      REQUIRE_MESSAGE(ok, text_of(ok));
    group.destroy(1);
    const auto begin = std::chrono::steady_clock::now();
    const auto ended = sum(0, group[0], 200'000, 20s);
    CHECK(seconds_since(begin) < 10);
    CHECK_MESSAGE((!ended && ended.error().code == errc::peer_lost), text_of(ended));
    CHECK_MESSAGE(has(ended, "member 1 (id 101"), text_of(ended));
  }
}

TEST_CASE("epochs: a group grows while it runs") {
  test_group group{carrier::tcp, 2};
  group.add();
  const auto all = group.members();
  for (const auto& ok : group.collect([&](std::uint32_t rank, collective_group&g) {
         return rank < 2 ? g.grow(group_epoch{2}, {all[2]}, 20s) : g.form(group_epoch{2}, all, 20s);
       }))
    REQUIRE_MESSAGE(ok, text_of(ok));
  for (const auto& ok :
       group.collect([](std::uint32_t rank, collective_group&g) { return sum(rank, g); }))
    CHECK_MESSAGE(ok, text_of(ok));
  CHECK(group[2].rank() == 2);
}

TEST_CASE("epochs: revoke ends what is in flight on all members, from any thread") {
  for (const carrier by : all_carriers) {
    CAPTURE(name_of(by));
    test_group group{by, 3};
    const std::array<std::uint64_t, 1> missing{102};
    std::atomic<int> waiting{0};
    const auto begin = std::chrono::steady_clock::now();
    std::thread revoker{[&] {
      while (waiting < 2)
        std::this_thread::yield();
      group[0].revoke("the view changed", missing);
    }};
    const auto ended = group.collect([&](std::uint32_t rank, collective_group& g) {
      if (rank == 2)
        return result<void>{};
      ++waiting;
      return sum(rank, g, 100'000, 20s);
    });
    revoker.join();
    CHECK(seconds_since(begin) < 10);
    for (const std::uint32_t rank : {0u, 1u}) {
      CHECK_MESSAGE((!ended[rank] && ended[rank].error().code == errc::revoked),
                    text_of(ended[rank]));
      CHECK_MESSAGE(has(ended[rank], "the view changed"), text_of(ended[rank]));
      CHECK_MESSAGE(has(ended[rank], "member 2 (id 102"), text_of(ended[rank]));
      CHECK(group[rank].missing() == std::vector<std::uint64_t>{102});
    }
    CHECK(!sum(2, group[2], 100'000, 20s)); // told as well
    for (const auto& ok : group.form(group_epoch{2}))
      REQUIRE_MESSAGE(ok, text_of(ok));
    for (const auto& ok :
         group.collect([](std::uint32_t rank, collective_group&g) { return sum(rank, g); }))
      CHECK_MESSAGE(ok, text_of(ok));
  }
}

TEST_CASE(
  "epochs: the code, retry class and origin that an epoch is revoked with are every member's") {
  for (const carrier by : all_carriers) {
    CAPTURE(name_of(by));
    test_group group{by, 3};
    auto why = make_failure(errc::user_code, "replica 4: std::logic_error: no");
    why.retry = retry_class::yes; // not the code's own
    why.where.task = {.job = job_kind::worker, .index = 2};
    CHECK(!group[0].why_ended().has_value());
    const auto ended = group.collect([&](std::uint32_t rank, collective_group& g) {
      if (rank != 2)
        return sum(rank, g, 100'000, 20s);
      g.revoke(why);
      return sum(rank, g, 100'000, 20s);
    });
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      REQUIRE_MESSAGE(!ended[rank], "rank " << rank);
      const auto& told = ended[rank].error();
      CHECK_MESSAGE(told.code == errc::user_code, text_of(ended[rank]));
      CHECK(told.retry == retry_class::yes);
      CHECK(told.where.task == why.where.task);
      CHECK_MESSAGE(has(ended[rank], why.text.c_str()), text_of(ended[rank]));
      REQUIRE(group[rank].why_ended().has_value());
      CHECK(group[rank].why_ended()->code == errc::user_code);
    }
  }
}

TEST_CASE("epochs: channels cut after any number of bytes never give a partial sum") {
  std::uint64_t random = 17;
  int formed_count = 0;
  int failed = 0;
  for (int round = 0; round < 120; ++round) {
    memory_transport_options cut;
    cut.capacity_bytes = 5000;
    cut.chunk_seed = static_cast<std::uint64_t>(round) * (round % 3);
    cut.chunk_bytes_max = 900;
    cut.cut_after_bytes = 200 + troupe::testing::next_random(random) % 200'000;
    test_group group{carrier::memory, cut};
    group.add(3);
    bool formed = true;
    for (const auto& ok : group.form(group_epoch{1}, 300ms))
      formed = formed && ok;
    if (!formed)
      continue;
    ++formed_count;
    const auto begin = std::chrono::steady_clock::now();
    std::vector<result<void>> ended(3);
    for (int i = 0; i < 4; ++i) {
      ended = group.collect([&](std::uint32_t rank, collective_group& g) {
        return sum(rank, g, 3000 + 100 * static_cast<std::size_t>(round), 5s);
      });
      for (const auto& r : ended)
        if (!r) {
          ++failed;
          CHECK_MESSAGE(r.error().code == errc::peer_lost, text_of(r));
        }
    }
    CHECK(seconds_since(begin) < 5);
  }
  CHECK(formed_count > 60);
  CHECK(failed > 60);
}

TEST_CASE("epochs: members of an old one, strangers and noise find no place") {
  test_group group{carrier::tcp, 2};
  for (const auto& ok : group.form(group_epoch{5}))
    REQUIRE_MESSAGE(ok, text_of(ok));
  // A member that has slept forms the epoch that it knows of; the others are beyond it.
  group_options options;
  options.listen = "127.0.0.1:0";
  auto late = collective_group::make(group.env(), 1, options).value_or_throw();
  options.name = "others";
  auto stranger = collective_group::make(group.env(), 2, options).value_or_throw();
  auto with_late = group.members();
  with_late.push_back({1, late->address()});
  auto with_stranger = group.members();
  with_stranger.push_back({2, stranger->address()});
  result<void> late_ended;
  std::thread sleeper{[&] { late_ended = late->form(group_epoch{3}, with_late, 10s); }};
  std::thread noise{[&] {
    auto link = group.transport().connect(group[0].address(), never);
    const std::string text(100, 'x');
    const std::array<const_bytes, 1> parts{std::as_bytes(std::span{text})};
    static_cast<void>(static_cast<bool>((*link)->try_send(parts)));
    const auto until = std::chrono::steady_clock::now() + 200ms;
    while (std::chrono::steady_clock::now() < until)
      std::this_thread::yield();
  }};
  result<void> stranger_ended;
  std::thread wrong_group{
    [&] { stranger_ended = stranger->form(group_epoch{6}, with_stranger, 10s); }};
  // They are answered by whoever forms an epoch.
  auto ids = group.members();
  for (std::uint32_t next = 6; next < 9; ++next)
    for (const auto& ok : group.form(group_epoch{next}))
      REQUIRE_MESSAGE(ok, text_of(ok));
  noise.join();
  for (const auto& ok : group.form(group_epoch{9}))
    REQUIRE_MESSAGE(ok, text_of(ok));
  std::uint32_t next = 10;
  while (group[0].counters().callers_refused + group[1].counters().callers_refused < 3
         && next < 200)
    for (const auto& ok : group.form(group_epoch{next++}))
      REQUIRE_MESSAGE(ok, text_of(ok));
  sleeper.join();
  wrong_group.join();
  CHECK_MESSAGE((!late_ended && late_ended.error().code == errc::fenced), text_of(late_ended));
  CHECK_MESSAGE((!stranger_ended && stranger_ended.error().code == errc::wrong_peer),
                text_of(stranger_ended));
  for (const auto& ok :
       group.collect([](std::uint32_t rank, collective_group&g) { return sum(rank, g); }))
    CHECK_MESSAGE(ok, text_of(ok));
}

TEST_CASE("SYNC-GRP-C1 epochs: a list that others have not, or without this member, is refused") {
  test_group group{carrier::memory};
  group.add(2);
  const auto members = group.members();
  CHECK(!group[0].form(group_epoch{1}, {{5, "mem:9"}}, 1s));
  const auto ended = group.collect([&](std::uint32_t rank, collective_group& g) {
    auto list = members;
    if (rank == 1)
      list.push_back({9, "mem:9"});
    return g.form(group_epoch{1}, list, 500ms);
  });
  CHECK_MESSAGE((!ended[1] && ended[1].error().code == errc::mismatch), text_of(ended[1]));
  CHECK_MESSAGE((!ended[0] && ended[0].error().code == errc::deadline), text_of(ended[0]));
  CHECK(has(ended[0], "member 1"));
  // An epoch's number is used once.
  CHECK(!group[0].form(group_epoch{1}, members, 1s));
  CHECK(!group[0].barrier());
  for (const auto& ok : group.form(group_epoch{2}))
    REQUIRE_MESSAGE(ok, text_of(ok));
  const auto barriers =
    group.collect([](std::uint32_t, collective_group& g) { return g.barrier(); });
  CHECK(barriers[0]);
  CHECK(barriers[1]);
}

TEST_CASE("epochs: a root runs ahead of those who read, on every carrier") {
  for (const carrier by : all_carriers) {
    CAPTURE(name_of(by));
    test_group group{by, 3};
    for (const auto& ok : group.collect([](std::uint32_t rank, collective_group&g) {
           for (std::int64_t i = 0; i < 300; ++i) {
             tensor x = tensor::scalar<std::int64_t>(rank == 0 ? i : -1);
             if (auto done = g.broadcast(x, 0); !done)
               return done;
             if (x.item<std::int64_t>() != i)
               return result<void>{make_failure(errc::corrupt, "another operation's value")};
           }
           return g.barrier();
         }))
      CHECK_MESSAGE(ok, text_of(ok));
  }
}

TEST_CASE("hellos and notices: what was encoded is decoded, and nothing else") {
  using namespace troupe::detail;
  const group_hello hello{1, group_epoch{2}, 3, 4, 5, 6, {7, 8}, 9, true, 10};
  const std::string text = encode(hello);
  const auto back = decode_hello(text);
  REQUIRE(back);
  CHECK(back->group == 1);
  CHECK(back->epoch == group_epoch{2});
  CHECK(back->from == 3);
  CHECK(back->to == 4);
  CHECK(back->size == 5);
  CHECK(back->members == 6);
  CHECK(back->locality == group_locality{7, 8});
  CHECK(back->attempt == 9);
  CHECK(back->is_data);
  CHECK(back->session == 10);
  CHECK(back->version == group_protocol_version);
  CHECK(!decode_hello(text + "x"));
  CHECK(!decode_hello(text.substr(1)));
  group_notice notice{make_failure(errc::deadline, "because"), {1, 2}};
  notice.why.retry = retry_class::after_recovery; // not the code's own
  notice.why.where = {.task = {job_kind::worker, 1}, .inc = {2, 3}, .epoch = epoch_no{4}};
  const auto heard = decode_notice(encode(notice));
  REQUIRE(heard);
  CHECK(heard->why.code == errc::deadline);
  CHECK(heard->why.retry == retry_class::after_recovery);
  CHECK(to_string(heard->why) == "deadline at worker:1 (incarnation 2): because");
  CHECK(heard->why.where.inc.nonce == 3);
  CHECK(heard->why.where.epoch == epoch_no{4});
  CHECK(heard->missing == std::vector<std::uint32_t>{1, 2});
  for (std::size_t cut = 0; cut < encode(notice).size(); ++cut)
    CHECK(!decode_notice(encode(notice).substr(0, cut)));
  std::string many = encode(notice);
  many[0] = '\x7f';
  CHECK(!decode_notice(many));
  for (const auto none : {errc::none, static_cast<errc>(250)}) { // a reason that is none
    notice.why.code = none;
    CHECK(!decode_notice(encode(notice)));
  }
}
