#include <doctest/doctest.h>

#include <functional>

#include <troupe/data/idx.hpp>
#include <troupe/data/npy.hpp>

#include "zip_support.hpp"

using namespace data_test;

// Goal: a broken file of any format ends in a clean error, never in a crash, a hang, or memory that
// the file cannot account for. Method: a small sound file, cut at every offset and with every byte
// changed in several ways. Run under the sanitizers too.

namespace {

using attempt = std::function<failure(const std::string&)>;

/// The failure that reading ends in; code `none` when the bytes are read all the same.
attempt through(std::function<dataset()> make) {
  return [make = std::move(make)](const std::string& bytes) {
    fake_ports ports;
    ports.storage.files["file"] = bytes;
    return failure_of([&] {
      auto it = make().iterate(ports.context());
      while (it.try_next()) {
      }
    });
  };
}

bool is_clean(const failure& x) {
  return x.code == errc::corrupt || x.code == errc::invalid_argument || x.code == errc::not_found
         || x.code == errc::shape_mismatch;
}

struct counts {
  int cut = 0;
  int cut_refused = 0;
  int changed = 0;
  int changed_refused = 0;
};

counts torture(const std::string& whole, const attempt& read) {
  REQUIRE_MESSAGE(read(whole).code == errc::none, read(whole).text);
  counts out;
  auto try_one = [&](const std::string& bytes, int& tried, int& refused) {
    auto why = read(bytes);
    ++tried;
    if (why.code == errc::none)
      return;
    ++refused;
    CHECK_MESSAGE(is_clean(why), to_string(why));
    CHECK_MESSAGE(says(why.text, "file"), why.text);
  };
  for (std::size_t n = 0; n < whole.size(); ++n)
    try_one(whole.substr(0, n), out.cut, out.cut_refused);
  for (std::size_t at = 0; at < whole.size(); ++at)
    for (int mask : {0x01, 0x10, 0x80, 0xff}) {
      auto bytes = whole;
      bytes[at] = static_cast<char>(bytes[at] ^ mask);
      try_one(bytes, out.changed, out.changed_refused);
    }
  return out;
}

std::string small_npy() { return npy_bytes(npy_header("<i4", "(2, 2)"), std::string(16, 'x')); }

} // namespace

TEST_CASE("robustness: TFRecord files, where no cut inside a record and no change passes") {
  auto got = torture(tfrecord_bytes({"abc", "", "defg"}),
                     through([] { return dataset::tfrecords({"file"}); }));
  CHECK(got.cut_refused == got.cut - 3); // a file may end between records
  CHECK(got.changed_refused == got.changed);
}

TEST_CASE("robustness: npy files, where no cut passes") {
  auto got = torture(small_npy(), through([] { return dataset::npy({"file"}); }));
  CHECK(got.cut_refused == got.cut);
  CHECK(got.changed_refused > got.changed / 2);
}

TEST_CASE("robustness: npz files, where no cut passes and no change of the data does") {
  auto read = through([] { return dataset::npz("file"); });
  for (bool zip64 : {false, true}) {
    auto whole =
      zip_bytes({{"a.npy", small_npy(), false, zip64}, {"b.npy", small_npy(), true, zip64}});
    auto got = torture(whole, read);
    CHECK(got.cut_refused == got.cut);
    CHECK(got.changed_refused > got.changed / 2);
    auto begin = whole.find("NUMPY") - 1;
    for (auto at = begin; at < begin + small_npy().size(); ++at) {
      auto bytes = whole;
      bytes[at] = static_cast<char>(bytes[at] ^ 0x20);
      CHECK(read(bytes).code == errc::corrupt);
    }
  }
}

TEST_CASE("robustness: IDX files, plain and gzipped, where no cut passes") {
  auto plain = idx_bytes(0x08, {3, 2}, "abcdef");
  auto read = through([] { return dataset::idx("file"); });
  CHECK(torture(plain, read).cut_refused == static_cast<int>(plain.size()));
  auto packed = gzipped(plain);
  auto got = torture(packed, read);
  CHECK(got.cut_refused == got.cut);
}

TEST_CASE("robustness: fixed records, where only cuts between records pass") {
  auto got =
    torture("HEADaabbccFF", through([] { return dataset::fixed_records({"file"}, 2, 4, 2); }));
  CHECK(got.cut == 12);
  CHECK(got.cut_refused == 12 - 3); // 6, 8 and 10 bytes hold 0, 1 and 2 records
}

TEST_CASE("robustness: CSV text, cut and changed anywhere") {
  csv_options options{.columns = {{"a", dtype::i32, std::nullopt}, {"b", dtype::f32, "0"}}};
  auto got = torture("a,b,\"c\"\n1,2.5,\"x\"\"y\"\n3,,z\n",
                     through([&] { return dataset::csv({"file"}, options); }));
  CHECK(got.cut_refused > got.cut / 2);
  CHECK(got.changed_refused > 0);
}
