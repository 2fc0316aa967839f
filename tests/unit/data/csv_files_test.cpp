// Goal: CSV files as people have them. Method: one file a kind of trouble, and every message read
// byte by byte.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "support.hpp"

using namespace data_test;

namespace {

template <class T>
std::vector<T> column_of(const std::string& text, csv_options options) {
  fake_ports ports;
  ports.storage.files["t.csv"] = text;
  auto it = dataset::csv({"t.csv"}, std::move(options)).iterate(ports.context());
  std::vector<T> out;
  while (auto x = it.try_next())
    out.push_back((*x)[0].item<T>());
  return out;
}

csv_options one(dtype type, std::optional<std::string> if_empty = std::nullopt) {
  return {.columns = {{"a", type, std::move(if_empty)}}};
}

csv_options two() {
  return {.columns = {{"a", dtype::i32, std::nullopt}, {"b", dtype::i32, std::nullopt}}};
}

std::string why_not(const std::string& text, csv_options options) {
  auto why = failure_of([&] { (void)column_of<std::int32_t>(text, std::move(options)); });
  CHECK(why.code == errc::corrupt);
  for (const char c : why.text)
    CHECK_MESSAGE((c >= ' ' && c <= '~'), "byte " << int{c} << " in " << why.text);
  return why.text;
}

using ints = std::vector<std::int32_t>;

} // namespace

TEST_CASE("csv: a decimal beyond a float's range is 0, a subnormal or an infinity") {
  const auto inf = std::numeric_limits<float>::infinity();
  const auto floats = column_of<float>(
    "a\n5.47382e-48\n-1e-60\n1e-45\n1.1e-38\n3.5e38\n-1e300\n"
    "0.00000000000000000000000000000000000000000000000001\n"
    "100000000000000000000000000000000000000000000\n"
    "1e-99999999999999999999\n1e+99999999999999999999\n",
    one(dtype::f32));
  const std::vector<float> want{
    0, -0.0f, std::numeric_limits<float>::denorm_min(), 1.1e-38f, inf, -inf, 0, inf, 0, inf};
  CHECK(floats == want);
  CHECK(std::signbit(floats[1]));
  const auto big = std::numeric_limits<double>::infinity();
  CHECK(column_of<double>("a\n1e-400\n-1e400\n5.47382e-48\n1e-310\n", one(dtype::f64))
        == std::vector<double>{0, -big, 5.47382e-48, 1e-310});
  // An integer that does not fit is still an error.
  CHECK(says(why_not("a\n300\n", one(dtype::u8)), "\"300\" is not a valid u8"));
}

TEST_CASE("csv: blank lines at the end are passed over, one that records follow is named") {
  for (const std::string end : {"", "\n", "\n\n", "\n\n\n", "\r\n\r\n", "\n  \t\n", "\r\r"})
    CHECK(column_of<std::int32_t>("a,b\n1,2\n3,4" + end, two()) == ints{1, 3});
  CHECK(column_of<std::int32_t>("a\n1\n\n", one(dtype::i32)) == ints{1});
  CHECK(says(why_not("a,b\n1,2\n\n\n3,4\n", two()), "line 3: blank line before line 5"));
  // One field that may be empty: every blank line is a record.
  CHECK(column_of<std::int32_t>("a\n1\n\n2\n\n", one(dtype::i32, "-1")) == ints{1, -1, 2, -1});
  // And an empty field in quotes is no blank line.
  CHECK(
    says(why_not("a\n1\n\"\"\n", one(dtype::i32)), "line 3, field 0 (a): \"\" is not a valid i32"));
}

TEST_CASE("csv: lines end in CR, LF or both, also mixed and inside quotes") {
  for (const std::string text :
       {"a,b\r1,2\r3,4", "a,b\r1,2\r3,4\r", "a,b\r\n1,2\n3,4\r", "a,b\n1,\"2\"\r\n\"3\",4\r\n"})
    CHECK(column_of<std::int32_t>(text, two()) == ints{1, 3});
  const csv_options first{.columns = {{"a", dtype::i32, std::nullopt}}};
  CHECK(column_of<std::int32_t>("a,n\r1,\"x\ry\"\r2,\r", first) == ints{1, 2});
  CHECK(says(why_not("a,n\r1,\"x\ry\r\nz\"\rq,1\r", first), "line 5, field 0 (a): \"q\""));
}

TEST_CASE("csv: a UTF-8 byte order mark is passed over in every file") {
  fake_ports ports;
  ports.storage.files["x.csv"] =
    "\xef\xbb\xbf"
    "a\n1\n";
  ports.storage.files["y.csv"] =
    "\xef\xbb\xbf"
    "a\r\n2\r\n";
  auto it = dataset::csv({"x.csv", "y.csv"}, one(dtype::i32)).batch(9).iterate(ports.context());
  CHECK(it.next()[0] == tensor::vector<std::int32_t>({1, 2}));
}

TEST_CASE("csv and text: UTF-16 is called that, with a mark or without") {
  const auto wide = [](const std::string& text, bool big) {
    std::string out;
    for (const char c : text)
      out += big ? std::string{'\0', c} : std::string{c, '\0'};
    return out;
  };
  CHECK(says(why_not("\xff\xfe" + wide("a\n1\n", false), one(dtype::i32)),
             "csv t.csv: is UTF-16 or UTF-32 (begins with FF FE); save it as UTF-8"));
  CHECK(says(why_not("\xfe\xff" + wide("a\n1\n", true), one(dtype::i32)), "begins with FE FF"));
  CHECK(says(why_not(wide("a\n1\n", false), one(dtype::i32)), "UTF-16 (byte 1 is 0)"));
  CHECK(says(why_not(wide("a\n1\n", true), one(dtype::i32)), "UTF-16 (byte 0 is 0)"));
  fake_ports ports;
  ports.storage.files["t"] = "\xff\xfe" + wide("a\nb\n", false);
  auto why = failure_of([&] { (void)texts(dataset::text_lines({"t"}), ports.context()); });
  CHECK(why.code == errc::corrupt);
  CHECK(says(why.text, "text_lines t: is UTF-16"));
}

TEST_CASE("csv: blanks around quotes, quotes inside plain fields, and quotes that do not close") {
  const csv_options b{.columns = {{"b", dtype::i32, std::nullopt}}};
  CHECK(column_of<std::int32_t>("a,b\n \"x, y\" , 1\n5\" pipe,\"2\" \n\"\"\"\",3\n", b)
        == ints{1, 2, 3});
  // A blank that is the delimiter stays one.
  csv_options by_tab{.columns = {{"b", dtype::i32, "0"}}, .delimiter = '\t'};
  CHECK(column_of<std::int32_t>("a\tb\tc\n1\t\t3\n\"x\"\t2\t\n", by_tab) == ints{0, 2});
  CHECK(says(why_not("a,b\n1,\"2\n3,4\n", two()), "line 2, field 1: missing closing quote"));
  CHECK(says(why_not("a,b\n1,\"2\"3\n", two()), "line 2, field 1: text after the closing quote"));
  // Nobody looks for the end of a quote for ever.
  CHECK(says(why_not("a,b\n1,\"" + std::string(std::size_t{1} << 25, 'x'), two()),
             "field 1: over 16777216 bytes; a closing quote may be missing"));
}

TEST_CASE("csv: messages have no raw bytes, and values in them are cut") {
  CHECK(says(why_not("a\n\x1b[31m\x07\x80\n", one(dtype::i32)),
             "\"\\x1b[31m\\x07\\x80\" is not a valid i32"));
  CHECK(says(why_not("a\n\"x\ny\"\n", one(dtype::i32)), "\"x\\ny\" is not a valid i32"));
  const auto cut = why_not("a\n" + std::string(5000, 'z') + "\n", one(dtype::i32));
  CHECK(says(cut, "\"" + std::string(40, 'z') + "... (5000 bytes)\" is not a valid i32"));
  CHECK(cut.size() < 200);
  std::string names = "\x01";
  for (int i = 0; i < 500; ++i)
    names += ",c" + std::to_string(i);
  const auto missing = why_not(names + "\n", one(dtype::i32));
  CHECK(says(missing, "no column \"a\" among \\x01, c0, c1"));
  CHECK(says(missing, "c18 and 481 more"));
  CHECK(missing.size() < 400);
}

TEST_CASE("csv: fields and lines that fall on the end of a block are whole") {
  // A block has 256 KiB: every offset of the file's structure against it.
  const std::size_t block_bytes = std::size_t{1} << 18;
  const std::string tail = "\r\n12,\"3\"\"4\"\r\n56,78\r\n";
  for (std::size_t shift = 0; shift <= tail.size(); ++shift) {
    std::string text = "a,b\n1,";
    text += std::string(block_bytes - text.size() - shift, 'x') + tail;
    CHECK(column_of<std::int32_t>(text, {.columns = {{"a", dtype::i32, std::nullopt}}})
          == ints{1, 12, 56});
  }
}
