#include <troupe/data/idx.hpp>

#include <doctest/doctest.h>

#include "support.hpp"

using namespace data_test;

namespace {

result<tensor> parse(const std::string& bytes) { return parse_idx(bytes_of(bytes), "some.idx"); }

/// Checks that both the plain and the gzipped form are refused as `corrupt`, naming the file and
/// `part`.
void check_refused(const std::string& bytes, const std::string& part) {
  for (const auto& file : {bytes, gzipped(bytes)}) {
    auto got = parse(file);
    REQUIRE_FALSE(got);
    CHECK(got.error().code == errc::corrupt);
    CHECK_MESSAGE(says(got.error().text, "some.idx"), got.error().text);
    CHECK_MESSAGE(says(got.error().text, part), got.error().text);
  }
}

} // namespace

TEST_CASE("idx: every element type of the format is read, plain and gzipped") {
  struct sample {
    std::uint8_t code;
    std::string data;
    tensor want;
  };
  auto text = [](std::initializer_list<int> xs) {
    std::string out;
    for (auto x : xs)
      out.push_back(static_cast<char>(x));
    return out;
  };
  const std::vector<sample> samples{
    {0x08, text({1, 255}), tensor::vector<std::uint8_t>({1, 255})},
    {0x09, text({1, 255}), tensor::vector<std::int8_t>({1, -1})},
    {0x0b, text({1, 2, 255, 254}), tensor::vector<std::int32_t>({258, -2})},
    {0x0c, text({0, 1, 0, 0, 255, 255, 255, 255}), tensor::vector<std::int32_t>({65536, -1})},
    {0x0d, text({0x3f, 0x80, 0, 0, 0xc0, 0, 0, 0}), tensor::vector<float>({1.0f, -2.0f})},
    {0x0e, text({0x3f, 0xf0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}),
     tensor::vector<double>({1.0, 0.0})},
  };
  for (const auto& x : samples) {
    auto file = idx_bytes(x.code, {2}, x.data);
    for (const auto& form : {file, gzipped(file)}) {
      auto got = parse(form);
      REQUIRE(got);
      CHECK(*got == x.want);
    }
  }
}

TEST_CASE("idx: an array larger than a block, of several gzip members, comes out whole") {
  std::string data;
  for (int i = 0; i < 3'000'000; ++i)
    data.push_back(static_cast<char>(i * 7));
  auto file = idx_bytes(0x08, {3000, 1000}, data);
  auto got = parse(gzipped(file.substr(0, 1'234'567)) + gzipped(file.substr(1'234'567)));
  REQUIRE(got);
  CHECK(got->shape() == shape_t{3000, 1000});
  CHECK(std::memcmp(got->bytes().data(), data.data(), data.size()) == 0);
}

TEST_CASE("idx: no rows and a scalar are arrays too") {
  auto none = parse(idx_bytes(0x08, {0, 28}, ""));
  REQUIRE(none);
  CHECK(none->shape() == shape_t{0, 28});
  auto scalar = parse(idx_bytes(0x08, {}, "x"));
  REQUIRE(scalar);
  CHECK(scalar->item<std::uint8_t>() == 'x');
}

TEST_CASE("idx: bad headers and lengths name the file, the field and the value") {
  auto good = idx_bytes(0x08, {2, 3}, "abcdef");
  REQUIRE(parse(good));
  check_refused("", "magic is truncated: 0 of 4");
  check_refused(good.substr(0, 3), "magic is truncated: 3 of 4");
  check_refused("\x01" + good.substr(1), "magic begins with 256");
  check_refused(idx_bytes(0x0a, {2}, "ab"), "type code 10");
  check_refused(good.substr(0, 10), "extent 1 is truncated: 2 of 4");
  check_refused(idx_bytes(0x08, std::vector<std::uint32_t>(17, 1), "a"), "rank 17");
  check_refused(idx_bytes(0x08, {0xffffffff, 0xffffffff, 0xffffffff}, "a"), "overflow");
  check_refused(good.substr(0, good.size() - 1), "data is truncated: 5 of 6");
  check_refused(good + "g", "bytes after the array of 6 bytes");
}

TEST_CASE("idx: extents that promise terabytes cost no more than the file holds") {
  // 2^46 bytes are a sane shape, so only the data that doesn't come can refuse it; allocating it
  // would fail loudly.
  check_refused(idx_bytes(0x08, {1u << 31, 1u << 15}, std::string(5'000'000, 'a')),
                "data is truncated: ");
}

TEST_CASE("idx: a gzip file cut anywhere, or with a broken check sum, is refused") {
  auto whole = gzipped(idx_bytes(0x08, {4, 5}, "abcdefghijklmnopqrst"));
  REQUIRE(parse(whole));
  for (std::size_t n = 2; n < whole.size(); ++n) {
    auto got = parse(whole.substr(0, n));
    REQUIRE_FALSE(got);
    CHECK(got.error().code == errc::corrupt);
    CHECK_MESSAGE(says(got.error().text, "some.idx"), got.error().text);
  }
  auto broken = whole;
  broken[broken.size() - 6] ^= 1; // of the CRC
  CHECK_FALSE(parse(broken));
  auto got = parse(whole + "junk");
  REQUIRE_FALSE(got);
  CHECK_MESSAGE(says(got.error().text, "4 bytes after the end"), got.error().text);
}

TEST_CASE("idx: any single changed byte of a gzip file is refused or harmless") {
  auto plain = idx_bytes(0x08, {4, 5}, "abcdefghijklmnopqrst");
  auto whole = gzipped(plain);
  auto want = *parse(plain);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    auto file = whole;
    file[i] = static_cast<char>(file[i] ^ 0x41);
    if (auto got = parse(file))
      CHECK(*got == want); // a time stamp or a system name in the header
  }
}

TEST_CASE("idx: a missing file is not_found and named") {
  memory_storage storage;
  auto got = read_idx(storage, "/no/such.gz");
  REQUIRE_FALSE(got);
  CHECK(got.error().code == errc::not_found);
  CHECK(says(got.error().text, "/no/such.gz"));
}

TEST_CASE("idx: two files with different row counts are refused, naming both") {
  fake_ports ports;
  ports.storage.files["images"] = idx_bytes(0x08, {3, 2}, "abcdef");
  ports.storage.files["labels"] = gzipped(idx_bytes(0x08, {2}, "xy"));
  auto why = failure_of([&] { dataset::idx("images", "labels").iterate(ports.context()); });
  CHECK(why.code == errc::mismatch);
  CHECK(says(why.text, "labels: 2 rows"));
  CHECK(says(why.text, "3 in images"));
  ports.storage.files["labels"] = idx_bytes(0x08, {3}, "xyz");
  auto it = dataset::idx("images", "labels").iterate(ports.context());
  it.next();
  auto second = it.next();
  CHECK(second.images() == tensor::vector<std::uint8_t>({'c', 'd'}));
  CHECK(second.labels() == tensor::scalar<std::uint8_t>('y'));
}

TEST_CASE("idx: a gzipped file is decoded once a dataset, and a plain file is read anew") {
  fake_ports ports;
  ports.storage.files["a"] = gzipped(idx_bytes(0x08, {2}, "ab"));
  auto data = dataset::idx("a");
  data.iterate(ports.context());
  auto first = data.iterate(ports.context()).next().only();
  auto again = data.iterate(ports.context()).next().only();
  CHECK(first.bytes().data() == again.bytes().data());
  ports.storage.files["a"] = gzipped(idx_bytes(0x08, {2}, "cd"));
  CHECK(data.iterate(ports.context()).next().item<std::uint8_t>() == 'c');
  ports.storage.files["a"] = idx_bytes(0x08, {2}, "ef");
  CHECK(data.iterate(ports.context()).next().item<std::uint8_t>() == 'e');
  ports.storage.files["a"] = idx_bytes(0x08, {2}, "gh");
  CHECK(data.iterate(ports.context()).next().item<std::uint8_t>() == 'g');
}
