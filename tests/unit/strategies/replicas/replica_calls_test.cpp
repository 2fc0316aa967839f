// The calls of replicas, described, and what a replica without data gives to them. Goal: every kind
// of call has a gift that changes nobody's result, or a refusal that names a way out. Method: the
// plain functions.

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <troupe/strategies/replicas/detail/replica_calls.hpp>

#include "../../../support/failures.hpp"

namespace {

using namespace troupe;
using detail::described;
using detail::given_without_data;
using detail::neutral_operator;
using testing::says;

std::string why_refused(const replica_call& call, std::uint32_t replica = 1) {
  try {
    (void)given_without_data(call, replica);
  } catch (const error& e) {
    CHECK(e.code() == errc::invalid_argument);
    CHECK(std::string{e.what()}.find("empty_pieces::call") != std::string::npos);
    return e.what();
  }
  FAIL("was not refused: " << to_string(call));
  return {};
}

replica_call reduction_of(reduce_op op, dtype type, std::vector<shape_t> shapes) {
  return described({.kind = operation_kind::all_reduce, .op = op}, type, std::move(shapes));
}

TEST_CASE("replica calls: a description has the words of its operation, and the operation itself") {
  const auto call =
    described({.kind = operation_kind::all_gather, .axis = 1}, dtype::f32, {{2, -1}});
  CHECK(to_string(call) == "all_gather axis 1 f32[2, -1]");
  CHECK(call.operation == replica_operation{.kind = operation_kind::all_gather, .axis = 1});
  CHECK_FALSE(call.on_devices);
  CHECK(to_string(described({.kind = operation_kind::barrier})) == "barrier");
  CHECK(to_string(described({.kind = operation_kind::broadcast, .root = 3}, dtype::i64, {{}}))
        == "broadcast from 3 i64[]");
}

TEST_CASE("replica calls: a reduction gets the neutral element of its operator, in each shape") {
  const std::vector<shape_t> shapes{{2}, {}};
  auto first = [&](reduce_op op) {
    const auto given = given_without_data(reduction_of(op, dtype::f32, shapes), 1);
    REQUIRE(given.size() == 2);
    for (std::size_t i = 0; i < 2; ++i) {
      CHECK(given[i].type() == dtype::f32);
      CHECK(given[i].shape() == shapes[i]);
    }
    CHECK(given[0].as<float>()[1] == given[1].item<float>());
    return given[1].item<float>();
  };
  constexpr float inf = std::numeric_limits<float>::infinity();
  CHECK(first(reduce_op::sum) == 0);
  CHECK(first(reduce_op::mean) == 0); // divided by the number of those that have data
  CHECK(first(reduce_op::prod) == 1);
  CHECK(first(reduce_op::min) == inf);
  CHECK(first(reduce_op::max) == -inf);
  const auto whole = given_without_data(reduction_of(reduce_op::min, dtype::i32, {{}}), 1);
  CHECK(whole[0].item<std::int32_t>() == std::numeric_limits<std::int32_t>::max());
}

TEST_CASE("replica calls: a user's reduction is refused by its name, also one called sum") {
  for (const char* name : {"concatenate", "sum"}) {
    const auto call = described(
      {.kind = operation_kind::all_reduce, .op = reduce_op::user, .user = name}, dtype::f32, {{2}});
    CHECK(says(why_refused(call), std::string{"all_reduce "} + name));
    CHECK_THROWS_AS((void)neutral_operator(call), error);
  }
}

TEST_CASE("replica calls: a gather gets no rows along its own axis") {
  const auto call =
    described({.kind = operation_kind::all_gather, .axis = 1}, dtype::i64, {{3, -1, 2}});
  const auto given = given_without_data(call, 1);
  REQUIRE(given.size() == 1);
  CHECK(given[0].type() == dtype::i64);
  CHECK(given[0].shape() == shape_t{3, 0, 2});
}

TEST_CASE("replica calls: a gather of equal shapes takes nobody without rows") {
  const auto call = described({.kind = operation_kind::all_gather}, dtype::f32, {{4, 2}});
  CHECK(says(why_refused(call), "[4, 2] of equal shapes"));
}

TEST_CASE("replica calls: a broadcast gets a tensor of its shape, but from its root") {
  const auto call = described({.kind = operation_kind::broadcast, .root = 2}, dtype::f64, {{2, 2}});
  const auto given = given_without_data(call, 1);
  REQUIRE(given.size() == 1);
  CHECK(given[0].type() == dtype::f64);
  CHECK(given[0].shape() == shape_t{2, 2});
  CHECK(says(why_refused(call, 2), "replica 2, the root"));
}

TEST_CASE("replica calls: a bucket gets zeros in f32, whatever it travels as") {
  for (auto type : {dtype::f32, dtype::bf16}) {
    auto call = described({.kind = operation_kind::reduce_gradients}, type, {{2}, {3, 1}});
    call.on_devices = true;
    const auto given = given_without_data(call, 1);
    REQUIRE(given.size() == 2);
    CHECK(given[0].type() == dtype::f32);
    CHECK(given[0].shape() == shape_t{2});
    CHECK(given[1].shape() == shape_t{3, 1});
    CHECK(given[1].as<float>()[2] == 0);
  }
}

TEST_CASE("replica calls: barriers and ends of buckets take nothing, merge calls nobody") {
  CHECK(given_without_data(described({.kind = operation_kind::barrier}), 1).empty());
  CHECK(given_without_data(described({.kind = operation_kind::finish_gradients}), 1).empty());
  CHECK(says(why_refused({.kind = "merge_call", .how = "void of ()"}), "merge_call: "));
}

} // namespace
