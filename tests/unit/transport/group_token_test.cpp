#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <string>
#include <vector>

#include <troupe/kernels/hash.hpp>
#include <troupe/transport/detail/group_hello.hpp>

#include "collective_support.hpp"

// Goal: only who knows the token of a group gets a place in it, and only there; a member that is
// behind the others' epochs catches up instead of waiting; members that do different things are
// told what each did. Method: members over loopback on threads, strangers, and frames by hand.
namespace {

using namespace collective_test;

struct member_of {
  std::string token{};
  std::string name = "group";
};

/// Members over TCP, each with its own token.
class token_group {
public:
  explicit token_group(const std::vector<member_of>& all) : base_{carrier::tcp} {
    for (std::size_t i = 0; i < all.size(); ++i) {
      group_options options;
      options.name = all[i].name;
      options.token = all[i].token;
      options.spin = 50us;
      made_.push_back(collective_group::make(base_.env(), i, options).value_or_throw());
      members_.push_back({i, made_.back()->address()});
    }
  }
  std::vector<result<void>> form(group_epoch epoch, duration deadline) {
    std::vector<result<void>> out(made_.size());
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < made_.size(); ++i)
      threads.emplace_back([&, i] { out[i] = made_[i]->form(epoch, members_, deadline); });
    for (auto& t : threads)
      t.join();
    return out;
  }
  collective_group& operator[](std::size_t i) { return *made_[i]; }
  const std::vector<collective_member>& members() const { return members_; }
  environment& env() { return base_.env(); }
  data_transport& transport() { return base_.transport(); }

private:
  test_group base_;
  std::vector<std::unique_ptr<collective_group>> made_{};
  std::vector<collective_member> members_{};
};

bool says(const result<void>& r, errc code, const std::string& what) {
  return !r && r.error().code == code && r.error().text.find(what) != std::string::npos;
}

template <class F>
std::vector<result<void>> together(collective_group& a, collective_group& b, F f) {
  std::vector<result<void>> out(2);
  std::thread other{[&] { out[1] = f(1, b); }};
  out[0] = f(0, a);
  other.join();
  return out;
}

} // namespace

TEST_CASE("tokens: members with the same one form a group, again and again") {
  token_group group{{{"secret"}, {"secret"}, {"secret"}}};
  for (std::uint32_t epoch = 1; epoch < 6; ++epoch) {
    for (const auto& ok : group.form(group_epoch{epoch}, 20s))
      REQUIRE_MESSAGE(ok, text_of(ok));
    std::vector<std::thread> threads;
    std::array<std::int64_t, 3> sums{};
    for (std::size_t i = 0; i < 3; ++i)
      threads.emplace_back([&, i] {
        tensor x = tensor::scalar(static_cast<std::int64_t>(i + epoch));
        if (group[i].all_reduce(x, reduce_op::sum))
          sums[i] = x.item<std::int64_t>();
      });
    for (auto& t : threads)
      t.join();
    for (const auto sum : sums)
      CHECK(sum == 3 + 3 * epoch);
  }
  for (std::size_t i = 0; i < 3; ++i)
    CHECK(group[i].counters().callers_refused == 0);
}

TEST_CASE("tokens: a wrong one, or none, is refused and counted") {
  for (const auto* token : {"guess", ""}) {
    CAPTURE(token);
    token_group group{{{"secret"}, {token}}};
    const auto formed = group.form(group_epoch{1}, 400ms);
    CHECK_MESSAGE(says(formed[0], errc::deadline, "member 1"), text_of(formed[0]));
    CHECK_MESSAGE(says(formed[1], errc::wrong_peer, "member 0"), text_of(formed[1]));
    CHECK_MESSAGE(says(formed[1], errc::wrong_peer, "TROUPE_TOKEN"), text_of(formed[1]));
    CHECK_MESSAGE(says(formed[0], errc::deadline, "TROUPE_TOKEN"),
                  text_of(formed[0])); // not "timed out waiting" alone
    CHECK(group[0].counters().callers_refused >= 1);
    CHECK(!group[0].barrier());
  }
}

TEST_CASE("tokens: who calls a member that needs none finds that it does not know the token") {
  token_group group{{{""}, {"secret"}}};
  const auto formed = group.form(group_epoch{1}, 400ms);
  CHECK_MESSAGE(says(formed[1], errc::wrong_peer, "member 0"), text_of(formed[1]));
  CHECK_MESSAGE(says(formed[1], errc::wrong_peer, "does not have the group's token"),
                text_of(formed[1]));
}

TEST_CASE("tokens: the code covers all of the hello, the bits and the direction") {
  using namespace troupe::detail;
  const group_hello hello{1, group_epoch{2}, 3, 4, 5, 6, {7, 8}, 9, true, 10};
  const group_challenge bits{11, 12};
  const auto code = dialer_code("secret", hello, bits);
  CHECK(code.size() == 64);
  CHECK(code == dialer_code("secret", hello, bits));
  CHECK(code != dialer_code("Secret", hello, bits));
  CHECK(code != dialer_code("secret", hello, {11, 13}));
  CHECK(code != answer_code("secret", hello, bits));
  auto changed = [&](auto change) {
    auto other = hello;
    change(other);
    return dialer_code("secret", other, bits) != code;
  };
  CHECK(changed([](group_hello& h) { h.group = 0; }));
  CHECK(changed([](group_hello& h) { h.epoch = group_epoch{3}; }));
  CHECK(changed([](group_hello& h) { h.from = 0; }));
  CHECK(changed([](group_hello& h) { h.to = 0; }));
  CHECK(changed([](group_hello& h) { h.size = 0; }));
  CHECK(changed([](group_hello& h) { h.members = 0; }));
  CHECK(changed([](group_hello& h) { h.locality.process = 0; }));
  CHECK(changed([](group_hello& h) { h.attempt = 0; }));
  CHECK(changed([](group_hello& h) { h.is_data = false; }));
  CHECK(changed([](group_hello& h) { h.session = 0; }));
}

TEST_CASE("tokens: challenges, proofs and welcomes are decoded as they were encoded") {
  using namespace troupe::detail;
  const group_challenge bits{11, 12};
  CHECK(decode_challenge(encode(bits)) == bits);
  CHECK(!decode_challenge(encode(bits) + "x"));
  const group_proof proof{bits, std::string(64, 'a')};
  const auto back = decode_proof(encode(proof));
  REQUIRE(back);
  CHECK(back->mine == bits);
  CHECK(back->code == proof.code);
  CHECK(!decode_proof(encode(proof).substr(1)));
  const auto bare = decode_welcome(encode(group_hello{}));
  REQUIRE(bare);
  CHECK(bare->code.empty());
  const auto full = decode_welcome(encode(group_hello{}) + proof.code);
  REQUIRE(full);
  CHECK(full->code == proof.code);
  CHECK(!decode_welcome(encode(group_hello{}) + "x"));
}

TEST_CASE("tokens: what was said once does not open the door again") {
  using namespace troupe::detail;
  token_group group{{{"secret"}, {"secret"}}};
  group_hello hello;
  hello.group = 0;
  std::thread former{[&] { CHECK(!group[0].form(group_epoch{1}, group.members(), 600ms)); }};
  // A stranger that has heard a proof sends it in answer to other bits.
  auto link = group.transport().connect(group[0].address(), never).value_or_throw();
  hello.group = kernels::hash64_text("group");
  hello.epoch = group_epoch{1};
  hello.from = 1;
  hello.size = 2;
  auto say = [&](group_frame kind, std::string meta) {
    frame_writer writer{group_frame_limits};
    outgoing_frame frame;
    frame.kind = static_cast<std::uint8_t>(kind);
    frame.meta = std::move(meta);
    REQUIRE(writer.push(std::move(frame)));
    REQUIRE(writer.pump(*link));
  };
  frame_reader reader{group_frame_limits};
  auto hear = [&] {
    const auto until = std::chrono::steady_clock::now() + 5s;
    while (std::chrono::steady_clock::now() < until) {
      auto event = reader.pump(*link);
      if (!event)
        return group_frame{};
      if (*event == frame_event::complete)
        return static_cast<group_frame>(reader.header().kind);
      std::this_thread::yield();
    }
    return group_frame{};
  };
  say(group_frame::hello, encode(hello));
  CHECK(hear() == group_frame::challenge);
  const auto bits = decode_challenge(reader.meta());
  REQUIRE(bits);
  CHECK(!(*bits == group_challenge{}));
  say(group_frame::proof, encode(group_proof{{}, dialer_code("secret", hello, {1, 2})}));
  CHECK(hear() == group_frame::refuse);
  CHECK(decode_notice(reader.meta())->why.text.find("token") != std::string::npos);
  former.join();
  CHECK(group[0].counters().callers_refused == 1);
}

TEST_CASE("epochs: a caller of another version is told so, and not that it is a stranger") {
  using namespace troupe::detail;
  token_group group{{{""}, {""}}};
  std::thread former{[&] { CHECK(!group[0].form(group_epoch{1}, group.members(), 600ms)); }};
  group_hello hello;
  hello.group = kernels::hash64_text("group");
  hello.version = group_protocol_version + 1;
  const auto shorter = encode(hello).substr(4);
  for (const auto& meta : {encode(hello), shorter}) {
    outgoing_frame frame;
    frame.kind = static_cast<std::uint8_t>(group_frame::hello);
    frame.meta = meta;
    frame_writer writer{group_frame_limits};
    REQUIRE(writer.push(std::move(frame)));
    auto link = group.transport().connect(group[0].address(), never).value_or_throw();
    REQUIRE(writer.pump(*link));
    frame_reader reader{group_frame_limits};
    const auto until = std::chrono::steady_clock::now() + 5s;
    auto event = reader.pump(*link);
    while (event && *event != frame_event::complete && std::chrono::steady_clock::now() < until) {
      std::this_thread::yield();
      event = reader.pump(*link);
    }
    REQUIRE(event);
    CHECK(static_cast<group_frame>(reader.header().kind) == group_frame::refuse);
    const auto why = decode_notice(reader.meta());
    REQUIRE(why);
    CHECK(why->why.code == errc::wrong_peer);
    CHECK(why->why.text.find("version 2: start all workers from the same build")
          != std::string::npos);
  }
  former.join();
}

TEST_CASE("epochs: a process is not paired with what the one before it sent, and then died") {
  using namespace troupe::detail;
  token_group group{{{""}, {""}}};
  std::thread former{[&] { CHECK(!group[0].form(group_epoch{1}, group.members(), 600ms)); }};
  group_hello hello;
  hello.group = kernels::hash64_text("group");
  hello.epoch = group_epoch{1};
  hello.from = 1;
  hello.size = 2;
  hello.members = hash_of(group.members());
  hello.attempt = 1;
  auto call = [&](bool is_data, std::uint64_t session) {
    hello.is_data = is_data;
    hello.session = session;
    outgoing_frame frame;
    frame.kind = static_cast<std::uint8_t>(group_frame::hello);
    frame.meta = encode(hello);
    frame_writer writer{group_frame_limits};
    REQUIRE(writer.push(std::move(frame)));
    auto link = group.transport().connect(group[0].address(), never).value_or_throw();
    REQUIRE(writer.pump(*link));
    return link;
  };
  auto is_welcome = [&](channel& link) {
    frame_reader reader{group_frame_limits};
    for (;;) {
      auto event = reader.pump(link);
      if (!event) // the forming is over
        return false;
      if (*event == frame_event::complete)
        return static_cast<group_frame>(reader.header().kind) == group_frame::welcome;
      std::this_thread::yield();
    }
  };
  // First attempts of two processes of member 1.
  const auto data_before = call(true, 99);
  const auto control = call(false, 100);
  CHECK_FALSE(is_welcome(*control));
  former.join();
  // Both channels of one process are a pair.
  std::thread again{[&] { (void)group[0].form(group_epoch{2}, group.members(), 600ms); }};
  hello.epoch = group_epoch{2};
  const auto data = call(true, 100);
  CHECK(is_welcome(*call(false, 100)));
  again.join();
}

TEST_CASE("tokens: without one nobody listens where other machines reach") {
  token_group group{{{""}}};
  for (const auto* address : {"0.0.0.0:0", "[::]:0", "10.1.2.3:4000", "example.org:1"}) {
    group_options options;
    options.listen = address;
    auto made = collective_group::make(group.env(), 1, options);
    REQUIRE(!made);
    CHECK(made.error().code == errc::invalid_argument);
    CHECK(made.error().text.find(address) != std::string::npos);
    CHECK(made.error().text.find("token") != std::string::npos);
  }
  group_options options;
  options.listen = "0.0.0.0:0";
  options.token = "secret";
  CHECK(collective_group::make(group.env(), 1, options));
}

TEST_CASE("epochs: who is behind is told where the others are, whoever calls") {
  // Member 1 calls member 0.
  for (const std::uint32_t behind : {0u, 1u}) {
    CAPTURE(behind);
    token_group group{{{"secret"}, {"secret"}}};
    const auto begin = std::chrono::steady_clock::now();
    const auto ended = together(group[0], group[1], [&](std::uint32_t i, collective_group& g) {
      if (i != behind)
        return g.form(group_epoch{7}, group.members(), 20s);
      auto formed = g.form(group_epoch{2}, group.members(), 20s);
      CHECK_MESSAGE(says(formed, errc::fenced, "epoch 2"), text_of(formed));
      CHECK(g.newest_epoch() == group_epoch{7});
      return g.form(g.newest_epoch(), group.members(), 20s);
    });
    CHECK(std::chrono::steady_clock::now() - begin < 10s);
    for (const auto& ok : ended)
      CHECK_MESSAGE(ok, text_of(ok));
    for (const auto& ok : together(group[0], group[1],
                                   [](std::uint32_t, collective_group& g) { return g.barrier(); }))
      CHECK_MESSAGE(ok, text_of(ok));
  }
}

TEST_CASE("epochs: a member that joins later does not end the forming before") {
  token_group group{{{""}, {""}, {""}}};
  const std::vector<collective_member> two{group.members()[0], group.members()[1]};
  std::thread joiner{[&] {
    auto ok = group[2].form(group_epoch{2}, group.members(), 20s);
    CHECK_MESSAGE(ok, text_of(ok));
  }};
  std::thread other{[&] {
    CHECK(group[1].form(group_epoch{1}, two, 20s));
    CHECK(group[1].form(group_epoch{2}, group.members(), 20s));
  }};
  for (const auto until = std::chrono::steady_clock::now() + 50ms; // the joiner calls meanwhile
       std::chrono::steady_clock::now() < until;)
    std::this_thread::yield();
  CHECK(group[0].form(group_epoch{1}, two, 20s));
  CHECK(group[0].form(group_epoch{2}, group.members(), 20s));
  joiner.join();
  other.join();
}

TEST_CASE("mismatch: every member is told what each one did, in their own words") {
  for (const carrier by : all_carriers) {
    CAPTURE(name_of(by));
    test_group group{by, 3};
    const auto begin = std::chrono::steady_clock::now();
    const auto ended = group.collect([](std::uint32_t rank, collective_group& g) {
      tensor x = zeros(dtype::f32, 6);
      collective_options options;
      options.what = rank == 2 ? "all_gather axis 0 f32[?,2]" : "all_reduce sum f32[3,2]";
      return g.all_reduce(x, reduce_op::sum, options);
    });
    CHECK(std::chrono::steady_clock::now() - begin < 5s);
    for (const auto& r : ended) {
      CHECK_MESSAGE(says(r, errc::mismatch, "called all_reduce sum f32[3,2]"), text_of(r));
      CHECK_MESSAGE(says(r, errc::mismatch, "member 2 (id 102"), text_of(r));
      CHECK_MESSAGE(says(r, errc::mismatch, "called all_gather axis 0 f32[?,2]"), text_of(r));
    }
    for (const auto& ok : group.form(group_epoch{2}))
      CHECK_MESSAGE(ok, text_of(ok));
  }
}
