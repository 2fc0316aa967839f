#include <troupe/data/autoshard.hpp>

#include <doctest/doctest.h>

#include "support.hpp"

using namespace data_test;
using strings = std::vector<std::string>;
using values = std::vector<std::int64_t>;

namespace {

using policy = autoshard_policy;

/// Files "f0", "f1", ... of `records` records "f0.0", "f0.1", ... each, as lines and TFRecords.
void make_files(fake_ports& ports, int files, int records) {
  for (int i = 0; i < files; ++i) {
    strings all;
    std::string lines;
    for (int j = 0; j < records; ++j) {
      all.push_back("f" + std::to_string(i) + "." + std::to_string(j));
      lines += all.back() + "\n";
    }
    auto digit = std::to_string(i);
    ports.storage.files["lines/f" + digit] = lines;
    ports.storage.files["records/f" + digit] = tfrecord_bytes(all);
    ports.storage.files["fixed/f" + digit] = "f" + digit + "a" + "f" + digit + "b";
  }
}

autosharded share(const dataset& x, fake_ports& ports, std::int64_t workers, std::int64_t index,
                  policy how) {
  return autoshard(x, workers, index, how, ports.context());
}

strings lines_of(const dataset& x, fake_ports& ports, std::int64_t workers, std::int64_t index,
                 policy how = policy::file) {
  return texts(share(x, ports, workers, index, how).share, ports.context());
}

failure why(const dataset& x, fake_ports& ports, std::int64_t workers, std::int64_t index,
            policy how) {
  return failure_of([&] { (void)share(x, ports, workers, index, how); });
}

dataset read_lines(const element& path) { return dataset::text_lines({text_of(path.only())}); }

} // namespace

TEST_CASE("SYNC-ASH-1 the policies' numbers, and automatic is 0") {
  CHECK(static_cast<int>(policy::off) == -1);
  CHECK(static_cast<int>(policy::automatic) == 0);
  CHECK(static_cast<int>(policy::file) == 1);
  CHECK(static_cast<int>(policy::data) == 2);
  CHECK(static_cast<int>(policy::hint) == 3);
  CHECK(policy{} == policy::automatic);
  CHECK(to_string(policy::hint) == "hint");
}

TEST_CASE("SYNC-ASH-2 SYNC-I24 10 TFRecord files, 5 workers, index 3: files 3 and 8, in order") {
  fake_ports ports;
  make_files(ports, 10, 2);
  const strings want{"f3.0", "f3.1", "f8.0", "f8.1"};
  CHECK(lines_of(dataset::tfrecords({"records/*"}), ports, 5, 3) == want);
  auto by_path = dataset::files({"records/*"}).flat_map([](const element& x) {
    return dataset::tfrecords({text_of(x.only())});
  });
  CHECK(lines_of(by_path, ports, 5, 3) == want);
  // nothing of the other workers' files is opened
  ports.storage.opened = 0;
  CHECK(lines_of(by_path, ports, 5, 3) == want);
  CHECK(ports.storage.opened == 2);
}

TEST_CASE("SYNC-ASH-2 a shuffle of the file list goes after the shard") {
  fake_ports ports;
  make_files(ports, 10, 1);
  auto data = dataset::files({"lines/*"}).shuffle(10).flat_map(read_lines);
  auto got = share(data, ports, 5, 3, policy::file);
  CHECK(got.share.describe() == "files(lines/*).shard(5, 3, full).shuffle(10).flat_map()");
  // whatever each worker draws, its files are 3 and 8
  for (int i = 0; i < 5; ++i) {
    auto lines = texts(got.share, ports.context());
    std::sort(lines.begin(), lines.end());
    CHECK(lines == strings{"f3.0", "f8.0"});
  }
  auto taken = dataset::files({"lines/*"}).shuffle(10, 1).take(6).shuffle(3, 2, false);
  CHECK(share(taken.flat_map(read_lines), ports, 2, 1, policy::file).share.describe()
        == "files(lines/*).take(6).shard(2, 1, full).shuffle(10, 1).shuffle(3, 2, "
           "same).flat_map()");
}

TEST_CASE("SYNC-ASH-3 SYNC-ASH-10 FILE without a file reader is an error that names the source") {
  fake_ports ports;
  make_files(ports, 4, 1);
  auto range = why(dataset::range(10).batch(2), ports, 2, 0, policy::file);
  CHECK(range.code == errc::not_found);
  CHECK(says(range.text, "no file reader in range(0, 10, 1)"));
  CHECK(why(dataset::from_tensors({tensor::zeros(dtype::f32, {4})}), ports, 2, 0, policy::file).code
        == errc::not_found);
  auto made = dataset::range(4).flat_map([](const element&) { return dataset::range(2); });
  CHECK(why(made, ports, 2, 0, policy::file).code == errc::not_found);
  auto half = dataset::zip(dataset::text_lines({"lines/*"}), dataset::range(9));
  CHECK(why(half, ports, 2, 0, policy::file).code == errc::not_found);
}

TEST_CASE("SYNC-ASH-4 FILE by name with fewer files than workers is an error with the numbers") {
  fake_ports ports;
  make_files(ports, 2, 5);
  for (const auto& x : {dataset::text_lines({"lines/*"}),
                        dataset::files({"lines/*"}).interleave(read_lines, 2).batch(4)}) {
    auto got = why(x, ports, 3, 0, policy::file);
    CHECK(got.code == errc::invalid_argument);
    CHECK(says(got.text, "2 files for 3 workers"));
    CHECK(says(got.text, "fewer than one per worker"));
  }
  auto enough = share(dataset::files({"lines/*"}).flat_map(read_lines), ports, 2, 1, policy::file);
  CHECK(texts(enough.share, ports.context()).size() == 5);
}

TEST_CASE("SYNC-ASH-5 interleave over 3 files, cycle 3, 2 workers: the interleave of own files") {
  fake_ports ports;
  make_files(ports, 3, 10);
  auto data = dataset::files({"lines/*"}).interleave(read_lines, 3);
  strings want_0;
  strings want_1;
  for (int j = 0; j < 10; ++j) {
    want_0.push_back("f0." + std::to_string(j));
    want_0.push_back("f2." + std::to_string(j));
    want_1.push_back("f1." + std::to_string(j));
  }
  CHECK(lines_of(data, ports, 2, 0) == want_0);
  CHECK(lines_of(data, ports, 2, 1) == want_1);
}

TEST_CASE("SYNC-ASH-6 DATA keeps every W-th element, placed before trailing prefetches") {
  fake_ports ports;
  auto data = dataset::range(7).prefetch(1).map([](const element& x) { return x; });
  auto got = share(data.prefetch(2).prefetch(3), ports, 3, 1, policy::data);
  CHECK(got.policy == policy::data);
  CHECK(got.note.empty());
  CHECK(got.share.describe()
        == "range(0, 7, 1).prefetch(1).map().shard(3, 1).prefetch(2).prefetch(3)");
  CHECK(flat(got.share, ports.context()) == values{1, 4});
}

TEST_CASE("SYNC-ASH-7 AUTO is FILE where a reader is found, else DATA and says why once") {
  fake_ports ports;
  make_files(ports, 4, 1);
  auto files = share(dataset::text_lines({"lines/*"}).batch(2), ports, 2, 1, policy::automatic);
  CHECK(files.policy == policy::file);
  CHECK(files.note.empty());
  auto range = share(dataset::range(4), ports, 2, 1, policy::automatic);
  CHECK(range.policy == policy::data);
  CHECK(says(range.note, "no file reader in range(0, 4, 1); every worker reads the whole input"));
  CHECK(flat(range.share, ports.context()) == values{1, 3});
}

TEST_CASE("SYNC part 1: AUTO with too few files falls back to DATA and reports the numbers") {
  fake_ports ports;
  make_files(ports, 2, 3);
  auto data = dataset::text_lines({"lines/*"});
  auto got = share(data, ports, 3, 2, policy::automatic);
  CHECK(got.policy == policy::data);
  CHECK(says(got.note, "2 files for 3 workers in text_lines(lines/*)"));
  CHECK(texts(got.share, ports.context()) == strings{"f0.2", "f1.2"});
  // what the storage says is no reason to fall back
  CHECK(why(dataset::text_lines({"none/*"}), ports, 3, 2, policy::automatic).code
        == errc::not_found);
}

TEST_CASE("SYNC-ASH-8 HINT fills in the dataset's own shard, which needs one element each") {
  fake_ports ports;
  auto data = dataset::range(5).shard(shard_hint, shard_hint).batch(2);
  CHECK(flat(share(data, ports, 2, 1, policy::hint).share, ports.context()) == values{1, 3});
  CHECK(flat(share(data, ports, 5, 4, policy::hint).share, ports.context()) == values{4});
  for (std::int64_t index = 0; index < 6; ++index) {
    auto few = share(data, ports, 6, index, policy::hint).share;
    auto got = failure_of([&] { few.iterate(ports.context()).next(); });
    CHECK(got.code == errc::invalid_argument);
    CHECK(says(got.text, "5 elements for 6 shards"));
  }
  auto none = why(dataset::range(5), ports, 2, 0, policy::hint);
  CHECK(none.code == errc::invalid_argument);
  CHECK(says(none.text, "no shard(shard_hint, shard_hint) in range(0, 5, 1)"));
  auto open = failure_of([&] { data.iterate(ports.context()); });
  CHECK(open.code == errc::wrong_state);
  CHECK(says(open.text, "range(0, 5, 1).shard(hint): a shard hint needs"));
  CHECK(failure_of([] { (void)dataset::range(5).shard(shard_hint, 0); }).code
        == errc::invalid_argument);
}

TEST_CASE("SYNC-ASH-9 OFF changes nothing") {
  fake_ports ports;
  auto data = dataset::range(4).batch(2).prefetch(1);
  auto got = share(data, ports, 2, 1, policy::off);
  CHECK(got.share.describe() == data.describe());
  CHECK(got.policy == policy::off);
  CHECK(flat(got.share, ports.context()) == values{0, 1, 2, 3});
}

TEST_CASE("SYNC-ASH-11 workers below 1 or an index outside are refused by name and value") {
  fake_ports ports;
  auto text_of_failure = [&](std::int64_t workers, std::int64_t index) {
    auto got = why(dataset::range(4), ports, workers, index, policy::data);
    CHECK(got.code == errc::invalid_argument);
    return got.text;
  };
  CHECK(says(text_of_failure(0, 0), "workers is 0"));
  CHECK(says(text_of_failure(2, 2), "index is 2, expected 0 to 1"));
  CHECK(says(text_of_failure(2, -1), "index is -1"));
  CHECK(
    says(why(dataset::range(4), ports, 2, 0, static_cast<policy>(9)).text, "autoshard_policy(9)"));
}

TEST_CASE("SYNC-ASH-12 SYNC-I25 zip and concatenate are shared out alike, in source order") {
  fake_ports ports;
  make_files(ports, 4, 1);
  auto lines = dataset::text_lines({"lines/*"});
  auto fixed = dataset::fixed_records({"fixed/*"}, 3);
  CHECK(lines_of(lines, ports, 2, 1) == strings{"f1.0", "f3.0"});
  CHECK(lines_of(fixed, ports, 2, 1) == strings{"f1a", "f1b", "f3a", "f3b"});
  auto both = lines.concatenate(fixed);
  CHECK(lines_of(both, ports, 2, 1) == strings{"f1.0", "f3.0", "f1a", "f1b", "f3a", "f3b"});
  auto zipped = share(dataset::zip(lines, fixed), ports, 2, 1, policy::file).share;
  auto it = zipped.iterate(ports.context());
  auto first = it.next();
  CHECK(text_of(first[0]) == "f1.0");
  CHECK(text_of(first[1]) == "f1a");
  auto second = it.next();
  CHECK(text_of(second[0]) == "f3.0");
  CHECK(text_of(second[1]) == "f1b");
  CHECK_FALSE(it.try_next());
  auto deep = dataset::files({"lines/*"})
                .interleave(read_lines, 2)
                .map([](const element& x) { return x; })
                .concatenate(dataset::files({"lines/*"}).flat_map(read_lines));
  CHECK(lines_of(deep, ports, 4, 2) == strings{"f2.0", "f2.0"});
}

TEST_CASE("autoshard: shares have positions like every dataset, and together all elements once") {
  fake_ports ports;
  make_files(ports, 5, 3);
  auto data = dataset::files({"lines/*"}).shuffle(5, 3).interleave(read_lines, 2);
  strings together;
  for (std::int64_t w = 0; w < 2; ++w) {
    auto own = share(data, ports, 2, w, policy::file).share;
    auto all = texts(own, ports.context());
    together.insert(together.end(), all.begin(), all.end());
    auto it = own.iterate(ports.context());
    it.next();
    it.next();
    auto other = own.iterate(ports.context());
    other.restore_position(it.save_position());
    CHECK(text_of(other.next()[0]) == all[2]);
  }
  std::sort(together.begin(), together.end());
  auto want = texts(data, ports.context());
  std::sort(want.begin(), want.end());
  CHECK(together == want);
}
