#include <doctest/doctest.h>

#include "support.hpp"

#include <troupe/data/detail/crc32c.hpp>

using namespace data_test;
using strings = std::vector<std::string>;

namespace {

failure reading(const dataset& from, fake_ports& ports) {
  return failure_of([&] {
    auto it = from.iterate(ports.context());
    while (it.try_next()) {
    }
  });
}

dataset csv_of(const std::string& text, fake_ports& ports, csv_options options) {
  ports.storage.files["t.csv"] = text;
  return dataset::csv({"t.csv"}, std::move(options));
}

/// Every position of a pass, saved and restored elsewhere, is followed by the same elements.
void check_positions(const dataset& data, fake_ports& ports) {
  auto it = data.iterate(ports.context());
  strings all;
  strings positions{it.save_position()};
  while (auto x = it.try_next()) {
    all.push_back(text_of((*x)[0]));
    positions.push_back(it.save_position());
  }
  for (std::size_t n = 0; n < positions.size(); ++n) {
    auto other = data.iterate(ports.context());
    other.restore_position(positions[n]);
    strings rest;
    while (auto x = other.try_next())
      rest.push_back(text_of((*x)[0]));
    CHECK(rest == strings(all.begin() + static_cast<std::ptrdiff_t>(n), all.end()));
  }
}

} // namespace

TEST_CASE("crc32c: the published values, of whole words and odd ends") {
  auto crc = [](const std::string& x) {
    return detail::crc32c(std::as_bytes(std::span{x.data(), x.size()}));
  };
  CHECK(crc("123456789") == 0xE3069283u);
  CHECK(crc("") == 0u);
  CHECK(crc(std::string(32, '\0')) == 0x8A9136AAu);
  CHECK(crc(std::string(32, '\xff')) == 0x62A8AB43u);
  std::string counted;
  for (char i = 0; i < 32; ++i)
    counted.push_back(i);
  CHECK(crc(counted) == 0x46DD794Eu);
}

TEST_CASE("tfrecords: a writer's records come back, empty and large ones too") {
  fake_ports ports;
  std::string large(1'000'000, 'x');
  ports.storage.files["a"] = tfrecord_bytes({"one", "", large});
  ports.storage.files["b"] = "";
  ports.storage.files["c"] = tfrecord_bytes({"two"});
  auto data = dataset::tfrecords({"a", "b", "c"});
  CHECK(texts(data, ports.context()) == strings{"one", "", large, "two"});
  CHECK(to_string(data.element_spec(ports.context())[0]) == "u8[-1]");
  CHECK(data.cardinality(ports.context()) == unknown_cardinality);
  auto one = tfrecord_bytes({"a"});
  CHECK(one.size() == 12 + 1 + 4);
  CHECK(one.substr(0, 8) == std::string("\x01\0\0\0\0\0\0\0", 8));
  std::string tail;
  put_le(tail, detail::masked(detail::crc32c(std::as_bytes(std::span{one.data() + 12, 1}))), 4);
  CHECK(one.substr(13) == tail);
}

TEST_CASE("tfrecords: each broken record names file, record, byte and value") {
  fake_ports ports;
  auto whole = tfrecord_bytes({"one", "three"});
  auto broken = [&](std::size_t at) {
    auto bytes = whole;
    bytes[at] ^= 4;
    ports.storage.files["r"] = bytes;
    auto why = reading(dataset::tfrecords({"r"}), ports);
    CHECK(why.code == errc::corrupt);
    return why.text;
  };
  CHECK(says(broken(0), "tfrecord r: record 0 at byte 0: checksum of its length"));
  CHECK(says(broken(19 + 13), "record 1 at byte 19: checksum of its data is"));
  ports.storage.files["r"] = whole.substr(0, whole.size() - 1);
  CHECK(says(reading(dataset::tfrecords({"r"}), ports).text, "length 5, but only 8"));
  ports.storage.files["r"] = whole.substr(0, 19 + 3);
  CHECK(says(reading(dataset::tfrecords({"r"}), ports).text, "header is truncated after 3 bytes"));
}

TEST_CASE("text_lines: any line end, an empty line and a last line without an end") {
  fake_ports ports;
  ports.storage.files["a"] = "one\ntwo\r\n\nlast";
  ports.storage.files["b"] = std::string(600'000, 'y') + "\nx\n";
  CHECK(texts(dataset::text_lines({"a", "b"}), ports.context())
        == strings{"one", "two", "", "last", std::string(600'000, 'y'), "x"});
  CHECK(reading(dataset::text_lines({"none"}), ports).code == errc::not_found);
  CHECK(failure_of([] { (void)dataset::text_lines({}); }).code == errc::invalid_argument);
  CHECK(says(failure_of([] { (void)dataset::text_lines({"a", ""}); }).text, "path 1 is empty"));
}

TEST_CASE("fixed_records: rows between header and footer, any of them at once") {
  fake_ports ports;
  ports.storage.files["a"] = "HHaabbccF";
  ports.storage.files["b"] = "HHddF";
  auto data = dataset::fixed_records({"a", "b"}, 2, 2, 1);
  CHECK(texts(data, ports.context()) == strings{"aa", "bb", "cc", "dd"});
  CHECK(data.cardinality(ports.context()) == 4);
  CHECK(text_of(data.batch(4).iterate(ports.context()).next()[0]) == "aabbccdd");
  CHECK(to_string(data.element_spec(ports.context())[0]) == "u8[2]");
  CHECK(says(reading(dataset::fixed_records({"a"}, 4, 2, 1), ports).text,
             "a: 9 bytes leave 2 after the last record of 4"));
  CHECK(says(reading(dataset::fixed_records({"b"}, 4, 5, 1), ports).text,
             "header of 5 and the footer of 1"));
  CHECK(says(failure_of([] { (void)dataset::fixed_records({"a"}, 0); }).text, "record_bytes is 0"));
}

TEST_CASE("csv: typed columns by name, with quotes, blanks and line ends inside") {
  fake_ports ports;
  auto data = csv_of(
    "\xef\xbb\xbf\"id\",note, score ,n\r\n1,\"a, \"\"b\"\"\nc\",0.5,7\r\n"
    "-2 ,x, 1e2,\"255\"\n+3,,,0\n",
    ports,
    {.columns = {{"score", dtype::f32, "-1"},
                 {"id", dtype::i64, std::nullopt},
                 {"n", dtype::u8, std::nullopt}}});
  auto x = data.batch(3).iterate(ports.context()).next();
  CHECK(x[0] == tensor::vector<float>({0.5f, 100.0f, -1.0f}));
  CHECK(x[1] == tensor::vector<std::int64_t>({1, -2, 3}));
  CHECK(text_of(x[2]) == std::string("\x07\xff\0", 3));
  CHECK(data.cardinality(ports.context()) == 3);
  CHECK(to_string(data.element_spec(ports.context())[1]) == "i64[]");
}

TEST_CASE("csv: without a header fields are by order, with any delimiter, over several files") {
  fake_ports ports;
  ports.storage.files["a"] = "1;2\n3;4";
  ports.storage.files["b"] = "5;6\n";
  auto data = dataset::csv(
    {"a", "b"}, {.columns = {{"x", dtype::i32, std::nullopt}, {"y", dtype::f64, std::nullopt}},
                 .header = false,
                 .delimiter = ';'});
  auto x = data.batch(9).iterate(ports.context()).next();
  CHECK(x[0] == tensor::vector<std::int32_t>({1, 3, 5}));
  CHECK(x[1] == tensor::vector<double>({2, 4, 6}));
}

TEST_CASE("csv: errors name file, line, field, column and value") {
  fake_ports ports;
  const csv_options options{.columns = {{"a", dtype::i8, std::nullopt}, {"b", dtype::f32, "0"}}};
  auto why = [&](const std::string& text) {
    auto out = reading(csv_of(text, ports, options), ports);
    CHECK(out.code == errc::corrupt);
    CHECK(says(out.text, "csv t.csv: line "));
    return out.text;
  };
  CHECK(says(why("a,b\n1,2\nx,3\n"), "line 3, field 0 (a): \"x\" is not a valid i8"));
  CHECK(says(why("a,b\n128,2\n"), "line 2, field 0 (a): \"128\" is not a valid i8"));
  CHECK(says(why("b,a\n1,\n"), "line 2, field 1 (a): \"\" is not a valid i8"));
  CHECK(says(why("a,b\n1,2x\n"), "field 1 (b): \"2x\" is not a valid f32"));
  CHECK(says(why("a,b\n1\n"), "line 2: 1 fields instead of 2"));
  CHECK(says(why("a,b\n1,2,3\n"), "line 2: 3 fields instead of 2"));
  CHECK(says(why("a,c\n1,2\n"), "no column \"b\" among a, c"));
  CHECK(says(why("a,b,a\n"), "duplicate column \"a\""));
  CHECK(says(why("a,b\n1,\"2\n"), "line 2, field 1: missing closing quote"));
  CHECK(says(why("a,b\n\"1\"2,3\n"), "line 2, field 0: text after the closing quote"));
  CHECK(says(why("a,b\n1\"2,3\n"), "line 2, field 0 (a): \"1\\\"2\" is not a valid i8"));
  CHECK(says(why(""), "line 1: no header"));
  // a quoted line end counts as a line
  CHECK(says(why("a,b,\"c\nd\"\n1,2,3\nx,1,1\n"), "line 4, field 0 (a)"));
}

TEST_CASE("csv: options that cannot be used are refused when the dataset is made") {
  auto why = [](csv_options options) {
    auto out = failure_of([&] { (void)dataset::csv({"x"}, options); });
    CHECK(out.code == errc::invalid_argument);
    return out.text;
  };
  CHECK(says(why({}), "no columns"));
  CHECK(says(why({.columns = {{"a", dtype::f16, std::nullopt}}}), "column \"a\": type f16"));
  CHECK(says(why({.columns = {{"a", dtype::u8, "-1"}}}), "if_empty \"-1\" is not a valid u8"));
  CHECK(says(why({.columns = {{"", dtype::u8, std::nullopt}}}), "needs a name"));
  CHECK(says(why({.columns = {{"a", dtype::u8, std::nullopt}}, .delimiter = '"'}), "delimiter"));
}

TEST_CASE("files: patterns stand for what the storage lists, sorted; none is an error") {
  fake_ports ports;
  for (const auto* name : {"d/b.txt", "d/a.txt", "d/a1.csv", "d/sub/a.txt", "top.txt"})
    ports.storage.files[name] = std::string{name} + "\n";
  CHECK(texts(dataset::files({"d/*.txt", "top.txt"}), ports.context())
        == strings{"d/a.txt", "d/b.txt", "top.txt"});
  CHECK(texts(dataset::files({"d/a?.*"}), ports.context()) == strings{"d/a1.csv"});
  CHECK(texts(dataset::files({"*p.t*t"}), ports.context()) == strings{"top.txt"});
  CHECK(texts(dataset::text_lines({"d/*.txt"}), ports.context()) == strings{"d/a.txt", "d/b.txt"});
  CHECK(dataset::files({"d/*"}).cardinality(ports.context()) == 3);
  auto why = reading(dataset::files({"d/*.png"}), ports);
  CHECK(why.code == errc::not_found);
  CHECK(says(why.text, "no file matches d/*.png"));
  CHECK(reading(dataset::files({"nowhere/*"}), ports).code == errc::not_found);
}

TEST_CASE("flat_map and interleave: inputs in turn, blocks, and a slot refilled at its turn") {
  fake_ports ports;
  for (int file = 0; file < 4; ++file) {
    std::string lines;
    for (int i = 0; i < (file == 1 ? 1 : 3); ++i)
      lines += std::string(1, static_cast<char>('a' + file)) + std::to_string(i) + "\n";
    ports.storage.files["f" + std::to_string(file)] = lines;
  }
  auto paths = dataset::files({"f*"});
  auto lines = [](const element& x) { return dataset::text_lines({text_of(x.only())}); };
  CHECK(texts(paths.flat_map(lines), ports.context())
        == strings{"a0", "a1", "a2", "b0", "c0", "c1", "c2", "d0", "d1", "d2"});
  CHECK(texts(paths.interleave(lines, 2), ports.context())
        == strings{"a0", "b0", "a1", "a2", "c0", "c1", "d0", "c2", "d1", "d2"});
  CHECK(texts(paths.interleave(lines, 2, 2), ports.context())
        == strings{"a0", "a1", "b0", "a2", "c0", "c1", "d0", "d1", "c2", "d2"});
  CHECK(texts(paths.interleave(lines, INT64_MAX), ports.context())
        == strings{"a0", "b0", "c0", "d0", "a1", "c1", "d1", "a2", "c2", "d2"});
  CHECK(to_string(paths.interleave(lines, 2).element_spec(ports.context())[0]) == "u8[-1]");
  CHECK(paths.take(0).flat_map(lines).element_spec(ports.context()).empty());
  CHECK(texts(paths.take(0).flat_map(lines), ports.context()).empty());
  CHECK(says(failure_of([&] { (void)paths.interleave(lines, 0); }).text, "cycle is 0"));
  CHECK(says(failure_of([&] { (void)paths.interleave(lines, 1, 0); }).text, "block is 0"));
  CHECK(failure_of([&] { (void)paths.flat_map({}); }).code == errc::invalid_argument);
}

TEST_CASE("interleave: the order of the tf.data page's own example") {
  fake_ports ports;
  auto six = [](const element& x) {
    return dataset::from_tensors({x.only().reshaped({1})}).repeat(6);
  };
  auto data = dataset::range(1, 6).interleave(six, 2, 4);
  CHECK(flat(data, ports.context()) == std::vector<std::int64_t>{1, 1, 1, 1, 2, 2, 2, 2, 1, 1,
                                                                 2, 2, 3, 3, 3, 3, 4, 4, 4, 4,
                                                                 3, 3, 4, 4, 5, 5, 5, 5, 5, 5});
  CHECK(data.describe() == "range(1, 6, 1).interleave(2, 4)");
}

TEST_CASE("readers: every position of every reader is restored exactly") {
  fake_ports ports;
  ports.storage.files["f0"] = "a\nbb\n\n";
  ports.storage.files["f1"] = "c\nd\ne\nf";
  ports.storage.files["f2"] = "";
  ports.storage.files["r"] = tfrecord_bytes({"x", "", "zz"});
  auto lines = [](const element& x) { return dataset::text_lines({text_of(x.only())}).shuffle(2); };
  check_positions(dataset::text_lines({"f*"}), ports);
  check_positions(dataset::tfrecords({"r", "r"}), ports);
  check_positions(dataset::fixed_records({"f0"}, 3), ports);
  auto paths = dataset::files({"f*"});
  check_positions(paths.shuffle(3, 7).interleave(lines, 2), ports);
  check_positions(paths.interleave(lines, 3, 2).shuffle(3, 5).repeat(2), ports);
  check_positions(paths.repeat(2).flat_map(lines), ports);
}

TEST_CASE("readers: a position past the end of a file that shrank is refused") {
  fake_ports ports;
  ports.storage.files["f"] = "a\nbb\nc\n";
  auto data = dataset::text_lines({"f"});
  auto it = data.iterate(ports.context());
  it.next();
  it.next();
  auto position = it.save_position();
  ports.storage.files["f"] = "a\n";
  auto other = data.iterate(ports.context());
  auto why = failure_of([&] { other.restore_position(position); });
  CHECK(why.code == errc::corrupt);
  CHECK(says(why.text, "byte 5 of f, which has 2"));
  CHECK(text_of(other.next()[0]) == "a"); // it stayed as it was
}
