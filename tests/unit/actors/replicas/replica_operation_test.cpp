// What replicas do together in one call. Goal: the words that processes compare, for every kind.
// Method: the plain values.

#include <doctest/doctest.h>

#include <string>

#include <troupe/actors/replicas/replica_operation.hpp>

namespace {

using namespace troupe;

std::string words(const replica_operation& of) {
  const auto how = parameters_of(of);
  return std::string{to_string(of.kind)} + (how.empty() ? "" : " " + how);
}

TEST_CASE("replica operation: each kind has a name, and says its own parameters alone") {
  // All parameters are set: what a kind does not have must not show.
  auto with = [](operation_kind kind) {
    return replica_operation{
      .kind = kind, .op = reduce_op::max, .user = "mine", .axis = 1, .root = 2};
  };
  CHECK(words(with(operation_kind::other)).empty());
  CHECK(words(with(operation_kind::barrier)) == "barrier");
  CHECK(words(with(operation_kind::all_reduce)) == "all_reduce max");
  CHECK(words(with(operation_kind::all_gather)) == "all_gather axis 1");
  CHECK(words(with(operation_kind::broadcast)) == "broadcast from 2");
  CHECK(words(with(operation_kind::reduce_gradients)) == "reduce_gradients max");
  CHECK(words(with(operation_kind::finish_gradients)) == "finish_gradients max");
}

TEST_CASE("replica operation: a user's reduction goes by its own name") {
  const replica_operation mine{
    .kind = operation_kind::all_reduce, .op = reduce_op::user, .user = "concatenate"};
  CHECK(words(mine) == "all_reduce concatenate");
  auto other = mine;
  other.user = "sum"; // named as one of the library's: still the user's
  CHECK_FALSE(other == replica_operation{.kind = operation_kind::all_reduce, .op = reduce_op::sum});
  CHECK(other.op == reduce_op::user);
}

} // namespace
