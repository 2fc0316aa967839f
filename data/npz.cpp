#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <optional>

#include <zlib.h>

#include <troupe/core/error.hpp>
#include <troupe/core/shown.hpp>
#include <troupe/data/detail/file_bytes.hpp>
#include <troupe/data/detail/little_endian.hpp>
#include <troupe/data/npy.hpp>

// A zip archive, as far as numpy.savez writes one (PKWARE's APPNOTE 6.3, sections 4.3 and 4.5.3):
//   file      := (local data)* directory [end64 locator64] end comment
//   directory := (0x02014b50 ... crc packed plain name extra comment)*
// The directory is what counts: numpy leaves the sizes in the local headers open.
namespace troupe {

namespace {

using bytes = std::span<const std::byte>;
using detail::from_little_endian;

constexpr std::size_t end_bytes = 22;
constexpr std::size_t locator_bytes = 20;
constexpr std::size_t end64_bytes = 56;
constexpr std::size_t entry_bytes = 46;
constexpr std::size_t local_bytes = 30;
constexpr std::size_t comment_bytes_max = 65535;
constexpr std::uint64_t inflate_ratio_max = 1032; // of deflate
constexpr std::string_view suffix = ".npy";

struct entry {
  std::string name{}; // without the suffix of an array
  bool is_array = true;
  std::string problem{};  // why it is no array that can be read, where the directory says so
  std::string overlaps{}; // the entry whose bytes it shares
  std::uint16_t flags = 0;
  std::uint16_t method = 0;
  std::uint32_t crc = 0;
  std::uint64_t packed_bytes = 0;
  std::uint64_t plain_bytes = 0;
  std::uint64_t local_at = 0;
};

struct directory {
  std::uint64_t at = 0;
  std::uint64_t size_bytes = 0;
  std::uint64_t entries = 0;
};

class archive {
public:
  archive(bytes file, std::string_view name) : file_{file}, name_{name} {}

  result<std::vector<entry>> list() const {
    auto where = find_directory();
    if (!where)
      return std::move(where.error());
    if (where->at > file_.size() || where->size_bytes > file_.size() - where->at
        || where->entries > where->size_bytes / entry_bytes)
      return fail("directory of " + std::to_string(where->entries) + " entries in "
                  + std::to_string(where->size_bytes) + " bytes at " + std::to_string(where->at)
                  + " does not fit the file");
    std::vector<entry> out;
    std::map<std::string, std::size_t> names;
    auto rest = file_.subspan(where->at, where->size_bytes);
    for (std::uint64_t i = 0; i < where->entries; ++i) {
      auto x = take_entry(rest);
      if (!x)
        return std::move(x.error());
      auto [known, is_new] = names.emplace(x->name, out.size());
      if (!is_new && x->is_array && out[known->second].is_array)
        x->problem = out[known->second].problem = "is listed twice";
      out.push_back(std::move(*x));
    }
    if (!rest.empty())
      return fail(std::to_string(rest.size()) + " bytes after the directory's entries");
    find_overlaps(out, where->at);
    return out;
  }

  result<tensor> extract(const entry& x) const {
    if (!x.problem.empty())
      return fail("array \"" + shown(x.name) + "\" " + x.problem);
    if (!x.overlaps.empty())
      return fail_in(x, "data overlaps that of " + x.overlaps);
    auto packed = packed_of(x);
    if (!packed)
      return std::move(packed.error());
    if (x.method == 0 && x.packed_bytes != x.plain_bytes)
      return fail_in(x, "stored in " + std::to_string(x.packed_bytes) + " bytes instead of "
                          + std::to_string(x.plain_bytes));
    if (x.method == 0)
      return checked(x, *packed);
    if (x.plain_bytes / inflate_ratio_max > x.packed_bytes)
      return fail_in(
        x, std::to_string(x.packed_bytes) + " bytes cannot hold " + std::to_string(x.plain_bytes));
    auto plain = std::make_unique_for_overwrite<std::byte[]>(x.plain_bytes);
    if (auto ok = inflate_all(x, *packed, {plain.get(), x.plain_bytes}); !ok)
      return std::move(ok.error());
    return checked(x, {plain.get(), x.plain_bytes});
  }

private:
  failure fail(const std::string& what, errc code = errc::corrupt) const {
    return make_failure(code, "npz " + name_ + ": " + what);
  }
  failure fail_in(const entry& x, const std::string& what, errc code = errc::corrupt) const {
    return fail("array \"" + shown(x.name) + "\": " + what, code);
  }

  /// Bytes from the local header to the end of the data, as far as the directory tells. What lies
  /// twice in a file would multiply what is read.
  void find_overlaps(std::vector<entry>& entries, std::uint64_t directory_at) const {
    std::vector<std::size_t> order(entries.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(),
              [&](auto a, auto b) { return entries[a].local_at < entries[b].local_at; });
    std::size_t longest = 0; // of those before, the one that ends last
    std::uint64_t end = 0;
    for (std::size_t i = 0; i < order.size(); ++i) {
      auto& x = entries[order[i]];
      if (i > 0 && x.local_at < end) {
        x.overlaps = '"' + shown(entries[longest].name) + '"';
        entries[longest].overlaps = '"' + shown(x.name) + '"';
      }
      const auto x_end = end_of(x);
      if (x_end > directory_at && x.local_at <= directory_at)
        x.overlaps = "the directory";
      if (i == 0 || x_end > end) {
        end = x_end;
        longest = order[i];
      }
    }
  }

  /// Where an entry's bytes end; not before its local header does. What goes past the file is found
  /// when it is read.
  std::uint64_t end_of(const entry& x) const {
    const std::uint64_t size = file_.size();
    auto end = std::min(x.local_at, size);
    for (std::uint64_t n : {std::uint64_t{local_bytes}, names_bytes(x), x.packed_bytes})
      end = std::min(end + std::min(n, size), size);
    return end;
  }
  /// Of the local header: its name and extra field.
  std::uint64_t names_bytes(const entry& x) const {
    if (x.local_at > file_.size() || file_.size() - x.local_at < local_bytes)
      return 0;
    return std::uint64_t{number<std::uint16_t>(x.local_at + 26)}
           + number<std::uint16_t>(x.local_at + 28);
  }

  template <class T>
  T number(std::size_t at) const {
    return from_little_endian<T>(file_.subspan(at));
  }
  bool is_signed(std::size_t at, std::uint32_t signature) const {
    return at <= file_.size() && file_.size() - at >= 4 && number<std::uint32_t>(at) == signature;
  }

  /// The end record is the last thing in the file but for a comment.
  result<directory> find_directory() const {
    auto lowest = file_.size() - std::min(file_.size(), end_bytes + comment_bytes_max);
    for (auto at = file_.size(); at-- > lowest;)
      if (file_.size() - at >= end_bytes && is_signed(at, 0x06054b50)
          && number<std::uint16_t>(at + 20) == file_.size() - at - end_bytes)
        return read_end(at);
    return fail("no zip directory in " + std::to_string(file_.size()) + " bytes");
  }

  result<directory> read_end(std::size_t at) const {
    directory out{number<std::uint32_t>(at + 16), number<std::uint32_t>(at + 12),
                  number<std::uint16_t>(at + 10)};
    if (number<std::uint16_t>(at + 4) != 0 || number<std::uint16_t>(at + 6) != 0)
      return fail("disk number is " + std::to_string(number<std::uint16_t>(at + 4))
                  + ", multi-part archives are not supported");
    if (out.at != UINT32_MAX && out.size_bytes != UINT32_MAX && out.entries != UINT16_MAX)
      return out;
    if (at < locator_bytes || !is_signed(at - locator_bytes, 0x07064b50))
      return out; // the numbers are what they are
    auto end64 = number<std::uint64_t>(at - locator_bytes + 8);
    if (end64 > file_.size() || file_.size() - end64 < end64_bytes || !is_signed(end64, 0x06064b50))
      return fail("zip64 end record at " + std::to_string(end64) + " is invalid");
    return directory{number<std::uint64_t>(end64 + 48), number<std::uint64_t>(end64 + 40),
                     number<std::uint64_t>(end64 + 32)};
  }

  result<entry> take_entry(bytes& rest) const {
    if (rest.size() < entry_bytes || from_little_endian<std::uint32_t>(rest) != 0x02014b50)
      return fail("directory ends early or holds no entry, " + std::to_string(rest.size())
                  + " bytes before its end");
    auto u16 = [&](std::size_t at) { return from_little_endian<std::uint16_t>(rest.subspan(at)); };
    auto u32 = [&](std::size_t at) { return from_little_endian<std::uint32_t>(rest.subspan(at)); };
    entry out{.flags = u16(8),
              .method = u16(10),
              .crc = u32(16),
              .packed_bytes = u32(20),
              .plain_bytes = u32(24),
              .local_at = u32(42)};
    std::size_t name_bytes = u16(28);
    std::size_t extra_bytes = u16(30);
    auto all = entry_bytes + name_bytes + extra_bytes + u16(32);
    if (rest.size() < all)
      return fail("directory entry of " + std::to_string(all) + " bytes in "
                  + std::to_string(rest.size()));
    auto name = rest.subspan(entry_bytes, name_bytes);
    out.name.assign(reinterpret_cast<const char*>(name.data()), name.size());
    widen(rest.subspan(entry_bytes + name_bytes, extra_bytes), out);
    rest = rest.subspan(all);
    out.is_array = out.name.ends_with(suffix);
    if (out.is_array)
      out.name.resize(out.name.size() - suffix.size());
    return out;
  }

  /// Takes the 64-bit numbers that the extra field 1 has for those that are all ones.
  static void widen(bytes extra, entry& to) {
    while (extra.size() >= 4) {
      auto id = from_little_endian<std::uint16_t>(extra);
      std::size_t size = from_little_endian<std::uint16_t>(extra.subspan(2));
      extra = extra.subspan(4);
      if (size > extra.size())
        break;
      auto field = extra.first(size);
      extra = extra.subspan(size);
      if (id != 1)
        continue;
      for (auto* x : {&to.plain_bytes, &to.packed_bytes, &to.local_at})
        if (*x == UINT32_MAX) {
          if (field.size() < 8) {
            to.problem = "has a truncated zip64 field";
            return;
          }
          *x = from_little_endian<std::uint64_t>(field);
          field = field.subspan(8);
        }
    }
  }

  result<bytes> packed_of(const entry& x) const {
    if ((x.flags & 1) != 0)
      return fail_in(x, "is encrypted", errc::invalid_argument);
    if (x.method != 0 && x.method != 8)
      return fail_in(
        x, "compression method " + std::to_string(x.method) + " is not 0 (stored) or 8 (deflated)",
        errc::invalid_argument);
    if (x.local_at > file_.size() || file_.size() - x.local_at < local_bytes
        || !is_signed(x.local_at, 0x04034b50))
      return fail_in(x, "no local header at byte " + std::to_string(x.local_at));
    auto begin = x.local_at + local_bytes + number<std::uint16_t>(x.local_at + 26)
                 + number<std::uint16_t>(x.local_at + 28);
    if (begin > file_.size() || x.packed_bytes > file_.size() - begin)
      return fail_in(x, std::to_string(x.packed_bytes) + " bytes at " + std::to_string(begin)
                          + " extend past the end of the file");
    return file_.subspan(begin, x.packed_bytes);
  }

  result<void> inflate_all(const entry& x, bytes packed, std::span<std::byte> to) const {
    constexpr std::size_t piece_bytes_max = std::size_t{1} << 30;
    z_stream state{};
    if (inflateInit2(&state, -MAX_WBITS) != Z_OK)
      return fail_in(x, "inflate: out of memory", errc::io_failed);
    const std::unique_ptr<z_stream, int (*)(z_stream*)> closing{&state, inflateEnd};
    auto code = Z_OK;
    do {
      auto in_bytes = std::min(packed.size(), piece_bytes_max);
      auto out_bytes = std::min(to.size(), piece_bytes_max);
      // zlib's interface is not const-correct; it only reads from next_in.
      state.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data()));
      state.avail_in = static_cast<uInt>(in_bytes);
      state.next_out = reinterpret_cast<Bytef*>(to.data());
      state.avail_out = static_cast<uInt>(out_bytes);
      code = inflate(&state, Z_NO_FLUSH);
      packed = packed.subspan(in_bytes - state.avail_in);
      to = to.subspan(out_bytes - state.avail_out);
    } while (code == Z_OK);
    if (code == Z_STREAM_END && packed.empty() && to.empty())
      return {};
    if (code == Z_STREAM_END || code == Z_BUF_ERROR)
      return fail_in(x, "deflated data is not " + std::to_string(x.plain_bytes) + " bytes long");
    return fail_in(x, std::string{"inflate: "} + (state.msg ? state.msg : "invalid data"));
  }

  result<tensor> checked(const entry& x, bytes plain) const {
    auto crc = crc32_z(0, reinterpret_cast<const Bytef*>(plain.data()), plain.size());
    if (crc != x.crc)
      return fail_in(x,
                     "CRC-32 is " + std::to_string(crc) + " instead of " + std::to_string(x.crc));
    return parse_npy(plain, name_ + ":" + shown(x.name));
  }

  bytes file_;
  std::string name_;
};

constexpr std::size_t names_shown_max = 50;

std::string names_of(const std::vector<entry>& entries) {
  std::vector<std::string> out;
  for (const auto& x : entries)
    if (x.is_array && out.size() < names_shown_max)
      out.push_back(shown(x.name));
  const auto all =
    std::count_if(entries.begin(), entries.end(), [](const entry& x) { return x.is_array; });
  auto text = detail::joined(out);
  if (static_cast<std::size_t>(all) > out.size())
    text += " and " + std::to_string(static_cast<std::size_t>(all) - out.size()) + " more";
  return text;
}

} // namespace

result<std::vector<named_tensor>> parse_npz(std::span<const std::byte> file, std::string_view name,
                                            std::span<const std::string> names) {
  const archive from{file, name};
  auto entries = from.list();
  if (!entries)
    return std::move(entries.error());
  std::vector<const entry*> wanted;
  for (const auto& x : names) {
    auto at = std::find_if(entries->begin(), entries->end(),
                           [&](const entry& e) { return e.is_array && e.name == x; });
    if (at == entries->end())
      return make_failure(errc::not_found, "npz " + std::string{name} + ": no array \"" + shown(x)
                                             + "\" among " + names_of(*entries));
    wanted.push_back(&*at);
  }
  for (const auto& x : *entries) {
    if (names.empty() && !x.is_array)
      return make_failure(errc::invalid_argument,
                          "npz " + std::string{name} + ": entry \"" + shown(x.name)
                            + "\" is not a .npy file; request arrays by name");
    if (names.empty())
      wanted.push_back(&x);
  }
  std::vector<named_tensor> out;
  for (const auto* x : wanted) {
    auto value = from.extract(*x);
    if (!value)
      return std::move(value.error());
    out.push_back({x->name, std::move(*value)});
  }
  return out;
}

result<std::vector<named_tensor>> read_npz(storage_port& storage, const std::string& path,
                                           std::span<const std::string> names) {
  auto file = detail::read_file(storage, path);
  if (!file)
    return std::move(file.error());
  return parse_npz(file->all(), path, names);
}

} // namespace troupe
