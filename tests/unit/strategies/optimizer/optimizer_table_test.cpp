// Goal: a row of the table of optimizers is enough: checks of parameters, messages, checkpoints and
// shards follow it. Method: walk the table, with values that no default has.
#include <doctest/doctest.h>

#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <troupe/actors/checkpoint/checkpoint_format.hpp>
#include <troupe/actors/shards/shard.hpp>
#include <troupe/messages/variables.hpp>
#include <troupe/strategies/optimizer/optimizer.hpp>

#include <caf/binary_deserializer.hpp>
#include <caf/binary_serializer.hpp>

#include "../../../support/failures.hpp"
#include "../../../support/fake_storage.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

/// A spec of that kind with a value of its own in each of its parameters, all in their ranges.
optimizer_spec odd_spec(const optimizer_traits& row) {
  optimizer_spec out{.kind = row.kind};
  out.learning_rate.initial = 0.375f;
  float next = 0.125f;
  for (const auto& each : row.parameters) {
    if (each.range == parameter_range::flag)
      out.*each.flag = !(out.*each.flag);
    else
      out.*each.number = std::exchange(next, next + 0.0625f);
  }
  return out;
}

bool same_parameters(const optimizer_traits& row, const optimizer_spec& a,
                     const optimizer_spec& b) {
  bool same = a.kind == b.kind && a.learning_rate.initial == b.learning_rate.initial;
  for (const auto& each : row.parameters)
    same = same
           && (each.range == parameter_range::flag ? a.*each.flag == b.*each.flag
                                                   : a.*each.number == b.*each.number);
  return same;
}

std::shared_ptr<shard> make_shard(const optimizer_spec& optimizer) {
  variable_spec spec;
  spec.name = "w";
  spec.shape = {3, 2};
  spec.shards = {{.row_begin = 0, .row_end = 3}};
  spec.optimizer = optimizer;
  return shard::create(std::make_shared<const variable_spec>(spec), shard_index{}).value_or_throw();
}

mutation_piece gradient_of_ones(std::uint64_t seq) {
  mutation_piece out;
  out.key = {{static_cast<term_no>(1), seq}, static_cast<op_no>(0)};
  out.values = tensor{dtype::f32, {3, 2}};
  for (float& x : out.values.mutable_as<float>())
    x = 1;
  return out;
}

} // namespace

TEST_CASE("optimizer table: a parameter out of its range is refused by optimizer, name and value") {
  constexpr auto inf = std::numeric_limits<float>::infinity();
  constexpr auto nan = std::numeric_limits<float>::quiet_NaN();
  for (const auto& row : optimizer_table) {
    CAPTURE(row.name);
    CHECK(validate(odd_spec(row)));
    for (const auto& each : row.parameters) {
      CAPTURE(each.name);
      if (each.range == parameter_range::flag)
        continue;
      for (float wrong : {-0.5f, inf, nan}) {
        auto spec = odd_spec(row);
        spec.*each.number = wrong;
        CHECK(says(refusal(validate(spec)), std::string{row.name} + ": " + each.name + " is "
                                              + std::to_string(wrong) + ", must be"));
      }
      auto one = odd_spec(row);
      one.*each.number = 1.0f;
      CHECK(static_cast<bool>(validate(one)) == (each.range == parameter_range::amount));
    }
  }
}

TEST_CASE("optimizer table: every parameter of every kind travels in a message") {
  for (const auto& row : optimizer_table) {
    CAPTURE(row.name);
    add_variables sent, got;
    sent.variables.emplace_back().optimizer = odd_spec(row);
    std::vector<char> bytes;
    caf::binary_serializer to{nullptr, bytes};
    REQUIRE_FALSE(to(sent));
    caf::binary_deserializer from{nullptr, bytes};
    REQUIRE_FALSE(from(got));
    REQUIRE(got.variables.size() == 1);
    CHECK(same_parameters(row, got.variables[0].optimizer, sent.variables[0].optimizer));
  }
}

TEST_CASE("optimizer table: a shard starts, updates and restores the slots of every kind") {
  for (const auto& row : optimizer_table) {
    if (row.kind == optimizer_kind::none)
      continue;
    CAPTURE(row.name);
    const auto spec = odd_spec(row);
    auto x = make_shard(spec);
    const auto start = x->state();
    REQUIRE(start.slots.size() == row.slots.size());
    for (std::size_t i = 0; i < row.slots.size(); ++i)
      CHECK(start.slots[i].as<float>()[5] == (row.slots[i].start ? spec.*row.slots[i].start : 0));
    REQUIRE(x->mutate(gradient_of_ones(1)));
    const auto trained = x->state();
    CHECK(trained.values != start.values);
    for (std::size_t i = 0; i < row.slots.size(); ++i)
      CHECK(trained.slots[i] != start.slots[i]);
    auto y = make_shard(spec);
    REQUIRE(y->restore(trained.values, trained.slots, trained.applies));
    REQUIRE(x->mutate(gradient_of_ones(2)));
    REQUIRE(y->mutate(gradient_of_ones(2)));
    CHECK(y->state().values == x->state().values);
    for (std::size_t i = 0; i < row.slots.size(); ++i)
      CHECK(y->state().slots[i] == x->state().slots[i]);
  }
}

TEST_CASE("optimizer table: kind and slots of every kind come back from a checkpoint") {
  fake_storage disk;
  checkpoint_writer writer{disk, "ckpts", {}};
  REQUIRE(writer.begin());
  const auto rows_of = [](float first) { return tensor::vector<float>({first, first + 1}); };
  for (const auto& row : optimizer_table) {
    const std::string name = row.name;
    REQUIRE(writer.add_slice(name, dtype::f32, {2}, std::string{value_part}, 0, rows_of(0)));
    float first = 1;
    for (const auto& slot : slot_names(row.kind))
      REQUIRE(writer.add_slice(name, dtype::f32, {2}, slot, 0, rows_of(first++)));
    REQUIRE(writer.set_steps(name, 7, row.kind));
  }
  REQUIRE(writer.commit());
  const auto reader = checkpoint_reader::open_latest(disk, "ckpts").value_or_throw();
  for (const auto& row : optimizer_table) {
    CAPTURE(row.name);
    const auto* saved = reader.find(row.name);
    REQUIRE(saved != nullptr);
    CHECK(saved->optimizer == row.kind);
    CHECK(saved->parts.size() == 1 + row.slots.size());
    float first = 1;
    for (const auto& slot : slot_names(row.kind))
      CHECK(reader.read(row.name, slot, 0, 2).value_or_throw() == rows_of(first++));
  }
}
