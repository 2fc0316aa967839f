// Files that datasets read, and positions of a worker's input.
#include <cstring>
#include <optional>

#include <troupe/core/error.hpp>
#include <troupe/data/detail/crc32c.hpp>
#include <troupe/data/detail/csv_parse.hpp>
#include <troupe/data/detail/position.hpp>
#include <troupe/data/distributed_input.hpp>
#include <troupe/data/iterator.hpp>
#include <troupe/data/npy.hpp>
#include <troupe/data/tfrecord.hpp>

#include "../support/bytes.hpp"
#include "../unit/data/zip_support.hpp"
#include "message_decoders.hpp"

namespace fuzz {

namespace {

using namespace troupe;
using troupe::testing::bytes_of;

void require_refusal(const failure& why, const char* what) {
  require(why.code == errc::corrupt || why.code == errc::invalid_argument
            || why.code == errc::out_of_range,
          std::string{what} + " that is refused is corrupt or of a kind that is not read");
  for (const char c : why.text)
    require(c != '\n' && c != '\x1b' && c != '\0', std::string{what} + " stands raw in a message");
}

// --- npy, npz

std::string npy_of(const tensor& x) {
  static constexpr const char* descr[]{"|u1", "|i1", "<i4", "<i8", "<f2", "|V2", "<f4", "<f8"};
  std::string shape = "(";
  for (auto extent : x.shape())
    shape += std::to_string(extent) + ",";
  std::string data{reinterpret_cast<const char*>(x.bytes().data()), x.size_bytes()};
  return data_test::npy_bytes(
    data_test::npy_header(descr[static_cast<std::size_t>(x.type())], shape + ")"), data);
}

bool decode_npy(std::string_view input) {
  auto got = parse_npy(bytes_of(input), "file");
  if (!got) {
    require_refusal(got.error(), "an npy file");
    return false;
  }
  auto again = parse_npy(bytes_of(npy_of(*got)), "file");
  require(again && *again == *got, "an array that was read and written is another");
  data_test::memory_storage disk;
  require(write_npy(disk, "file", *got).operator bool(), "an array that was read is not written");
  again = read_npy(disk, "file");
  require(again && *again == *got, "an array that was written is another");
  return true;
}

std::string fortran_npy(const std::string& descr, const std::string& shape, std::size_t bytes) {
  auto header = data_test::npy_header(descr, shape);
  header.replace(header.find("False"), 5, "True");
  return data_test::npy_bytes(header, std::string(bytes, '\3'));
}

std::vector<std::string> npy_seeds() {
  return {npy_of(tensor::vector<std::int32_t>({1, -2, 3, -4, 5, 6}).reshaped({2, 3})),
          npy_of(tensor::zeros(dtype::bf16, {2})),
          npy_of(tensor::scalar(2.5)),
          data_test::npy_bytes(data_test::npy_header(">f4", "(1L,)"), "1234", 2),
          data_test::npy_bytes(data_test::npy_header("|b1", "(3,)"), "abc"),
          fortran_npy(">u2", "(2, 3)", 12),
          fortran_npy("<i2", "(2, 1, 3)", 12),
          fortran_npy(">u8", "(2, 2)", 32)};
}

bool decode_npz(std::string_view input) {
  auto all = parse_npz(bytes_of(input), "file");
  if (!all) {
    require_refusal(all.error(), "an npz file");
    return false;
  }
  for (const auto& x : *all) {
    auto one = parse_npz(bytes_of(input), "file", std::span{&x.name, 1});
    require(one && one->size() == 1 && (*one)[0].value == x.value,
            "an array by its name is another");
  }
  data_test::memory_storage disk;
  if (!write_npz(disk, "file", *all)) // a name that numpy has none of
    return true;
  auto again = read_npz(disk, "file");
  require(again && again->size() == all->size(), "an archive that was written has other arrays");
  for (std::size_t i = 0; i < all->size(); ++i)
    require((*again)[i].name == (*all)[i].name && (*again)[i].value == (*all)[i].value,
            "an array that was written is another");
  return true;
}

/// Whatever else an archive holds, "a" is read or refused by name.
bool decode_npz_by_name(std::string_view input) {
  const std::string wanted = "a";
  auto one = parse_npz(bytes_of(input), "file", std::span{&wanted, 1});
  if (one)
    return true;
  if (one.error().code != errc::not_found)
    require_refusal(one.error(), "an npz file");
  return false;
}

std::vector<std::string> npz_by_name_seeds() {
  auto array = npy_of(tensor::vector<std::int32_t>({1, 2, 3}));
  return {data_test::zip_bytes({{"notes.txt", "hello"}, {"a.npy", array}, {"b.npy", "rubbish"}}),
          data_test::zip_bytes({{"b.npy", array, false, false, 1}, {"a.npy", array, true, true}})};
}

std::vector<std::string> npz_seeds() {
  auto array = npy_of(tensor::vector<std::int32_t>({1, 2, 3}));
  return {data_test::zip_bytes({{"a.npy", array}, {"b.npy", array, true}}),
          data_test::zip_bytes({{"a.npy", array, true, true}})};
}

// --- TFRecord

/// With checksums that hold, as far as the lengths go.
std::string repaired_records(std::string file) {
  std::size_t at = 0;
  auto seal = [&](std::size_t from, std::size_t size) {
    auto crc = detail::masked(detail::crc32c(bytes_of({file.data() + from, size})));
    std::memcpy(file.data() + from + size, &crc, sizeof crc);
  };
  while (file.size() - at >= 12) {
    std::uint64_t length = 0;
    std::memcpy(&length, file.data() + at, sizeof length);
    seal(at, 8);
    at += 12;
    if (file.size() - at < 4 || length > file.size() - at - 4)
      break;
    seal(at, length);
    at += length + 4;
  }
  return file;
}

bool decode_records(std::string_view input) {
  data_test::fake_ports ports;
  ports.storage.files["file"] = repaired_records(std::string{input});
  std::vector<std::string> records;
  auto why = data_test::failure_of(
    [&] { records = data_test::texts(dataset::tfrecords({"file"}), ports.context()); });
  if (why.code != errc::none) {
    require(why.code == errc::corrupt, "a TFRecord file that is refused is corrupt");
    return false;
  }
  require(data_test::tfrecord_bytes(records) == ports.storage.files["file"],
          "records that were read and written are others");
  return true;
}

std::vector<std::string> record_seeds() {
  return {data_test::tfrecord_bytes({"one", "", "three"}), data_test::tfrecord_bytes({})};
}

// --- CSV

bool decode_csv(std::string_view input) {
  const csv_options options{.columns = {{"a", dtype::i32, std::nullopt}, {"b", dtype::f64, "0"}}};
  auto got = detail::parse_csv(input, "file", options);
  if (!got) {
    require(got.error().code == errc::corrupt, "a CSV file that is refused is corrupt");
    return false;
  }
  require(got->size() == 2 && (*got)[0].rows() == (*got)[1].rows(), "columns differ in rows");
  require(static_cast<std::size_t>((*got)[0].rows()) <= input.size(), "rows out of nothing");
  return true;
}

std::vector<std::string> csv_seeds() {
  return {"a,b\n1,2.5\n-3,\n",
          "\xef\xbb\xbf"
          "b,\"c\nd\",a\r\n1e3,\"x\"\"y\",7\r\n"};
}

// --- packed files

/// What text_lines makes of a file; errors are `corrupt`.
std::optional<std::vector<std::string>> lines_of(std::string file, compression packed) {
  data_test::fake_ports ports;
  ports.storage.files["file"] = std::move(file);
  std::vector<std::string> out;
  auto why = data_test::failure_of(
    [&] { out = data_test::texts(dataset::text_lines({"file"}, packed), ports.context()); });
  require(why.code == errc::none || why.code == errc::corrupt, "a text that is refused is corrupt");
  return why.code == errc::none ? std::optional{out} : std::nullopt;
}

/// Bytes as they come, under every option.
bool decode_packed(std::string_view input) {
  const std::string file{input};
  auto found = lines_of(file, compression::detect);
  bool any = false;
  for (auto how : {compression::none, compression::gzip, compression::zlib}) {
    auto lines = lines_of(file, how);
    any = any || (found == lines);
  }
  require(any, "a file that is looked at is none of plain, gzip and zlib");
  return found.has_value();
}

/// A plain text, packed here: the same lines come out of every form.
bool decode_text_packed_here(std::string_view input) {
  const std::string plain{input};
  auto want = lines_of(plain, compression::none);
  const auto half = plain.size() / 2;
  auto two = data_test::gzipped(plain.substr(0, half)) + data_test::gzipped(plain.substr(half));
  for (auto file : {two, data_test::zlibbed(plain)})
    require(lines_of(file, compression::detect) == want, "a packed text has other lines");
  return want.has_value();
}

std::vector<std::string> packed_seeds() {
  return {data_test::gzipped("one\ntwo\n"), data_test::zlibbed("one\ntwo\n"), "x^ plain\n",
          data_test::gzipped("") + data_test::gzipped("a")};
}

std::vector<std::string> plain_seeds() { return {"one\ntwo\r\n\nlast", ""}; }

bool decode_records_packed_here(std::string_view input) {
  data_test::fake_ports ports;
  auto plain = repaired_records(std::string{input});
  auto read = [&](std::string file) {
    ports.storage.files["file"] = std::move(file);
    std::vector<std::string> out;
    auto why = data_test::failure_of(
      [&] { out = data_test::texts(dataset::tfrecords({"file"}), ports.context()); });
    require(why.code == errc::none || why.code == errc::corrupt,
            "a TFRecord file that is refused is corrupt");
    return why.code == errc::none ? std::optional{out} : std::nullopt;
  };
  auto want = read(plain);
  require(read(data_test::gzipped(plain)) == want && read(data_test::zlibbed(plain)) == want,
          "a packed TFRecord file has other records");
  return want.has_value();
}

// --- positions of a worker's input

constexpr std::size_t held_bytes = 32; // ended, rows gone, rows of a batch gone, batches

pipeline_pieces new_input(data_test::fake_ports& ports, bool by_stream) {
  pipeline_options options{
    .workers = 2, .worker = 1, .replicas = 2, .policy = autoshard_policy::off};
  options.rule = by_stream ? split::stream : split::even;
  return {dataset::range(40).shuffle(40, 3).batch(7), options, ports.context()};
}

/// The numbers around the iterator's position, which has a checksum of its own and is that of a
/// new one.
bool decode_input_position(std::string_view input) {
  if (input.empty())
    return false;
  data_test::fake_ports ports;
  auto by_stream = input[0] % 2 == 0;
  input.remove_prefix(1);
  auto at = new_input(ports, by_stream);
  auto whole = at.save();
  auto tail_bytes = (by_stream ? std::size_t{1} : std::size_t{3}) * 8 + 8; // cutter, checksum
  auto position = whole.substr(0, 16) + std::string{input.substr(0, held_bytes)}
                  + whole.substr(16 + held_bytes, whole.size() - 16 - held_bytes - tail_bytes);
  position += input.substr(std::min(input.size(), held_bytes));
  auto sum = detail::position_hash(position);
  position.append(reinterpret_cast<const char*>(&sum), sizeof sum);
  auto why = data_test::failure_of([&] { at.restore(position); });
  if (why.code != errc::none) {
    require(why.code == errc::corrupt || why.code == errc::mismatch,
            "a position that is refused is corrupt, or another's");
    return false;
  }
  require(at.save() == position, "a position changes when it is restored and saved");
  auto other = new_input(ports, by_stream);
  other.restore(position);
  for (int step = 0; step < 30; ++step) {
    auto here = at.next();
    auto there = other.next();
    require(here.has_data == there.has_data, "what follows a position differs in length");
    for (std::size_t i = 0; i < here.pieces.size(); ++i)
      require(here.pieces[i].data == there.pieces[i].data, "what follows a position differs");
  }
  return true;
}

std::vector<std::string> input_position_seeds() {
  std::vector<std::string> out;
  for (bool by_stream : {true, false}) {
    data_test::fake_ports ports;
    auto whole = new_input(ports, by_stream).save();
    auto tail_bytes = (by_stream ? std::size_t{1} : std::size_t{3}) * 8;
    out.push_back((by_stream ? std::string(1, '\0') : std::string{"\1"})
                  + whole.substr(16, held_bytes)
                  + whole.substr(whole.size() - 8 - tail_bytes, tail_bytes));
  }
  return out;
}

} // namespace

void add_readers(std::vector<decoder>& to) {
  to.push_back({"npy", decode_npy, npy_seeds});
  to.push_back({"npz", decode_npz, npz_seeds});
  to.push_back({"tfrecord", decode_records, record_seeds});
  to.push_back({"csv", decode_csv, csv_seeds});
  to.push_back({"input position", decode_input_position, input_position_seeds});
  to.push_back({"npz by name", decode_npz_by_name, npz_by_name_seeds});
  to.push_back({"text, packed", decode_packed, packed_seeds});
  to.push_back({"text, packed here", decode_text_packed_here, plain_seeds});
  to.push_back({"tfrecord, packed here", decode_records_packed_here, record_seeds});
}

} // namespace fuzz
