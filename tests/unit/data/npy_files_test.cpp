// Goal: numpy's files in all forms that numpy writes, and back. Method: every element type in both
// byte orders and both orders of axes against values worked out by hand; what is written is read
// again, and its bytes are those that numpy's format asks for.
#include <troupe/data/npy.hpp>

#include <doctest/doctest.h>

#include <cstdio>
#include <limits>

#include "zip_support.hpp"

using namespace data_test;

namespace {

result<tensor> parse(const std::string& file) { return parse_npy(bytes_of(file), "some.npy"); }

std::string header(const std::string& descr, const std::string& shape, bool fortran = false) {
  return "{'descr': '" + descr + "', 'fortran_order': " + (fortran ? "True" : "False")
         + ", 'shape': " + shape + ", }\n";
}

template <class T>
std::string raw(const std::vector<T>& xs, bool swapped) {
  std::string out;
  for (const auto& x : xs) {
    std::string one(reinterpret_cast<const char*>(&x), sizeof x);
    if (swapped)
      std::reverse(one.begin(), one.end());
    out += one;
  }
  return out;
}

/// Elements of T in the file are `want` in memory, in both byte orders.
template <class T, class Out>
void check_type(const std::string& code, const std::vector<T>& xs, const std::vector<Out>& want) {
  const auto shape = "(" + std::to_string(xs.size()) + ",)";
  for (const std::string order : {"<", ">", "=", "|"}) {
    if (order == "|" && sizeof(T) > 1)
      continue;
    CAPTURE(order + code);
    auto got = parse(npy_bytes(header(order + code, shape), raw(xs, order == ">")));
    REQUIRE_MESSAGE(got, got.error().text);
    CHECK(*got == tensor::of<Out>({static_cast<std::int64_t>(want.size())}, std::span{want}));
  }
}

std::vector<std::string> names(std::initializer_list<const char*> xs) {
  return {xs.begin(), xs.end()};
}

} // namespace

TEST_CASE("npy: bool, i1 to i8, u1 to u8, f2 to f8 are read in both byte orders") {
  using i32s = std::vector<std::int32_t>;
  using i64s = std::vector<std::int64_t>;
  check_type<std::uint8_t>("b1", {0, 1, 2}, std::vector<std::uint8_t>{0, 1, 1});
  check_type<std::uint8_t>("u1", {0, 255}, std::vector<std::uint8_t>{0, 255});
  check_type<std::int8_t>("i1", {-128, 127}, std::vector<std::int8_t>{-128, 127});
  check_type<std::int16_t>("i2", {-32768, 258}, i32s{-32768, 258});
  check_type<std::uint16_t>("u2", {65535, 258}, i32s{65535, 258});
  check_type<std::int32_t>("i4", {INT32_MIN, 66051}, i32s{INT32_MIN, 66051});
  check_type<std::uint32_t>("u4", {UINT32_MAX, 66051}, i64s{UINT32_MAX, 66051});
  check_type<std::int64_t>("i8", {INT64_MIN, 258}, i64s{INT64_MIN, 258});
  check_type<std::uint64_t>("u8", {INT64_MAX, 258}, i64s{INT64_MAX, 258});
  check_type<float>("f4", {1.5f, -2}, std::vector<float>{1.5f, -2});
  check_type<double>("f8", {1.5, -2}, std::vector<double>{1.5, -2});
  auto half = parse(npy_bytes(header(">f2", "(2,)"), std::string("\x3c\0\x40\0", 4)));
  REQUIRE(half);
  CHECK(half->type() == dtype::f16);
  CHECK(std::string(reinterpret_cast<const char*>(half->bytes().data()), 4)
        == std::string("\0\x3c\0\x40", 4));
}

TEST_CASE("npy: an unsigned value that no type here holds is named by its place") {
  auto got = parse(npy_bytes(header("<u8", "(3,)"), raw<std::uint64_t>({1, 2, UINT64_MAX}, false)));
  REQUIRE_FALSE(got);
  CHECK(got.error().code == errc::out_of_range);
  CHECK(says(got.error().text, "npy some.npy: element 2"));
}

TEST_CASE("npy: Fortran order is read, of every rank and type, and comes in C order") {
  // a[i, j, k] = 100 i + 10 j + k; the file has the first axis fastest.
  std::vector<float> fortran;
  std::vector<std::int16_t> small;
  tensor want{dtype::f32, {2, 3, 4}};
  tensor want_small{dtype::i32, {2, 3, 4}};
  for (int k = 0; k < 4; ++k)
    for (int j = 0; j < 3; ++j)
      for (int i = 0; i < 2; ++i) {
        fortran.push_back(static_cast<float>(100 * i + 10 * j + k));
        small.push_back(static_cast<std::int16_t>(100 * i + 10 * j + k));
        const auto at = static_cast<std::size_t>(i * 12 + j * 4 + k);
        want.mutable_as<float>()[at] = static_cast<float>(100 * i + 10 * j + k);
        want_small.mutable_as<std::int32_t>()[at] = 100 * i + 10 * j + k;
      }
  auto got = parse(npy_bytes(header("<f4", "(2, 3, 4)", true), raw(fortran, false)));
  REQUIRE_MESSAGE(got, got.error().text);
  CHECK(*got == want);
  got = parse(npy_bytes(header(">i2", "(2, 3, 4)", true), raw(small, true)));
  REQUIRE(got);
  CHECK(*got == want_small);
  got = parse(npy_bytes(header("<f4", "(24,)", true), raw(fortran, false)));
  REQUIRE(got);
  CHECK(got->at<float>(1) == 100);
  got = parse(npy_bytes(header("<f4", "()", true), raw<float>({7}, false)));
  REQUIRE(got);
  CHECK(got->item<float>() == 7);
  got = parse(npy_bytes(header("<f4", "(2, 0, 3)", true), ""));
  REQUIRE(got);
  CHECK(got->shape() == shape_t{2, 0, 3});
  got = parse(npy_bytes(header("<f4", "(1, 24)", true), raw(fortran, false)));
  REQUIRE(got);
  CHECK(got->at<float>(1) == 100);
}

TEST_CASE("npy: element types that are not read are named, escaped and cut") {
  for (const std::string descr :
       {"<c8", "<U7", "|S3", "|O", "<M8[ns]", "<f16", "<i3", "\x01\x02"}) {
    auto got = parse(npy_bytes(header(descr, "()"), ""));
    REQUIRE_FALSE(got);
    CHECK(got.error().code == errc::invalid_argument);
    CHECK(says(got.error().text, "is not one of b1, u1 to u8"));
    CHECK(says(got.error().text, descr == "\x01\x02" ? "\\x01\\x02" : descr));
  }
}

TEST_CASE("npz: arrays asked for by name are read whatever else is inside") {
  auto ints = npy_bytes(header("<i4", "(3,)"), raw<std::int32_t>({1, 2, 3}, false));
  auto file = zip_bytes({{"notes.txt", "hello"},
                         {"a.npy", ints},
                         {"locked.npy", ints, false, false, 1},
                         {"rubbish.npy", "rubbish"},
                         {"twice.npy", ints},
                         {"twice.npy", ints},
                         {"text.npy", npy_bytes(header("<U7", "()"), std::string(28, '\0'))},
                         {"b.npy", ints, true}});
  const auto got = parse_npz(bytes_of(file), "some.npz", names({"b", "a"}));
  REQUIRE_MESSAGE(got, got.error().text);
  CHECK((*got)[0].value == tensor::vector<std::int32_t>({1, 2, 3}));
  CHECK((*got)[1].name == "a");
  const auto why = [&](std::initializer_list<const char*> which) {
    auto out = parse_npz(bytes_of(file), "some.npz", names(which));
    REQUIRE_FALSE(out);
    return out.error().text;
  };
  CHECK(says(why({"locked"}), "\"locked\": is encrypted"));
  CHECK(says(why({"rubbish"}), "some.npz:rubbish"));
  CHECK(says(why({"twice"}), "\"twice\" is listed twice"));
  CHECK(says(why({"text"}), "descr"));
  CHECK(says(why({"notes"}), "no array \"notes\" among a, locked, rubbish"));
  CHECK(says(parse_npz(bytes_of(file), "some.npz").error().text,
             "entry \"notes.txt\" is not a .npy file; request arrays by name"));
}

TEST_CASE("npz: entries that lie on each other, or on the directory, are refused by name") {
  auto ints = npy_bytes(header("<i4", "(3,)"), raw<std::int32_t>({1, 2, 3}, false));
  const auto whole = zip_bytes({{"a.npy", ints}, {"b.npy", ints}, {"c.npy", ints}});
  const auto place_of = [&](const std::string& file, int entry) {
    auto at = file.find("PK\1\2");
    for (int i = 0; i < entry; ++i)
      at = file.find("PK\1\2", at + 1);
    return at;
  };
  const auto set = [](std::string& file, std::size_t at, std::uint32_t x) {
    for (std::size_t i = 0; i < 4; ++i)
      file[at + i] = static_cast<char>(x >> (8 * i));
  };
  auto same = whole; // b stands where a does
  set(same, place_of(same, 1) + 42, 0);
  for (const char* name : {"a", "b"}) {
    auto got = parse_npz(bytes_of(same), "some.npz", names({name}));
    REQUIRE_FALSE(got);
    CHECK(got.error().code == errc::corrupt);
    CHECK_MESSAGE(says(got.error().text, "overlaps that of \""), got.error().text);
  }
  CHECK(parse_npz(bytes_of(same), "some.npz", names({"c"}))); // it shares nothing
  CHECK_FALSE(parse_npz(bytes_of(same), "some.npz"));
  auto longer = whole; // a goes on into b
  set(longer, place_of(longer, 0) + 20, static_cast<std::uint32_t>(ints.size() + 40));
  CHECK(says(parse_npz(bytes_of(longer), "some.npz", names({"b"})).error().text,
             "\"b\": data overlaps that of \"a\""));
  auto into = whole; // c goes on into the directory
  set(into, place_of(into, 2) + 20, static_cast<std::uint32_t>(ints.size() + 1));
  CHECK(says(parse_npz(bytes_of(into), "some.npz", names({"c"})).error().text,
             "overlaps that of the directory"));
}

TEST_CASE("npy: what is written has numpy's bytes and is read again, whatever type and shape") {
  memory_storage storage;
  const std::vector<tensor> all{tensor::vector<std::uint8_t>({1, 255}),
                                tensor::vector<std::int8_t>({-1}),
                                tensor::of<std::int32_t>({2, 3}, {1, -2, 3, -4, 5, 6}),
                                tensor::scalar<std::int64_t>(-7),
                                tensor::zeros(dtype::f16, {1, 1, 2}),
                                tensor::zeros(dtype::bf16, {3}),
                                tensor::vector<float>({1.5f, -0.0f}),
                                tensor::zeros(dtype::f64, {0, 4})};
  for (const auto& x : all) {
    REQUIRE(write_npy(storage, "x.npy", x));
    auto got = read_npy(storage, "x.npy");
    REQUIRE_MESSAGE(got, got.error().text);
    CHECK(*got == x);
    CHECK(storage.files.count("x.npy.tmp") == 0);
    CHECK((storage.files["x.npy"].size() - x.size_bytes()) % 64 == 0);
  }
  REQUIRE(write_npy(storage, "x.npy", all[2]));
  const auto& file = storage.files["x.npy"];
  CHECK(file.substr(0, 10) == std::string("\x93NUMPY\x01\0\x76\0", 10));
  CHECK(file.substr(10, 61) == "{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3), }  ");
  CHECK(file[127] == '\n');
  CHECK(write_npy(storage, "y.npy", tensor{}).error().code == errc::invalid_argument);
  CHECK(write_npy(storage, "", all[0]).error().code == errc::invalid_argument);
  CHECK(storage.files.count("y.npy") == 0);
  CHECK(npy_head(dtype::f32, {-1}).error().code == errc::invalid_argument);
}

TEST_CASE("npz: what is written is read again, by name and whole, and the same twice") {
  memory_storage storage;
  const std::vector<named_tensor> arrays{{"dense/w", tensor::of<float>({2, 2}, {1, 2, 3, 4})},
                                         {"b", tensor::scalar<std::int64_t>(7)},
                                         {"\xc3\xa9", tensor::zeros(dtype::f64, {0, 3})}};
  REQUIRE(write_npz(storage, "x.npz", arrays));
  auto all = read_npz(storage, "x.npz");
  REQUIRE_MESSAGE(all, all.error().text);
  REQUIRE(all->size() == 3);
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    CHECK((*all)[i].name == arrays[i].name);
    CHECK((*all)[i].value == arrays[i].value);
  }
  CHECK((*read_npz(storage, "x.npz", names({"b"})))[0].value == arrays[1].value);
  const auto once = storage.files["x.npz"];
  REQUIRE(write_npz(storage, "x.npz", arrays));
  CHECK(storage.files["x.npz"] == once);
  REQUIRE(write_npz(storage, "none.npz", {}));
  CHECK(read_npz(storage, "none.npz")->empty());
}

TEST_CASE("npz: a writer that is refused or left leaves the file that was there") {
  memory_storage storage;
  REQUIRE(write_npz(storage, "x.npz", std::vector<named_tensor>{{"a", tensor::scalar(1.5f)}}));
  const auto before = storage.files;
  {
    auto left = npz_writer::create(storage, "x.npz").value_or_throw();
    REQUIRE(left.add("b", tensor::scalar(1.0f)));
    CHECK(storage.files != before);
  }
  CHECK(storage.files == before);
  const auto refused = [&](const std::string& name, const tensor& x, const char* part) {
    auto to = npz_writer::create(storage, "x.npz").value_or_throw();
    REQUIRE(to.add("a", tensor::scalar(1.0f)));
    auto done = to.add(name, x);
    REQUIRE_FALSE(done);
    CHECK(done.error().code == errc::invalid_argument);
    CHECK_MESSAGE(says(done.error().text, part), done.error().text);
    CHECK(to.close().error().text == done.error().text);
  };
  refused("a", tensor::scalar(1.0f), "\"a\": was already added");
  refused("", tensor::scalar(1.0f), "a name has 1 to");
  refused(std::string(70'000, 'n'), tensor::scalar(1.0f), "70000");
  refused("u", tensor{}, "has no value");
  CHECK(storage.files == before);
}
