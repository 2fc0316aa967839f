#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include <zlib.h>

#include <troupe/core/error.hpp>
#include <troupe/core/shown.hpp>
#include <troupe/data/detail/whole_file.hpp>
#include <troupe/data/npy.hpp>

// What is written of a zip archive (PKWARE's APPNOTE 6.3), all numbers little-endian:
//   file      := (local head array)* central* [end64 locator64] end
//   local     := 0x04034b50 common size:u32 size:u32 name_bytes:u16 extra_bytes:u16 name extra
//   central   := 0x02014b50 version:u16 common size:u32 size:u32 name_bytes:u16 extra_bytes:u16
//                0{14} at:u32 name extra
//   common    := version:u16 flags:u16 method:u16 time:u16 date:u16 crc:u32
//   extra     := 1:u16 bytes:u16 u64*                  the numbers that are all ones above
// Nothing is packed, and the date is always the first of 1980: the same arrays make the same file.
namespace troupe {

namespace {

constexpr std::size_t name_bytes_max = 65'000;
constexpr std::uint64_t u32_max = UINT32_MAX;
constexpr std::uint64_t entries32_max = UINT16_MAX;
constexpr std::uint64_t version = 45; // that of zip64
constexpr std::uint64_t utf8_flag = 1 << 11;
constexpr std::uint64_t first_of_1980 = 1 << 5 | 1;

void put(std::string& to, std::uint64_t x, int bytes) {
  for (int i = 0; i < bytes; ++i)
    to.push_back(static_cast<char>(x >> (8 * i)));
}

/// `x`, or all ones where it stands in the extra field.
void put_or_ones(std::string& to, std::uint64_t x) { put(to, std::min(x, u32_max), 4); }

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span{text.data(), text.size()});
}

std::uint32_t checksum(std::uint32_t before, std::span<const std::byte> bytes) {
  return static_cast<std::uint32_t>(
    crc32_z(before, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

struct entry {
  std::string name{}; // with the suffix
  std::uint32_t crc = 0;
  std::uint64_t size_bytes = 0;
  std::uint64_t at = 0;

  void put_common(std::string& to) const {
    put(to, version, 2);
    put(to, utf8_flag, 2);
    put(to, 0, 4); // method, time
    put(to, first_of_1980, 2);
    put(to, crc, 4);
  }
  /// The numbers that do not fit into 32 bits.
  std::string extra(bool with_place) const {
    std::string numbers;
    for (int i = 0; i < 2 && size_bytes >= u32_max; ++i)
      put(numbers, size_bytes, 8);
    if (with_place && at >= u32_max)
      put(numbers, at, 8);
    std::string out;
    if (!numbers.empty()) {
      put(out, 1, 2);
      put(out, numbers.size(), 2);
    }
    return out + numbers;
  }
  std::string local() const {
    std::string out;
    const auto more = extra(false);
    put(out, 0x04034b50, 4);
    put_common(out);
    put_or_ones(out, size_bytes);
    put_or_ones(out, size_bytes);
    put(out, name.size(), 2);
    put(out, more.size(), 2);
    return out + name + more;
  }
  std::string central() const {
    std::string out;
    const auto more = extra(true);
    put(out, 0x02014b50, 4);
    put(out, version, 2);
    put_common(out);
    put_or_ones(out, size_bytes);
    put_or_ones(out, size_bytes);
    put(out, name.size(), 2);
    put(out, more.size(), 2);
    put(out, 0, 8); // comment, disk, attributes
    put(out, 0, 2);
    put_or_ones(out, at);
    return out + name + more;
  }
};

/// What ends an archive whose directory is `size_bytes` at `at`.
std::string end_of(std::uint64_t entries, std::uint64_t size_bytes, std::uint64_t at) {
  std::string out;
  if (entries >= entries32_max || size_bytes >= u32_max || at >= u32_max) {
    put(out, 0x06064b50, 4);
    put(out, 44, 8); // bytes that follow
    put(out, version, 2);
    put(out, version, 2);
    put(out, 0, 8); // disks
    for (auto x : {entries, entries, size_bytes, at})
      put(out, x, 8);
    put(out, 0x07064b50, 4);
    put(out, 0, 4);
    put(out, at + size_bytes, 8);
    put(out, 1, 4);
  }
  put(out, 0x06054b50, 4);
  put(out, 0, 4);
  put(out, std::min(entries, entries32_max), 2);
  put(out, std::min(entries, entries32_max), 2);
  put_or_ones(out, size_bytes);
  put_or_ones(out, at);
  put(out, 0, 2);
  return out;
}

} // namespace

struct npz_writer::state {
  std::string path;
  detail::whole_file file;
  std::vector<entry> entries{};
  std::set<std::string> names{};
  std::uint64_t at = 0;
  std::optional<failure> broken{};

  failure fail(failure why) {
    broken = std::move(why);
    return *broken;
  }
  result<void> write(std::span<const std::byte> bytes) {
    if (auto done = file.write(bytes); !done)
      return fail(std::move(done.error()));
    at += bytes.size();
    return {};
  }
};

npz_writer::npz_writer(std::unique_ptr<state> made) : state_{std::move(made)} {}
npz_writer::~npz_writer() = default;
npz_writer::npz_writer(npz_writer&&) noexcept = default;

result<npz_writer> npz_writer::create(storage_port& storage, std::string path) {
  auto file = detail::whole_file::create(storage, path);
  if (!file)
    return std::move(file.error());
  return npz_writer{
    std::unique_ptr<state>{new state{.path = std::move(path), .file = std::move(*file)}}};
}

result<void> npz_writer::add(const std::string& name, const tensor& x) {
  auto& s = *state_;
  if (s.broken)
    return *s.broken;
  const auto refuse = [&](const std::string& what) {
    return s.fail(make_failure(errc::invalid_argument,
                               "npz " + s.path + ": array \"" + shown(name) + "\": " + what));
  };
  if (name.empty() || name.size() > name_bytes_max)
    return refuse("a name has 1 to " + std::to_string(name_bytes_max) + " bytes, this one "
                  + std::to_string(name.size()));
  if (!x.defined())
    return refuse("the tensor has no value");
  if (!s.names.insert(name).second)
    return refuse("was already added");
  auto head = npy_head(x.type(), x.shape());
  if (!head)
    return s.fail(std::move(head.error()));
  const entry e{.name = name + ".npy",
                .crc = checksum(checksum(0, bytes_of(*head)), x.bytes()),
                .size_bytes = head->size() + x.size_bytes(),
                .at = s.at};
  const auto local = e.local();
  s.entries.push_back(e);
  for (auto part : {bytes_of(local), bytes_of(*head), x.bytes()})
    if (auto done = s.write(part); !done)
      return done;
  return {};
}

result<void> npz_writer::close() {
  auto& s = *state_;
  if (s.broken)
    return *s.broken;
  const auto begin = s.at;
  for (const auto& e : s.entries)
    if (auto done = s.write(bytes_of(e.central())); !done)
      return done;
  if (auto done = s.write(bytes_of(end_of(s.entries.size(), s.at - begin, begin))); !done)
    return done;
  if (auto done = s.file.close(); !done)
    return s.fail(std::move(done.error()));
  s.broken = make_failure(errc::wrong_state, "npz " + s.path + ": the writer was closed");
  return {};
}

result<void> write_npz(storage_port& storage, const std::string& path,
                       std::span<const named_tensor> arrays) {
  auto to = npz_writer::create(storage, path);
  if (!to)
    return std::move(to.error());
  for (const auto& x : arrays)
    if (auto done = to->add(x.name, x.value); !done)
      return done;
  return to->close();
}

} // namespace troupe
