// What travels on links: every message comes out as it went in, and nothing else comes out.
#include <doctest/doctest.h>

#include <troupe/messages/link_codec.hpp>
#include <troupe/messages/messages.hpp>

using namespace troupe;

namespace {

message_header a_header() {
  return {.term = term_no{3},
          .epoch = epoch_no{9},
          .from = {.job = job_kind::worker, .index = 2},
          .sender = {.counter = 4, .nonce = 77},
          .receiver = {.counter = 5, .nonce = 78},
          .request = request_no{6}};
}

run_closures some_orders() {
  run_closures out{.header = a_header(), .orders = {}};
  for (std::uint64_t i = 1; i <= 3; ++i)
    out.orders.push_back({.id = {term_no{3}, i},
                          .attempt = attempt_no{2},
                          .function = function_index{7},
                          .arguments = std::string(static_cast<std::size_t>(i), 'a')});
  return out;
}

worker_report a_report() {
  worker_report out{.header = a_header(), .ended = {}, .resources = {}};
  out.ended.push_back({.id = {term_no{3}, 1}, .run_ns = 5, .result = "r"});
  out.ended.push_back({.id = {term_no{3}, 2},
                       .outcome = attempt_outcome::failed,
                       .why = make_failure(errc::user_code, "boom")});
  out.resources.push_back({.id = resource_id{5}});
  return out;
}

variable_spec a_variable() {
  variable_spec out;
  out.id = variable_id{4};
  out.name = "weights";
  out.shape = {8, 2};
  out.shards.push_back({0, 8, 1});
  return out;
}

/// Every message that travels, and its kind.
std::vector<std::pair<link_kind, caf::message>> all_messages() {
  std::vector<std::pair<link_kind, caf::message>> out;
  out.emplace_back(link_kind::admit_worker,
                   box(admit_worker{.header = a_header(),
                                    .data_address = "127.0.0.1:7",
                                    .variables = {a_variable()},
                                    .resources = {{.id = resource_id{1}, .arguments = "x"}}}));
  out.emplace_back(link_kind::run_closures, box(some_orders()));
  out.emplace_back(link_kind::recall_closures,
                   box(recall_closures{.header = a_header(), .count = 3}));
  out.emplace_back(link_kind::cancel_closures,
                   box(cancel_closures{.header = a_header(), .ids = {{term_no{3}, 1}}}));
  out.emplace_back(link_kind::add_variables,
                   box(add_variables{.header = a_header(), .variables = {a_variable()}}));
  out.emplace_back(link_kind::make_resources,
                   box(make_resources{.header = a_header(), .orders = {{.id = resource_id{2}}}}));
  out.emplace_back(link_kind::drop_resources,
                   box(drop_resources{.header = a_header(), .ids = {resource_id{2}}}));
  out.emplace_back(link_kind::variable_answer,
                   box(variable_answer{.why = {}, .made = a_variable()}));
  out.emplace_back(link_kind::worker_report, box(a_report()));
  out.emplace_back(link_kind::request_variable,
                   box(request_variable{.header = a_header(), .wanted = a_variable()}));
  return out;
}

} // namespace

TEST_CASE("links: every message comes out as it went in, under its own kind") {
  for (auto& [kind, what] : all_messages()) {
    CAPTURE(static_cast<unsigned>(kind));
    auto sent = encode_link(what);
    REQUIRE(sent);
    CHECK(sent->kind == kind);
    CHECK(is_for_worker(kind) != is_for_coordinator(kind));
    auto got = decode_link(kind, sent->bytes);
    REQUIRE(got);
    auto again = encode_link(*got);
    REQUIRE(again);
    CHECK(again->bytes == sent->bytes);
  }
}

TEST_CASE("links: orders and ends keep their fields") {
  auto orders = box(some_orders());
  auto got = decode_link(link_kind::run_closures, encode_link(orders)->bytes);
  REQUIRE(got);
  const auto& run = got->get_as<run_closures>(0);
  REQUIRE(run.orders.size() == 3);
  CHECK(run.header.receiver == incarnation{5, 78});
  CHECK(run.orders[2].id == closure_id{term_no{3}, 3});
  CHECK(run.orders[2].arguments == "aaa");
  auto report = box(a_report());
  got = decode_link(link_kind::worker_report, encode_link(report)->bytes);
  REQUIRE(got);
  const auto& back = got->get_as<worker_report>(0);
  REQUIRE(back.ended.size() == 2);
  CHECK(back.header.sender == incarnation{4, 77});
  CHECK(back.ended[1].why.text == "boom");
  CHECK(back.resources.size() == 1);
}

TEST_CASE("links: a message that is cut short or goes on too long is refused") {
  for (auto& [kind, what] : all_messages()) {
    CAPTURE(static_cast<unsigned>(kind));
    const auto whole = encode_link(what)->bytes;
    for (std::size_t n = 0; n < whole.size(); ++n) {
      auto cut = decode_link(kind, std::string_view{whole}.substr(0, n));
      REQUIRE_FALSE(cut);
      CHECK(cut.error().code == errc::bad_frame);
    }
    CHECK_FALSE(decode_link(kind, whole + '\0'));
  }
}

TEST_CASE("links: other messages don't travel, and other kinds are none") {
  auto stranger = box(fence_member{});
  CHECK_FALSE(encode_link(stranger));
  auto local = box(thread_progress{});
  CHECK_FALSE(encode_link(local));
  for (auto kind : {link_kind{0}, link_kind::hello, link_kind::welcome, link_kind::refused,
                    link_kind::goodbye, link_kind{15}, link_kind{255}}) {
    auto got = decode_link(kind, "");
    REQUIRE_FALSE(got);
    CHECK(got.error().text.find("kind " + std::to_string(static_cast<unsigned>(kind)))
          != std::string::npos);
  }
}

TEST_CASE("links: a count that the bytes can't hold is refused before anything is allocated") {
  auto what = box(some_orders());
  auto bytes = encode_link(what)->bytes;
  plain_writer head;
  head(a_header());
  const auto at = head.out.bytes.size(); // where the number of orders stands
  for (std::size_t i = 0; i < 8; ++i)
    bytes[at + i] = '\x7f';
  auto got = decode_link(link_kind::run_closures, bytes);
  REQUIRE_FALSE(got);
  CHECK(got.error().text.find("run_closures: count") != std::string::npos);
}
