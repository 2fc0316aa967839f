#include <troupe/data/iterator.hpp>

#include <doctest/doctest.h>

#include <functional>

#include <troupe/core/random.hpp>

#include "support.hpp"

// Random pipelines against a naive model that works on whole lists: no streams, no positions. Then
// every position of every pipeline is saved and restored into a fresh iterator, whose elements must
// be those that followed.

using namespace data_test;

namespace {

struct part {
  bool batched = false;
  std::vector<std::int64_t> values{};
  friend bool operator==(const part&, const part&) = default;
};
using item = std::vector<part>;
using items = std::vector<item>;
/// All items of one pass, by its number; an endless pass is cut at `endless_len`.
using model = std::function<items(std::uint64_t pass)>;

constexpr std::size_t endless_len = 3000;
constexpr std::size_t compared_len = 24; // so far from the cut that no operation here sees it
constexpr std::size_t steps_len = 60;

struct pipeline {
  dataset data{};
  model naive{};
  bool batched = false;
  bool endless = false;
  int parts = 1;
};

item item_of(const element& x) {
  item out;
  for (const auto& t : x)
    out.push_back({t.rank() == 1, values_of<std::int64_t>(t)});
  return out;
}

items shuffled(items in, std::size_t buffer_max, std::uint64_t seed) {
  prng random{seed};
  items buffer;
  items out;
  std::size_t taken = 0;
  for (;;) {
    while (buffer.size() < buffer_max && taken < in.size())
      buffer.push_back(in[taken++]);
    if (buffer.empty())
      return out;
    auto at = random.below(buffer.size());
    out.push_back(buffer[at]);
    buffer[at] = buffer.back();
    buffer.pop_back();
  }
}

items repeated(const model& in, std::uint64_t pass, std::optional<std::uint64_t> rounds) {
  items out;
  for (std::uint64_t round = 0; rounds ? round < *rounds : out.size() < endless_len; ++round) {
    auto more = in(derive_seed(pass, round));
    if (more.empty())
      break;
    out.insert(out.end(), more.begin(), more.end());
  }
  return out;
}

items strided(const items& in, std::size_t first, std::size_t step) {
  items out;
  for (auto i = first; i < in.size(); i += step)
    out.push_back(in[i]);
  return out;
}

items batched(const items& in, std::size_t size, bool drop) {
  items out;
  for (std::size_t i = 0; i < in.size(); i += size) {
    auto n = std::min(size, in.size() - i);
    if (drop && n < size)
      break;
    item x(in[i].size(), part{true, {}});
    for (auto k = i; k < i + n; ++k)
      for (std::size_t p = 0; p < x.size(); ++p)
        x[p].values.push_back(in[k][p].values[0]);
    out.push_back(std::move(x));
  }
  return out;
}

items tripled(items in) {
  for (auto& x : in)
    for (auto& p : x)
      for (auto& v : p.values)
        v = 3 * v + 1;
  return in;
}

element triple(const element& x) {
  std::vector<tensor> parts;
  for (const auto& t : x) {
    auto out = t.clone();
    for (auto& v : out.mutable_as<std::int64_t>())
      v = 3 * v + 1;
    parts.push_back(std::move(out));
  }
  return element{std::move(parts)};
}

items zipped(const items& a, const items& b) {
  items out;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
    out.push_back(a[i]);
    out.back().insert(out.back().end(), b[i].begin(), b[i].end());
  }
  return out;
}

pipeline source(prng& random) {
  auto begin = static_cast<std::int64_t>(random.below(5));
  auto count = static_cast<std::int64_t>(random.below(8) == 0 ? 0 : random.below(25));
  items all;
  for (std::int64_t i = 0; i < count; ++i)
    all.push_back({part{false, {begin + i}}});
  return {dataset::range(begin, begin + count), [all](std::uint64_t) { return all; }};
}

/// One more operation of those that choose and order elements.
pipeline reordered(const pipeline& x, prng& random) {
  auto in = x.naive;
  auto out = x;
  auto n = random.below(6);
  auto count = static_cast<std::int64_t>(n);
  switch (random.below(6)) {
    case 0: {
      auto seed = random.below(1000);
      auto reshuffle = random.below(3) > 0;
      auto buffer = n == 5 ? 100 : n + 1;
      out.data = x.data.shuffle(static_cast<std::int64_t>(buffer), seed, reshuffle);
      out.naive = [=](std::uint64_t pass) {
        return shuffled(in(pass), buffer, derive_seed(seed, reshuffle ? pass : 0));
      };
      break;
    }
    case 1:
      if (!x.endless) {
        out.data = x.data.repeat(count);
        out.naive = [=](std::uint64_t pass) { return repeated(in, pass, n); };
      }
      break;
    case 2:
      if (!x.endless) {
        out.data = x.data.repeat();
        out.naive = [=](std::uint64_t pass) { return repeated(in, pass, std::nullopt); };
        out.endless = true;
      }
      break;
    case 3:
      out.data = x.data.take(3 * count);
      out.naive = [=](std::uint64_t pass) {
        auto all = in(pass);
        all.resize(std::min<std::size_t>(all.size(), 3 * n));
        return all;
      };
      out.endless = false;
      break;
    case 4:
      out.data = x.data.skip(count);
      out.naive = [=](std::uint64_t pass) { return strided(in(pass), n, 1); };
      break;
    default: {
      auto index = random.below(2);
      out.data = x.data.shard(2, static_cast<std::int64_t>(index));
      out.naive = [=](std::uint64_t pass) { return strided(in(pass), index, 2); };
      break;
    }
  }
  return out;
}

/// One more operation of those that make other elements.
pipeline transformed(const pipeline& x, prng& random) {
  auto in = x.naive;
  auto out = x;
  auto n = random.below(6);
  auto count = static_cast<std::int64_t>(n);
  switch (random.below(x.batched ? 3 : 4)) {
    case 0:
      out.data = x.data.map(triple);
      out.naive = [=](std::uint64_t pass) { return tripled(in(pass)); };
      break;
    case 1:
      out.data = x.data.concatenate(x.data.take(count)).prefetch(2);
      out.naive = [=](std::uint64_t pass) {
        auto all = in(pass);
        auto head = all;
        head.resize(std::min<std::size_t>(head.size(), n));
        all.insert(all.end(), head.begin(), head.end());
        return all;
      };
      break;
    case 2:
      if (x.parts == 1) {
        out.data = dataset::zip(x.data, x.data.skip(count));
        out.naive = [=](std::uint64_t pass) {
          auto all = in(pass);
          return zipped(all, strided(all, n, 1));
        };
        out.parts = 2;
      }
      break;
    default: {
      auto drop = random.below(2) == 0;
      out.data = x.data.batch(count + 1, drop);
      out.naive = [=](std::uint64_t pass) { return batched(in(pass), n + 1, drop); };
      out.batched = true;
      break;
    }
  }
  return out;
}

pipeline extended(const pipeline& x, prng& random) {
  return random.below(10) < 6 ? reordered(x, random) : transformed(x, random);
}

pipeline random_pipeline(prng& random) {
  auto out = source(random);
  for (auto n = 1 + random.below(5); n > 0; --n)
    out = extended(out, random);
  return out;
}

items next_items(dataset_iterator& it, std::size_t max) {
  items out;
  while (out.size() < max) {
    auto x = it.try_next();
    if (!x)
      break;
    out.push_back(item_of(*x));
  }
  return out;
}

} // namespace

TEST_CASE("iterator: random pipelines yield what a naive model of whole lists yields") {
  prng random{20240611};
  std::size_t with_items = 0;
  for (int round = 0; round < 800; ++round) {
    auto x = random_pipeline(random);
    fake_ports ports;
    auto it = x.data.iterate(ports.context());
    auto want = x.naive(0);
    want.resize(std::min(want.size(), compared_len));
    auto got = next_items(it, compared_len);
    INFO(x.data.describe());
    REQUIRE(got == want);
    with_items += got.empty() ? 0 : 1;
  }
  CHECK(with_items > 400);
}

TEST_CASE("iterator: a position saved at any step restores the same continuation") {
  prng random{77};
  for (int round = 0; round < 200; ++round) {
    auto x = random_pipeline(random);
    fake_ports ports;
    auto it = x.data.iterate(ports.context());
    std::vector<std::string> positions{it.save_position()};
    items all;
    while (all.size() < steps_len) {
      auto next = next_items(it, 1);
      positions.push_back(it.save_position());
      if (next.empty())
        break;
      all.push_back(next[0]);
    }
    INFO(x.data.describe());
    for (std::size_t i = 0; i < positions.size(); ++i) {
      auto other = x.data.iterate(ports.context());
      next_items(other, random.below(4)); // wherever it stood before
      other.restore_position(positions[i]);
      REQUIRE(other.save_position() == positions[i]);
      auto from = std::min(i, all.size());
      auto want = items(all.begin() + static_cast<std::ptrdiff_t>(from), all.end());
      REQUIRE(next_items(other, want.size()) == want);
    }
  }
}

TEST_CASE("iterator: a restored iterator keeps the seeds it drew, with another random port") {
  fake_ports here{1};
  fake_ports there{500};
  auto data = dataset::zip(dataset::range(40).shuffle(40).repeat(),
                           dataset::range(30).map(triple).shuffle(7).repeat());
  auto it = data.iterate(here.context());
  next_items(it, 55);
  auto other = data.iterate(there.context());
  other.restore_position(it.save_position());
  CHECK(next_items(other, 100) == next_items(it, 100));
  CHECK(there.random.draws == 2);
  CHECK(other.delivered() == 155);
}

TEST_CASE("iterator: restoring a shuffle maps only what lies in its buffer") {
  fake_ports ports;
  int calls = 0;
  auto data = dataset::range(1000)
                .map([&](const element& x) {
                  ++calls;
                  return x;
                })
                .shuffle(10);
  auto it = data.iterate(ports.context());
  next_items(it, 600);
  auto position = it.save_position();
  CHECK(position.size() < 200);
  auto other = data.iterate(ports.context());
  calls = 0;
  other.restore_position(position);
  CHECK(calls <= 10);
  CHECK(next_items(other, 1000) == next_items(it, 1000));
}

TEST_CASE(
  "iterator: a position that is cut, changed or of another dataset is refused and changes "
  "nothing") {
  fake_ports ports;
  auto data = dataset::range(20).shuffle(5).repeat(3).batch(4);
  auto it = data.iterate(ports.context());
  next_items(it, 3);
  auto position = it.save_position();
  auto twin = data.iterate(ports.context());
  twin.restore_position(position);
  for (std::size_t n = 0; n < position.size(); ++n)
    CHECK(failure_of([&] { it.restore_position(position.substr(0, n)); }).code == errc::corrupt);
  for (std::size_t i = 0; i < position.size(); ++i) {
    auto changed = position;
    changed[i] = static_cast<char>(changed[i] ^ 0x10);
    CHECK(failure_of([&] { it.restore_position(changed); }).code == errc::corrupt);
  }
  CHECK(failure_of([&] { it.restore_position(position + "x"); }).code == errc::corrupt);
  auto other = dataset::range(21).shuffle(5).repeat(3).batch(4).iterate(ports.context());
  auto why = failure_of([&] { other.restore_position(position); });
  CHECK(why.code == errc::mismatch);
  CHECK(says(why.text, "range(0, 21, 1)"));
  CHECK(it.save_position() == position);
  CHECK(next_items(it, 100) == next_items(twin, 100));
}

TEST_CASE("iterator: a position past the rows of a file that shrank is refused") {
  fake_ports ports;
  ports.storage.files["a"] = idx_bytes(0x0c, {4}, std::string(16, '\0'));
  auto data = dataset::idx("a");
  auto it = data.iterate(ports.context());
  for (int i = 0; i < 4; ++i)
    it.next();
  auto position = it.save_position();
  ports.storage.files["a"] = idx_bytes(0x0c, {3}, std::string(12, '\0'));
  auto why = failure_of([&] { it.restore_position(position); });
  CHECK(why.code == errc::corrupt);
  CHECK(says(why.text, "row is 4, at most 3 expected"));
}

TEST_CASE("iterator: one that belongs to no dataset says so") {
  dataset_iterator it;
  CHECK(failure_of([&] { it.next(); }).code == errc::wrong_state);
  CHECK(failure_of([&] { (void)it.save_position(); }).code == errc::wrong_state);
}
