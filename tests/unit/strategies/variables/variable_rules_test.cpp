// What a call of a variable comes to. Goal: every cell of the tables: context, synchronization,
// aggregation, copies, and for writes tensors and numbers. Method: the tables once more in letters,
// one row for each context, copies and synchronization, and one column for each aggregation (none,
// sum, mean, first); the plain class is asked for all of them.

#include <doctest/doctest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include <troupe/strategies/variables/detail/variable_rules.hpp>

namespace {

using namespace troupe;
using namespace troupe::detail;

using act = variable_action;
using ctx = variable_context;
using sync = variable_synchronization;
using agg = variable_aggregation;
using place = variable_placement;

constexpr agg aggregations[] = {agg::none, agg::sum, agg::mean, agg::only_first_replica};
constexpr ctx contexts[] = {ctx::cross, ctx::replica, ctx::update};
constexpr place placements[] = {place::single, place::copies, place::shared};
constexpr sync synchronizations[] = {sync::on_write, sync::on_read};

/// A lower-case letter is done, an upper-case one is refused.
char letter(act of) {
  static const std::map<act, char> letters{{act::every_copy, 'e'},
                                           {act::own_copy, 'o'},
                                           {act::divide, 'd'},
                                           {act::same_on_all, 'a'},
                                           {act::sum, 's'},
                                           {act::mean, 'm'},
                                           {act::first, 'f'},
                                           {act::compared, 'c'},
                                           {act::refuse_shared, 'S'},
                                           {act::refuse_diverging, 'D'},
                                           {act::refuse_number, 'N'},
                                           {act::refuse_adding_to_sum, 'A'},
                                           {act::refuse_reading, 'R'},
                                           {act::refuse_shared_rows, 'H'},
                                           {act::refuse_rows_of_on_read, 'O'},
                                           {act::refuse_combined_rows, 'C'}};
  return letters.at(of);
}

std::string name_of_row(ctx by, place where, sync when) {
  static const char* const by_names[] = {"cross", "replica", "update"};
  static const char* const where_names[] = {"single", "copies", "shared"};
  return std::string{by_names[static_cast<int>(by)]} + " " + where_names[static_cast<int>(where)]
         + " " + std::string{to_string(when)};
}

/// A row's cells in the order of the aggregations.
template <class F>
std::string row(place where, sync when, bool may_diverge, F ask) {
  std::string out;
  for (auto how : aggregations)
    out += letter(ask(variable_rules{.synchronization = when,
                                     .aggregation = how,
                                     .placement = where,
                                     .allow_divergence = may_diverge}));
  return out;
}

using table = std::map<std::string, std::string>;

/// All rows, as the class has them.
template <class F>
table asked(bool may_diverge, F ask) {
  table out;
  for (auto by : contexts)
    for (auto where : placements)
      for (auto when : synchronizations)
        out[name_of_row(by, where, when)] =
          row(where, when, may_diverge, [&](const variable_rules& of) { return ask(of, by); });
  return out;
}

TEST_CASE("variable rules: reads, all cells") {
  const table expected{{"cross single on_write", "oooo"},   {"cross single on_read", "oooo"},
                       {"cross copies on_write", "oooo"},   {"cross copies on_read", "Rsmf"},
                       {"cross shared on_write", "oooo"},   {"cross shared on_read", "oooo"},
                       {"replica single on_write", "oooo"}, {"replica single on_read", "oooo"},
                       {"replica copies on_write", "oooo"}, {"replica copies on_read", "oooo"},
                       {"replica shared on_write", "oooo"}, {"replica shared on_read", "oooo"},
                       {"update single on_write", "oooo"},  {"update single on_read", "oooo"},
                       {"update copies on_write", "oooo"},  {"update copies on_read", "oooo"},
                       {"update shared on_write", "oooo"},  {"update shared on_read", "oooo"}};
  for (bool may_diverge : {false, true})
    CHECK(asked(may_diverge, [](const variable_rules& of, ctx by) { return of.read(by); })
          == expected);
}

/// Writes of tensors with assign; the other cases differ from it as the tests below say.
table writes_of_tensors() {
  return {{"cross single on_write", "eeee"},   {"cross single on_read", "eeee"},
          {"cross copies on_write", "eeee"},   {"cross copies on_read", "edee"},
          {"cross shared on_write", "eeee"},   {"cross shared on_read", "eeee"},
          {"replica single on_write", "oooo"}, {"replica single on_read", "oooo"},
          {"replica copies on_write", "Dsmf"}, {"replica copies on_read", "oooo"},
          {"replica shared on_write", "Ssmf"}, {"replica shared on_read", "Ssmf"},
          {"update single on_write", "oooo"},  {"update single on_read", "oooo"},
          {"update copies on_write", "oooo"},  {"update copies on_read", "oooo"},
          {"update shared on_write", "oooo"},  {"update shared on_read", "oooo"}};
}

table writes(mutation_kind kind, bool is_number, bool may_diverge) {
  return asked(may_diverge,
               [&](const variable_rules& of, ctx by) { return of.write(by, kind, is_number); });
}

TEST_CASE("variable rules: writes of tensors, all cells") {
  CHECK(writes(mutation_kind::assign, false, false) == writes_of_tensors());
  auto adding = writes_of_tensors();
  adding["cross copies on_read"] = "eAee";
  for (auto kind : {mutation_kind::assign_add, mutation_kind::assign_sub})
    CHECK(writes(kind, false, false) == adding);
}

TEST_CASE("variable rules: writes of numbers, all cells") {
  auto expected = writes_of_tensors();
  expected["replica copies on_write"] = "aNaa";
  expected["replica shared on_write"] = "SNaa";
  expected["replica shared on_read"] = "SNaa";
  CHECK(writes(mutation_kind::assign, true, false) == expected);
  expected["cross copies on_read"] = "eAee";
  for (auto kind : {mutation_kind::assign_add, mutation_kind::assign_sub})
    CHECK(writes(kind, true, false) == expected);
}

TEST_CASE("variable rules: a variable that may diverge takes each replica's own tensor, no more") {
  auto expected = writes_of_tensors();
  expected["replica copies on_write"] = "osmf";
  CHECK(writes(mutation_kind::assign, false, true) == expected);
  CHECK(writes(mutation_kind::assign, true, true) == writes(mutation_kind::assign, true, false));
}

/// Rows, with a kind that adds up.
table scattered_rows() {
  table out;
  for (auto where : {"single", "copies", "shared"}) {
    out["cross " + std::string{where} + " on_write"] = "eeee";
    out["replica " + std::string{where} + " on_write"] = "oooo";
    out["update " + std::string{where} + " on_write"] = "oooo";
    for (auto by : {"cross ", "replica ", "update "})
      out[by + std::string{where} + " on_read"] = "OOOO";
  }
  out["replica copies on_write"] = "csmf";
  out["replica shared on_write"] = "Hsmf";
  return out;
}

table scatters_of(mutation_kind kind, bool may_diverge) {
  return asked(may_diverge, [&](const variable_rules& of, ctx by) { return of.scatter(by, kind); });
}

TEST_CASE("variable rules: rows, all cells") {
  for (auto kind : {mutation_kind::scatter_add, mutation_kind::scatter_sub,
                    mutation_kind::scatter_mul, mutation_kind::scatter_div})
    CHECK(scatters_of(kind, false) == scattered_rows());
  auto extremes = scattered_rows();
  extremes["replica copies on_write"] = "cCCf";
  extremes["replica shared on_write"] = "HCCf";
  for (auto kind :
       {mutation_kind::scatter_min, mutation_kind::scatter_max, mutation_kind::scatter_update})
    CHECK(scatters_of(kind, false) == extremes);
  auto diverging = scattered_rows();
  diverging["replica copies on_write"] = "osmf";
  CHECK(scatters_of(mutation_kind::scatter_add, true) == diverging);
}

TEST_CASE("variable rules: each refusal has its own text, what is done has none") {
  std::set<std::string> texts;
  for (int i = 0; i <= static_cast<int>(act::refuse_combined_rows); ++i) {
    const auto each = static_cast<act>(i);
    const auto text = refusal_of(each, agg::mean);
    CAPTURE(letter(each));
    CHECK(text.empty() == (letter(each) >= 'a'));
    if (!text.empty())
      CHECK(texts.insert(text).second);
  }
  CHECK(texts.size() == 8);
  CHECK(refusal_of(act::refuse_combined_rows, agg::sum) == "not supported with aggregation sum");
}

TEST_CASE("variable rules: mutations go by the names of the calls") {
  CHECK(name_of(mutation_kind::assign) == std::string{"assign"});
  CHECK(name_of(mutation_kind::assign_sub) == std::string{"assign_sub"});
  CHECK(name_of(mutation_kind::scatter_update) == std::string{"scatter_update"});
  CHECK(name_of(mutation_kind::apply) == std::string{"apply"});
}

} // namespace
