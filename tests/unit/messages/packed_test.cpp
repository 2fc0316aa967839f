// Lists that travel as one string: what goes in comes out, and broken bytes fail.
#include <bit>
#include <limits>

#include <doctest/doctest.h>

#include <troupe/messages/closures.hpp>
#include <troupe/messages/variables.hpp>

#include <caf/binary_deserializer.hpp>
#include <caf/binary_serializer.hpp>

using namespace troupe;

namespace {

worker_report make_report() {
  worker_report out{.header = {.term = term_no{3}, .request = request_no{7}}};
  for (std::uint64_t i = 1; i <= 3; ++i)
    out.ended.push_back({.id = {term_no{3}, i},
                         .attempt = attempt_no{2},
                         .run_ns = 10 * i,
                         .result = std::string(static_cast<std::size_t>(i), 'r')});
  out.ended[1].outcome = attempt_outcome::failed;
  out.ended[1].why = make_failure(errc::user_code, "boom");
  out.resources.push_back({.id = resource_id{5}});
  return out;
}

template <class T>
std::vector<char> bytes_of(T& x) {
  std::vector<char> out;
  caf::binary_serializer to{nullptr, out};
  REQUIRE_FALSE(to(x));
  return out;
}

template <class T>
bool read(const std::vector<char>& bytes, T& to) {
  caf::binary_deserializer from{nullptr, bytes};
  return !from(to);
}

} // namespace

TEST_CASE("messages: a report's ends and an order's closures come out as they went in") {
  auto report = make_report();
  worker_report got;
  REQUIRE(read(bytes_of(report), got));
  CHECK(got.header.request == report.header.request);
  REQUIRE(got.ended.size() == 3);
  CHECK(got.ended[2].id == closure_id{term_no{3}, 3});
  CHECK(got.ended[2].attempt == attempt_no{2});
  CHECK(got.ended[2].run_ns == 30);
  CHECK(got.ended[2].result == "rrr");
  CHECK(got.ended[1].outcome == attempt_outcome::failed);
  CHECK(got.ended[1].why.code == errc::user_code);
  CHECK(got.ended[1].why.text == "boom");
  REQUIRE(got.resources.size() == 1);
  CHECK(got.resources[0].id == resource_id{5});

  run_closures orders;
  orders.orders.push_back({.id = {term_no{3}, 9}, .wants_result = false, .deadline_ms = 4});
  orders.orders.back().arguments = "bytes";
  run_closures same;
  REQUIRE(read(bytes_of(orders), same));
  REQUIRE(same.orders.size() == 1);
  CHECK(same.orders[0].id == closure_id{term_no{3}, 9});
  CHECK_FALSE(same.orders[0].wants_result);
  CHECK(same.orders[0].deadline_ms == 4);
  CHECK(same.orders[0].arguments == "bytes");
}

TEST_CASE("messages: a packed list that ends early, or says more than it has, fails the message") {
  auto report = make_report();
  const auto good = bytes_of(report);
  for (std::size_t n = 0; n < good.size(); ++n) {
    worker_report got;
    CHECK_FALSE(
      read(std::vector<char>(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(n)), got));
  }
  std::size_t refused = 0;
  for (std::size_t i = 0; i < good.size(); ++i) {
    auto bad = good;
    bad[i] = static_cast<char>(
      0xff); // a count or a length somewhere becomes huge: no allocation follows it
    worker_report got;
    refused += read(bad, got) ? 0 : 1;
  }
  CHECK(refused > 0);
}

TEST_CASE("messages: infinities, NaN and -0 of a variable's description travel as they are") {
  add_variables sent;
  auto& spec = sent.variables.emplace_back();
  spec.name = "w";
  spec.initializer = {.kind = initializer_kind::constant,
                      .a = -std::numeric_limits<float>::infinity(),
                      .b = std::bit_cast<float>(0x7fc12345u)};
  spec.optimizer.epsilon = -0.0f;
  spec.optimizer.learning_rate.boundaries = {5};
  spec.optimizer.learning_rate.values = {std::numeric_limits<float>::infinity(), 1e-42f};
  add_variables got;
  REQUIRE(read(bytes_of(sent), got));
  REQUIRE(got.variables.size() == 1);
  const auto& same = got.variables[0];
  CHECK(same.name == "w");
  CHECK(same.initializer.kind == initializer_kind::constant);
  const auto bits = [](float x) { return std::bit_cast<std::uint32_t>(x); };
  CHECK(bits(same.initializer.a) == bits(spec.initializer.a));
  CHECK(bits(same.initializer.b) == bits(spec.initializer.b));
  CHECK(bits(same.optimizer.epsilon) == bits(-0.0f));
  REQUIRE(same.optimizer.learning_rate.values.size() == 2);
  CHECK(bits(same.optimizer.learning_rate.values[0])
        == bits(std::numeric_limits<float>::infinity()));
  CHECK(bits(same.optimizer.learning_rate.values[1]) == bits(1e-42f));
}
