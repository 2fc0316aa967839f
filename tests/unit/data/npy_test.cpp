#include <troupe/data/npy.hpp>

#include <doctest/doctest.h>

#include <cstdio>

#include "zip_support.hpp"

using namespace data_test;

namespace {

result<tensor> parse(const std::string& file) { return parse_npy(bytes_of(file), "some.npy"); }

void check_refused(const std::string& file, errc code, const std::string& part) {
  auto got = parse(file);
  REQUIRE_FALSE(got);
  CHECK(got.error().code == code);
  CHECK_MESSAGE(says(got.error().text, "some.npy"), got.error().text);
  CHECK_MESSAGE(says(got.error().text, part), got.error().text);
}

template <class T>
std::string raw(std::initializer_list<T> xs) {
  return {reinterpret_cast<const char*>(xs.begin()), xs.size() * sizeof(T)};
}

} // namespace

TEST_CASE("npy: every element type that Troupe has is read, in all three versions") {
  struct sample {
    std::string descr;
    std::string data;
    dtype type;
  };
  const std::vector<sample> samples{
    {"|u1", raw<std::uint8_t>({1, 255}), dtype::u8},
    {"|i1", raw<std::int8_t>({1, -1}), dtype::i8},
    {"<i4", raw<std::int32_t>({1, -2}), dtype::i32},
    {"<i8", raw<std::int64_t>({1, INT64_MIN}), dtype::i64},
    {"<f2", raw<std::uint16_t>({0x3c00, 0x4000}), dtype::f16},
    {"|V2", raw<std::uint16_t>({0x3f80, 0x4000}), dtype::bf16},
    {"bfloat16", raw<std::uint16_t>({0x3f80, 0x4000}), dtype::bf16},
    {"<f4", raw<float>({1.5f, -2.0f}), dtype::f32},
    {"=f8", raw<double>({1.5, -2.0}), dtype::f64},
  };
  for (const auto& x : samples)
    for (int major : {1, 2, 3}) {
      auto got = parse(npy_bytes(npy_header(x.descr, "(2,)"), x.data, major));
      REQUIRE_MESSAGE(got, x.descr);
      CHECK(got->type() == x.type);
      CHECK(got->shape() == shape_t{2});
      CHECK(std::memcmp(got->bytes().data(), x.data.data(), x.data.size()) == 0);
    }
}

TEST_CASE("npy: big-endian elements are turned, and shapes of any rank are kept") {
  auto got =
    parse(npy_bytes(npy_header(">i4", "(1, 2)"), std::string("\0\0\1\2\377\377\377\376", 8)));
  REQUIRE(got);
  CHECK(*got == tensor::of<std::int32_t>({1, 2}, {258, -2}));
  auto scalar = parse(npy_bytes(npy_header("<f4", "()"), raw<float>({3.0f})));
  REQUIRE(scalar);
  CHECK(scalar->item<float>() == 3.0f);
  auto none = parse(npy_bytes(npy_header("<f4", "(0, 7)"), ""));
  REQUIRE(none);
  CHECK(none->shape() == shape_t{0, 7});
  auto old =
    parse(npy_bytes("{\"shape\": (2L,), \"fortran_order\": False, \"descr\": \"|u1\"}", "ab"));
  REQUIRE(old);
  CHECK(old->shape() == shape_t{2});
}

TEST_CASE("npy: what is not read says which field and value it was") {
  check_refused("\x93NUMPX", errc::corrupt, "6 bytes");
  check_refused(std::string(20, 'x'), errc::corrupt,
                "expected \\x93NUMPY at the beginning, got \"xxxxxx\"");
  check_refused(npy_bytes(npy_header("<f4", "()"), "1234", 4), errc::corrupt, "version 4.0");
  check_refused(npy_bytes(npy_header("<c8", "()"), ""), errc::invalid_argument, "descr \"<c8\"");
  check_refused(npy_bytes(npy_header("<U2", "()"), ""), errc::invalid_argument, "descr \"<U2\"");
  check_refused(npy_bytes(npy_header("|i4", "()"), ""), errc::invalid_argument, "descr \"|i4\"");
  check_refused(npy_bytes("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': ()}", ""),
                errc::invalid_argument, "not one element type");
  check_refused(npy_bytes("{'descr': '<f4', 'shape': ()}", ""), errc::corrupt, "fortran_order");
  check_refused(npy_bytes("{'descr': '<f4', 'descr': '<f4'}", ""), errc::corrupt, "\"descr\"");
  check_refused(npy_bytes("{'colour': 3}", ""), errc::corrupt, "\"colour\"");
  check_refused(npy_bytes(npy_header("<f4", "(2, -3)"), ""), errc::corrupt, "extent 1");
  check_refused(npy_bytes(npy_header("<f4", "(99999999999999999999,)"), ""), errc::corrupt,
                "extent 0");
  check_refused(npy_bytes(npy_header("<f4", "(4294967296, 4294967296)"), ""), errc::corrupt,
                "overflows");
  check_refused(npy_bytes(npy_header("<f4", "(2,)"), "1234567"), errc::corrupt,
                "7 bytes instead of 8");
  check_refused(npy_bytes(npy_header("<f4", "(2,)"), "123456789"), errc::corrupt,
                "9 bytes instead of 8");
  std::string lying = "\x93NUMPY\x02";
  lying.push_back('\0');
  put_le(lying, 0xffffffff, 4);
  check_refused(lying + "{}", errc::corrupt, "header length 4294967295");
}

TEST_CASE("npz: stored and deflated arrays, with 64-bit sizes or not, by name or all") {
  auto ints = npy_bytes(npy_header("<i4", "(3,)"), raw<std::int32_t>({1, 2, 3}));
  auto zeros = npy_bytes(npy_header("<f4", "(1000, 10)"), std::string(40000, '\0'));
  for (bool zip64 : {false, true}) {
    auto file = zip_bytes({{"a.npy", ints, false, zip64}, {"b.npy", zeros, true, zip64}});
    CHECK(file.size() < 1000);
    auto all = parse_npz(bytes_of(file), "some.npz");
    REQUIRE_MESSAGE(all, all.error().text);
    REQUIRE(all->size() == 2);
    CHECK((*all)[0].name == "a");
    CHECK((*all)[0].value == tensor::vector<std::int32_t>({1, 2, 3}));
    CHECK((*all)[1].value == tensor::zeros(dtype::f32, {1000, 10}));
    const std::vector<std::string> names{"b", "a"};
    auto some = parse_npz(bytes_of(file), "some.npz", names);
    REQUIRE(some);
    CHECK((*some)[0].name == "b");
    const std::vector<std::string> wrong{"c"};
    auto none = parse_npz(bytes_of(file), "some.npz", wrong);
    REQUIRE_FALSE(none);
    CHECK(none.error().code == errc::not_found);
    CHECK(says(none.error().text, "\"c\" among a, b"));
  }
}

TEST_CASE("npz: what does not hold is refused by entry, field and value") {
  auto ints = npy_bytes(npy_header("<i4", "(3,)"), raw<std::int32_t>({1, 2, 3}));
  auto refused = [](const std::string& file, errc code, const std::string& part) {
    auto got = parse_npz(bytes_of(file), "some.npz");
    REQUIRE_FALSE(got);
    CHECK(got.error().code == code);
    CHECK_MESSAGE(says(got.error().text, "some.npz"), got.error().text);
    CHECK_MESSAGE(says(got.error().text, part), got.error().text);
  };
  refused("", errc::corrupt, "no zip directory in 0 bytes");
  refused(zip_bytes({{"a.txt", "hello"}}), errc::invalid_argument, "\"a.txt\" is not a .npy file");
  refused(zip_bytes({{"a.npy", ints}, {"a.npy", ints}}), errc::corrupt, "\"a\" is listed twice");
  refused(zip_bytes({{"a.npy", ints, false, false, 1}}), errc::invalid_argument, "encrypted");
  refused(zip_bytes({{"a.npy", "rubbish"}}), errc::corrupt, "some.npz:a");
  auto broken = zip_bytes({{"a.npy", ints}});
  broken[broken.find("NUMPY") + 40] ^= 1;
  refused(broken, errc::corrupt, "CRC-32 is");
  auto bomb = zip_bytes({{"a.npy", ints, true}});
  auto at = bomb.find("PK\1\2");
  for (std::size_t i = 24; i < 28; ++i)
    bomb[at + i] = '\x7f';
  refused(bomb, errc::corrupt, "cannot hold 2139062143");
}

TEST_CASE("SYNC-I26 numpy arrays, 2 epochs, batch of all rows: whole arrays twice, then the end") {
  fake_ports ports;
  ports.storage.files["x.npy"] =
    npy_bytes(npy_header("<f4", "(3, 2)"), raw<float>({1, 2, 3, 4, 5, 6}));
  ports.storage.files["y.npy"] = npy_bytes(npy_header("<i8", "(3,)"), raw<std::int64_t>({7, 8, 9}));
  auto data = dataset::npy({"x.npy", "y.npy"}).batch(3).repeat(2);
  auto it = data.iterate(ports.context());
  for (int pass = 0; pass < 2; ++pass) {
    auto x = it.next();
    CHECK(x[0] == tensor::of<float>({3, 2}, {1, 2, 3, 4, 5, 6}));
    CHECK(x[1] == tensor::vector<std::int64_t>({7, 8, 9}));
  }
  CHECK_FALSE(it.try_next());
  CHECK(data.cardinality(ports.context()) == 2);
  CHECK(to_string(dataset::npy({"x.npy"}).element_spec(ports.context())[0]) == "f32[2]");
}

TEST_CASE("npy and npz datasets: rows must agree, and errors name the array and the numbers") {
  fake_ports ports;
  ports.storage.files["x.npy"] = npy_bytes(npy_header("|u1", "(3,)"), "abc");
  ports.storage.files["y.npy"] = npy_bytes(npy_header("|u1", "(2,)"), "ab");
  ports.storage.files["s.npy"] = npy_bytes(npy_header("|u1", "()"), "a");
  ports.storage.files["all.npz"] = zip_bytes(
    {{"y.npy", ports.storage.files["y.npy"]}, {"z.npy", ports.storage.files["y.npy"], true}});
  ports.storage.files["empty.npz"] = zip_bytes({});
  auto why = [&](const dataset& x) { return failure_of([&] { x.iterate(ports.context()); }); };
  auto rows = why(dataset::npy({"x.npy", "y.npy"}));
  CHECK(rows.code == errc::shape_mismatch);
  CHECK(says(rows.text, "y.npy: 2 rows, but 3 in npy x.npy"));
  CHECK(why(dataset::npy({"s.npy"})).code == errc::shape_mismatch);
  CHECK(why(dataset::npy({"none.npy"})).code == errc::not_found);
  CHECK(says(why(dataset::npz("empty.npz")).text, "holds no arrays"));
  auto both = dataset::npz("all.npz", {"z", "y"}).batch(2).iterate(ports.context()).next();
  CHECK(both.size() == 2);
  CHECK(text_of(both[0]) == "ab");
  CHECK(failure_of([] { (void)dataset::npy({}); }).code == errc::invalid_argument);
}
