#include <doctest/doctest.h>

#include <troupe/data/distributed_input.hpp>

#include "support.hpp"

using namespace data_test;

// Goal: a position is exact in every way of cutting, damage is seen, and under DATA a position
// holds for a group of another size. Method: save before every step, restore elsewhere, compare the
// rest.

namespace {

using policy = autoshard_policy;
using rows = std::vector<std::vector<std::int64_t>>;

struct setting {
  pipeline_options options{};
  dataset data{};
};

rows rest_of(pipeline_pieces& input, std::size_t max = 1000) {
  rows out;
  while (out.size() < max) {
    auto step = input.next();
    if (!step.has_data)
      break;
    for (const auto& x : step.pieces) {
      out.push_back(x.empty() ? std::vector<std::int64_t>{} : values_of<std::int64_t>(x.data[0]));
      for (auto row : x.global_rows)
        out.back().push_back(static_cast<std::int64_t>(row) + 1000);
    }
  }
  return out;
}

pipeline_options at(std::int64_t worker, std::int64_t workers, std::int64_t replicas) {
  pipeline_options out;
  out.workers = workers;
  out.worker = worker;
  out.replicas = replicas;
  return out;
}

/// Every way of cutting, on worker 0 or 1.
std::vector<setting> settings() {
  std::vector<setting> out;
  auto known = dataset::range(23).shuffle(23).batch(5);
  auto unknown = known.map([](const element& x) { return x; });
  for (auto how : {policy::off, policy::data})
    for (auto rule : {split::stream, split::even})
      for (const auto& data : {known, unknown})
        for (bool rebatch : {true, false})
          for (std::int64_t workers : {1, 2, 3}) {
            auto x = at(workers - 1, workers, 2);
            x.policy = how;
            x.rule = rule;
            x.rebatch = rebatch;
            out.push_back({x, data});
          }
  auto weighted = at(1, 2, 2);
  weighted.policy = policy::off;
  weighted.weights = {1, 5, 2, 1};
  out.push_back({weighted, known});
  weighted.policy = policy::data;
  out.push_back({weighted, unknown});
  return out;
}

} // namespace

TEST_CASE("input: the position before every step is exact, in every way of cutting and pass") {
  for (const auto& x : settings()) {
    fake_ports ports;
    pipeline_pieces input{x.data, x.options, ports.context()};
    for (std::uint64_t pass : {0, 3}) {
      input.start_pass(pass);
      for (bool more = true; more;) {
        auto position = input.save();
        fake_ports others{777};
        pipeline_pieces one{x.data, x.options, others.context()};
        pipeline_pieces two{x.data, x.options, others.context()};
        one.restore(position);
        two.restore(position);
        CHECK(one.pass() == pass);
        CHECK(one.save() == position);
        auto first = two.next();
        auto rest = rest_of(one);
        more = first.has_data;
        CHECK(more == !rest.empty());
        auto here = input.next();
        CHECK(here.has_data == more);
        for (std::size_t r = 0; more && r < here.pieces.size(); ++r) {
          CHECK(here.pieces[r].data == first.pieces[r].data);
          CHECK(here.pieces[r].global_rows == first.pieces[r].global_rows);
        }
        // the rest of this one from here on is the restored one's
        auto again = input.save();
        rows want(rest.begin() + (more ? static_cast<std::ptrdiff_t>(here.pieces.size()) : 0),
                  rest.end());
        CHECK(rest_of(input) == want);
        input.restore(again);
      }
    }
  }
}

TEST_CASE("input: under DATA another group goes on with the first rows that none has taken") {
  for (auto rule : {split::stream, split::even}) {
    auto data = dataset::range(50).shuffle(50).batch(6);
    struct group {
      std::int64_t workers;
      std::int64_t replicas;
      std::vector<std::uint32_t> weights{};
    };
    const std::vector<group> groups{{2, 1}, {3, 1}, {2, 2, {1, 2, 3, 4}}, {1, 1}, {1, 2}};
    std::string position;
    std::vector<std::int64_t> seen;
    for (std::size_t g = 0; g < groups.size(); ++g) {
      std::string next;
      for (std::int64_t w = 0; w < groups[g].workers; ++w) {
        fake_ports ports{static_cast<std::uint64_t>(100 + w)};
        auto options = at(w, groups[g].workers, groups[g].replicas);
        options.policy = policy::data;
        options.rule = rule;
        options.weights = groups[g].weights;
        options.shared_seed = 7;
        pipeline_pieces input{data, options, ports.context()};
        if (!position.empty())
          input.restore(position);
        // two steps of each group, the last one to the end
        for (int step = 0; step < 2 || g + 1 == groups.size(); ++step) {
          auto got = input.next();
          if (!got.has_data)
            break;
          for (const auto& x : got.pieces)
            if (!x.empty())
              for (auto v : values_of<std::int64_t>(x.data[0]))
                seen.push_back(v);
        }
        if (w > 0)
          CHECK(input.save() == next); // workers agree
        next = input.save();
      }
      position = next;
    }
    CHECK(seen.size() == 50);
    std::sort(seen.begin(), seen.end());
    for (std::size_t i = 0; i < seen.size(); ++i)
      CHECK(seen[i] == static_cast<std::int64_t>(i));
  }
}

TEST_CASE("input: positions of other settings or data are refused, and nothing changes") {
  fake_ports ports;
  auto data = dataset::range(20).batch(4);
  auto off = at(0, 2, 1);
  off.policy = policy::off;
  pipeline_pieces input{data, off, ports.context()};
  (void)input.next();
  auto position = input.save();
  auto other_worker = off;
  other_worker.worker = 1;
  pipeline_pieces other{data, other_worker, ports.context()};
  (void)other.next();
  auto why = failure_of([&] { other.restore(position); });
  CHECK(why.code == errc::mismatch);
  CHECK(says(why.text, "worker 1 of 2 with 1 replicas"));
  CHECK(values_of<std::int64_t>(other.next().pieces[0].data[0]) == std::vector<std::int64_t>{2, 3});
  auto even = off;
  even.rule = split::even;
  pipeline_pieces evenly{data, even, ports.context()};
  CHECK(failure_of([&] { evenly.restore(position); }).code == errc::mismatch);
  pipeline_pieces longer{dataset::range(24).batch(4), off, ports.context()};
  CHECK(failure_of([&] { longer.restore(position); }).code == errc::mismatch);
}

TEST_CASE("input: a position cut or changed anywhere is refused as corrupt") {
  fake_ports ports;
  auto x = settings()[13];
  pipeline_pieces input{x.data, x.options, ports.context()};
  (void)input.next();
  auto whole = input.save();
  for (std::size_t n = 0; n < whole.size(); ++n) {
    CHECK(failure_of([&] { input.restore(whole.substr(0, n)); }).code == errc::corrupt);
    auto changed = whole;
    changed[n] = static_cast<char>(changed[n] ^ 0x11);
    CHECK(failure_of([&] { input.restore(changed); }).code == errc::corrupt);
  }
  input.restore(whole);
  CHECK(input.save() == whole);
}

TEST_CASE("input: after an error there is no position, and it throws the same until restored") {
  fake_ports ports;
  int calls = 0;
  auto data = dataset::range(8).batch(2).map([&](const element& x) {
    if (++calls == 3)
      throw_failure(errc::user_code, "third");
    return x;
  });
  pipeline_pieces input{data, at(0, 1, 2), ports.context()};
  (void)input.next();
  auto position = input.save();
  (void)input.next();
  CHECK(failure_of([&] { (void)input.next(); }).text == "third");
  CHECK(failure_of([&] { (void)input.next(); }).text == "third");
  CHECK(calls == 3);
  CHECK(failure_of([&] { (void)input.save(); }).code == errc::wrong_state);
  input.restore(position);
  CHECK(values_of<std::int64_t>(input.next().pieces[1].data[0]) == std::vector<std::int64_t>{3});
  input.start_pass(0);
  CHECK(values_of<std::int64_t>(input.next().pieces[0].data[0]) == std::vector<std::int64_t>{0});
}

TEST_CASE("iterator: a position holds the pass, and passes differ as the shuffles say") {
  fake_ports ports;
  auto data = dataset::range(16).shuffle(16);
  auto it = data.iterate(ports.context());
  auto first = drain(it);
  it.start_pass(1);
  CHECK(it.pass() == 1);
  CHECK(it.delivered() == 0);
  it.next();
  auto position = it.save_position();
  auto rest = drain(it);
  it.start_pass(0);
  CHECK(drain(it) == first);
  it.restore_position(position);
  CHECK(it.pass() == 1);
  CHECK(it.delivered() == 1);
  CHECK(drain(it) == rest);
  CHECK(rest != std::vector<std::vector<std::int64_t>>(first.begin() + 1, first.end()));
}
