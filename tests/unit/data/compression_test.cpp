// Goal: text, TFRecord and CSV files packed with gzip or zlib read as the plain ones do, told by
// their first bytes or by option, and no file is taken for packed that is not. Method: the same
// content in every form; every cut and every changed byte of a packed file.
#include <doctest/doctest.h>

#include <troupe/data/detail/crc32c.hpp>
#include <troupe/data/detail/inflate.hpp>

#include "support.hpp"

using namespace data_test;
using strings = std::vector<std::string>;

namespace {

const std::string lines = "one\ntwo\r\n\nlast";

struct form {
  std::string bytes{};
  compression packed = compression::detect;
};

/// The same content, plain and packed, detected and by option.
std::vector<form> forms_of(const std::string& plain) {
  const auto half = plain.size() / 2;
  const auto members = gzipped(plain.substr(0, half)) + gzipped(plain.substr(half));
  return {
    {plain},   {plain, compression::none},   {gzipped(plain)}, {gzipped(plain), compression::gzip},
    {members}, {members, compression::gzip}, {zlibbed(plain)}, {zlibbed(plain), compression::zlib}};
}

dataset over(const std::string& kind, compression packed) {
  return kind == "text" ? dataset::text_lines({"f", "f"}, packed)
                        : dataset::tfrecords({"f", "f"}, packed);
}

compression detected_in(const std::string& file, bool whole = true) {
  return detail::detected(std::as_bytes(std::span{file.data(), file.size()}), whole);
}

} // namespace

TEST_CASE("compression: text and TFRecord files are the same in every form, and CSV too") {
  const strings want{"one", "two", "", "last"};
  const auto twice = [](const strings& x) { // there are two files
    auto out = x;
    out.insert(out.end(), x.begin(), x.end());
    return out;
  };
  for (const auto& x : forms_of(lines)) {
    fake_ports ports;
    ports.storage.files["f"] = x.bytes;
    CHECK(texts(over("text", x.packed), ports.context()) == twice(want));
  }
  for (const auto& x : forms_of(tfrecord_bytes(want))) {
    fake_ports ports;
    ports.storage.files["f"] = x.bytes;
    CHECK(texts(over("records", x.packed), ports.context()) == twice(want));
  }
  for (const auto& x : forms_of("a,b\n1,2\n3,4\n")) {
    fake_ports ports;
    ports.storage.files["f"] = x.bytes;
    const csv_options options{.columns = {{"b", dtype::i32, std::nullopt}},
                              .compression = x.packed};
    CHECK(dataset::csv({"f"}, options).batch(9).iterate(ports.context()).next()[0]
          == tensor::vector<std::int32_t>({2, 4}));
  }
}

TEST_CASE("compression: packed files larger than any block come out whole, records as well") {
  strings want;
  for (int i = 0; i < 5; ++i)
    want.push_back(std::string(700'000 + static_cast<std::size_t>(i), static_cast<char>('a' + i)));
  std::string text;
  for (const auto& x : want)
    text += x + "\n";
  for (const auto& bytes : {gzipped(text), zlibbed(text)}) {
    fake_ports ports;
    ports.storage.files["f"] = bytes;
    CHECK(texts(dataset::text_lines({"f"}), ports.context()) == want);
  }
  std::string noise; // that does not pack, so that the packed bytes have several blocks too
  std::uint64_t z = 1;
  for (int i = 0; i < 600'000; ++i)
    noise.push_back(static_cast<char>((z = z * 6364136223846793005u + 1442695040888963407u) >> 56));
  want.push_back(noise);
  for (const auto& bytes : {gzipped(tfrecord_bytes(want)), zlibbed(tfrecord_bytes(want))}) {
    fake_ports ports;
    ports.storage.files["f"] = bytes;
    CHECK(texts(dataset::tfrecords({"f"}), ports.context()) == want);
  }
}

TEST_CASE("compression: every position in packed files is restored exactly") {
  for (const std::string kind : {"text", "records"}) {
    const auto plain = kind == "text" ? "a\nbb\n\nccc\n" : tfrecord_bytes({"a", "", "ccc"});
    for (const auto& x : forms_of(plain)) {
      fake_ports ports;
      ports.storage.files["f"] = x.bytes;
      const auto data = over(kind, x.packed);
      auto it = data.iterate(ports.context());
      strings all, positions{it.save_position()};
      while (auto e = it.try_next()) {
        all.push_back(text_of((*e)[0]));
        positions.push_back(it.save_position());
      }
      for (std::size_t n = 0; n < positions.size(); ++n) {
        auto other = data.iterate(ports.context());
        other.restore_position(positions[n]);
        strings rest;
        while (auto e = other.try_next())
          rest.push_back(text_of((*e)[0]));
        CHECK(rest == strings(all.begin() + static_cast<std::ptrdiff_t>(n), all.end()));
      }
    }
  }
}

TEST_CASE("compression: a packed file cut anywhere is corrupt and named, never fewer lines") {
  for (const auto& whole : {gzipped(lines), zlibbed(lines)})
    for (std::size_t n = 4; n < whole.size(); ++n) {
      fake_ports ports;
      ports.storage.files["f"] = whole.substr(0, n);
      const auto packed = detected_in(whole);
      strings got;
      auto why =
        failure_of([&] { got = texts(dataset::text_lines({"f"}, packed), ports.context()); });
      CHECK(why.code == errc::corrupt);
      CHECK_MESSAGE(says(why.text, "text_lines f: " + std::string{to_string(packed)}), why.text);
    }
}

TEST_CASE("compression: a packed file with any byte changed is refused or the same") {
  for (const auto& whole : {gzipped(lines), zlibbed(lines)})
    for (std::size_t i = 0; i < whole.size(); ++i) {
      fake_ports ports;
      auto bytes = whole;
      bytes[i] = static_cast<char>(bytes[i] ^ 0x41);
      ports.storage.files["f"] = bytes;
      auto why = failure_of([&] {
        CHECK(texts(dataset::text_lines({"f"}, detected_in(whole)), ports.context())
              == strings{"one", "two", "", "last"});
      });
      CHECK((why.code == errc::none || why.code == errc::corrupt));
    }
}

TEST_CASE("compression: what is not packed as the option says is refused by name") {
  fake_ports ports;
  ports.storage.files["f"] = lines;
  ports.storage.files["z"] = zlibbed(lines) + "more";
  const auto why = [&](const char* path, compression packed) {
    auto out =
      failure_of([&] { (void)texts(dataset::text_lines({path}, packed), ports.context()); });
    CHECK(out.code == errc::corrupt);
    return out.text;
  };
  CHECK(says(why("f", compression::gzip), "text_lines f: gzip: incorrect header check"));
  CHECK(says(why("f", compression::zlib), "text_lines f: zlib: "));
  CHECK(says(why("z", compression::zlib), "4 bytes after the end"));
  CHECK(failure_of([] { (void)dataset::text_lines({"f"}, static_cast<compression>(9)); }).code
        == errc::invalid_argument);
  CHECK(dataset::text_lines({"f"}).describe() == "text_lines(f)"); // as positions of before say
  CHECK(dataset::text_lines({"f"}, compression::gzip).describe() == "text_lines(f, gzip)");
}

TEST_CASE("compression: plain text is never taken for packed, whatever it begins with") {
  CHECK(detected_in("") == compression::none);
  CHECK(detected_in("x") == compression::none);
  // All pairs of characters that are a zlib header, before text.
  int pairs = 0;
  for (int a = 0x20; a < 0x7f; ++a)
    for (int b = 0x20; b < 0x7f; ++b) {
      const std::string head{static_cast<char>(a), static_cast<char>(b)};
      for (const char* rest : {"", "\n", " is a line\n", ",1,2,3\n4,5,6\n", "\xc3\xa9t\xc3\xa9\n"})
        CHECK(detected_in(head + rest) == compression::none);
      pairs += (a & 15) == 8 && a < 0x80 && (a * 256 + b) % 31 == 0 && (b & 0x20) == 0;
    }
  CHECK(pairs > 5);
  std::string prose = "x^ is how this text begins, and it goes on as text does.\n";
  while (prose.size() < 3 * detail::detect_bytes)
    prose += prose;
  CHECK(detected_in(prose) == compression::none);
  // And packed ones are found whatever packs them and however little is seen.
  const auto packed = zlibbed(prose);
  CHECK(detected_in(packed) == compression::zlib);
  CHECK(detected_in(packed.substr(0, 100), false) == compression::zlib);
  CHECK(detected_in(gzipped(prose)) == compression::gzip);
  // A TFRecord whose first length looks like a header is plain: its checksum says so.
  fake_ports ports;
  const std::string record(0x9c78, 'r');
  ports.storage.files["f"] = tfrecord_bytes({record});
  CHECK(ports.storage.files["f"].substr(0, 2) == "\x78\x9c");
  CHECK(texts(dataset::tfrecords({"f"}), ports.context()) == strings{record});
}

TEST_CASE("compression: a few packed bytes that say much cost no memory before it comes") {
  // A record that says it has 2^40 bytes: the length's checksum holds, the data ends.
  auto file = tfrecord_bytes({"abc"});
  std::string head;
  put_le(head, std::uint64_t{1} << 40, 8);
  put_le(head, detail::masked(detail::crc32c(std::as_bytes(std::span{head.data(), 8}))), 4);
  fake_ports ports;
  ports.storage.files["f"] = gzipped(head + file.substr(12));
  auto why = failure_of([&] { (void)texts(dataset::tfrecords({"f"}), ports.context()); });
  CHECK(why.code == errc::corrupt);
  CHECK(says(why.text, "length 1099511627776, but only"));
}
