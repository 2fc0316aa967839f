// Files that datasets read, and positions of a worker's input.
#include <cstring>

#include <troupe/core/error.hpp>
#include <troupe/data/detail/crc32c.hpp>
#include <troupe/data/detail/csv_parse.hpp>
#include <troupe/data/detail/position.hpp>
#include <troupe/data/distributed_input.hpp>
#include <troupe/data/iterator.hpp>
#include <troupe/data/npy.hpp>
#include <troupe/data/tfrecord.hpp>

#include "../unit/data/zip_support.hpp"
#include "message_decoders.hpp"

namespace fuzz {

namespace {

using namespace troupe;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span{text});
}

void require_refusal(const failure& why, const char* what) {
  require(why.code == errc::corrupt || why.code == errc::invalid_argument,
          std::string{what} + " that is refused is corrupt or of a kind that is not read");
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
  return true;
}

std::vector<std::string> npy_seeds() {
  return {npy_of(tensor::vector<std::int32_t>({1, -2, 3, -4, 5, 6}).reshaped({2, 3})),
          npy_of(tensor::zeros(dtype::bf16, {2})), npy_of(tensor::scalar(2.5)),
          data_test::npy_bytes(data_test::npy_header(">f4", "(1L,)"), "1234", 2)};
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
  return true;
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
}

} // namespace fuzz
