// Goal: the table of the optimizers is whole: a kind that lacks a name, a parameter of the spec or
// a slot's name shows here.
#include <troupe/core/optimizers.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <set>
#include <string>
#include <vector>

using namespace troupe;

namespace {

template <class T>
float default_of(T optimizer_spec::*member) {
  return static_cast<float>(optimizer_spec{}.*member);
}

/// Kind and the parameters' values of what a user writes without a word of his own.
template <class T>
void check_defaults(optimizer_kind kind) {
  const auto spec = T{}.spec();
  CHECK(spec.kind == kind);
  for (const auto& each : find_optimizer(kind)->parameters)
    if (each.range == parameter_range::flag)
      CHECK(spec.*each.flag == optimizer_spec{}.*each.flag);
    else
      CHECK(spec.*each.number == optimizer_spec{}.*each.number);
}

} // namespace

TEST_CASE("optimizer table: each kind has its row, under a name of its own") {
  std::set<std::string> names;
  for (std::size_t i = 0; i < std::size(optimizer_table); ++i) {
    const auto& row = optimizer_table[i];
    CAPTURE(i);
    CHECK(static_cast<std::size_t>(row.kind) == i);
    CHECK(find_optimizer(row.kind) == &row);
    CHECK(std::strlen(row.name) > 0);
    CHECK(names.insert(row.name).second);
  }
  CHECK(find_optimizer(static_cast<optimizer_kind>(std::size(optimizer_table))) == nullptr);
  CHECK(find_optimizer(static_cast<optimizer_kind>(255)) == nullptr);
  CHECK(slot_count(static_cast<optimizer_kind>(255)) == 0);
}

TEST_CASE("optimizer table: kinds, slots and their names are those of saved checkpoints") {
  // They stand in files: what is saved today must be read tomorrow.
  const auto names = [](int kind) { return slot_names(static_cast<optimizer_kind>(kind)); };
  using texts = std::vector<std::string>;
  CHECK(names(0) == texts{});
  CHECK(names(1) == texts{});
  CHECK(names(2) == texts{"momentum"});
  CHECK(names(3) == texts{"accumulator"});
  CHECK(names(4) == texts{"m", "v"});
  CHECK(slot_count(optimizer_kind::adam) == 2);
  CHECK(optimizer_slots_max == 2);
}

TEST_CASE("optimizer table: slots and parameters are named once, parameters start in their range") {
  for (const auto& row : optimizer_table) {
    CAPTURE(row.name);
    std::set<std::string> slots{"value"}; // the name of the value itself in a checkpoint
    for (const auto& slot : row.slots) {
      CHECK(std::strlen(slot.name) > 0);
      CHECK(slots.insert(slot.name).second);
      if (slot.start)
        CHECK(std::isfinite(default_of(slot.start)));
    }
    std::set<std::string> parameters;
    for (const auto& each : row.parameters) {
      CAPTURE(each.name);
      CHECK(std::strlen(each.name) > 0);
      CHECK(parameters.insert(each.name).second);
      const bool is_flag = each.range == parameter_range::flag;
      REQUIRE((each.flag != nullptr) == is_flag);
      REQUIRE((each.number != nullptr) == !is_flag);
      if (!is_flag)
        CHECK(default_of(each.number) >= 0);
      if (each.range == parameter_range::share)
        CHECK(default_of(each.number) < 1);
    }
  }
}

TEST_CASE("optimizer table: what a user writes has the defaults of the table") {
  check_defaults<sgd>(optimizer_kind::sgd);
  check_defaults<momentum>(optimizer_kind::momentum);
  check_defaults<adagrad>(optimizer_kind::adagrad);
  check_defaults<adam>(optimizer_kind::adam);
}

TEST_CASE("optimizer table: a sparse gradient changes all rows by Adam alone, unless it is lazy") {
  for (const auto& row : optimizer_table) {
    CAPTURE(row.name);
    optimizer_spec spec{.kind = row.kind};
    CHECK(updates_all_rows(spec) == (row.kind == optimizer_kind::adam));
    spec.lazy = true;
    CHECK_FALSE(updates_all_rows(spec));
  }
}
