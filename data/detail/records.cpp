#include <troupe/data/detail/records.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include <troupe/core/error.hpp>
#include <troupe/data/detail/crc32c.hpp>
#include <troupe/data/detail/little_endian.hpp>

namespace troupe::detail {

namespace {

class line_format final : public record_format {
public:
  const char* name() const override { return "text_lines"; }
  tensor read(file_cursor& from, std::uint64_t) const override {
    if (from.offset_bytes() == 0)
      if (auto why = wide_text(from.peek(), false); !why.empty())
        throw_failure(errc::corrupt, "text_lines " + from.path() + ": " + why);
    std::string line;
    for (bool ended = false; !ended;) {
      auto block = from.peek();
      if (block.empty())
        break;
      const auto* mark = std::memchr(block.data(), '\n', block.size());
      ended = mark != nullptr;
      auto n = ended ? static_cast<std::size_t>(static_cast<const std::byte*>(mark) - block.data())
                     : block.size();
      line.append(reinterpret_cast<const char*>(block.data()), n);
      from.advance(n + (ended ? 1 : 0));
      if (ended && line.ends_with('\r'))
        line.pop_back();
    }
    return bytes_tensor(line);
  }
};

/// Whether the checksum of a first record's length holds.
bool begins_with_record(std::span<const std::byte> head) {
  return head.size() >= tfrecord_head_bytes
         && masked(crc32c(head.first(8))) == from_little_endian<std::uint32_t>(head.subspan(8));
}

class tfrecord_format final : public record_format {
public:
  const char* name() const override { return "tfrecords"; }
  bool (*plain_test() const)(std::span<const std::byte>) override { return begins_with_record; }
  tensor read(file_cursor& from, std::uint64_t number) const override {
    auto at = from.offset_bytes();
    auto fail = [&](const std::string& what) {
      throw_failure(errc::corrupt, "tfrecord " + from.path() + ": record " + std::to_string(number)
                                     + " at byte " + std::to_string(at) + ": " + what);
    };
    auto check = [&](std::span<const std::byte> bytes, std::uint32_t want, const char* what) {
      auto got = masked(crc32c(bytes));
      if (got != want)
        fail("checksum of its " + std::string{what} + " is " + std::to_string(got) + " instead of "
             + std::to_string(want));
    };
    std::array<std::byte, tfrecord_head_bytes> head{};
    if (auto n = from.read(head); n < head.size())
      fail("header is truncated after " + std::to_string(n) + " bytes");
    std::span<const std::byte> in_head{head};
    check(in_head.first(8), from_little_endian<std::uint32_t>(in_head.subspan(8)), "length");
    auto length = from_little_endian<std::uint64_t>(in_head);
    auto too_long = [&](std::uint64_t rest) {
      fail("length " + std::to_string(length) + ", but only " + std::to_string(rest)
           + " bytes are left");
    };
    if (auto rest = from.rest_bytes();
        rest && (*rest < tfrecord_tail_bytes || length > *rest - tfrecord_tail_bytes))
      too_long(*rest);
    auto out = read_data(from, length);
    if (static_cast<std::uint64_t>(out.size()) < length)
      too_long(static_cast<std::uint64_t>(out.size()));
    std::array<std::byte, tfrecord_tail_bytes> tail{};
    if (auto n = from.read(tail); n < tail.size())
      too_long(length + n);
    check(out.bytes(), from_little_endian<std::uint32_t>(tail), "data");
    return out;
  }

private:
  static constexpr std::uint64_t first_bytes = std::uint64_t{1} << 20;

  /// At most `length` bytes. Where nobody knows how many there are, it grows with those that come.
  static tensor read_data(file_cursor& from, std::uint64_t length) {
    auto sized = [](std::uint64_t n) { return tensor{dtype::u8, {static_cast<std::int64_t>(n)}}; };
    auto block = sized(from.rest_bytes() ? length : std::min(length, first_bytes));
    for (std::uint64_t held = 0;;) {
      auto want = block.size_bytes() - held;
      auto n = from.read(block.mutable_bytes().subspan(held));
      held += n;
      if (n < want)
        return block.rows(0, static_cast<std::int64_t>(held));
      if (held == length)
        return block;
      auto larger = sized(std::min(length, 2 * held));
      std::memcpy(larger.mutable_bytes().data(), block.bytes().data(), held);
      block = std::move(larger);
    }
  }
};

class record_stream final : public stream<element> {
public:
  record_stream(storage_port& storage, std::vector<std::string> paths,
                std::shared_ptr<const record_format> format, compression packed)
    : storage_{storage}, paths_{std::move(paths)}, format_{std::move(format)}, packed_{packed} {}

  void start(std::uint64_t) override {
    file_ = 0;
    record_ = 0;
    cursor_.reset();
  }
  bool next(element& to) override {
    while (file_ < paths_.size()) {
      if (!cursor_)
        open_at(0);
      if (!cursor_->at_end()) {
        to = format_->read(*cursor_, record_);
        ++record_;
        return true;
      }
      cursor_.reset();
      record_ = 0;
      ++file_;
    }
    return false;
  }
  void save(position_out& out) const override {
    out.put(file_);
    out.put(record_);
    out.put(cursor_ ? cursor_->offset_bytes() : 0);
  }
  void load(position_in& in) override {
    cursor_.reset();
    file_ = in.take("file", paths_.size());
    record_ = in.take("record", UINT64_MAX);
    auto offset_bytes = in.take("byte", file_ < paths_.size() ? UINT64_MAX : 0);
    if (file_ < paths_.size())
      open_at(offset_bytes);
  }

private:
  void open_at(std::uint64_t offset_bytes) {
    cursor_.emplace(storage_, paths_[file_], format_->name(),
                    packing{packed_, format_->plain_test()}, offset_bytes);
  }

  storage_port& storage_;
  std::vector<std::string> paths_;
  std::shared_ptr<const record_format> format_;
  compression packed_;
  std::optional<file_cursor> cursor_{};
  std::uint64_t file_ = 0;
  std::uint64_t record_ = 0; // in its file
};

} // namespace

std::unique_ptr<const record_format> make_line_format() { return std::make_unique<line_format>(); }

std::unique_ptr<const record_format> make_tfrecord_format() {
  return std::make_unique<tfrecord_format>();
}

stream_ptr<element> make_record_stream(storage_port& storage, std::vector<std::string> paths,
                                       std::shared_ptr<const record_format> format,
                                       compression packed) {
  return std::make_unique<record_stream>(storage, std::move(paths), std::move(format), packed);
}

std::string wide_text(std::span<const std::byte> head, bool guess) {
  auto at = [&](std::size_t i) { return i < head.size() ? std::to_integer<int>(head[i]) : -1; };
  if ((at(0) == 0xff && at(1) == 0xfe) || (at(0) == 0xfe && at(1) == 0xff))
    return std::string{"is UTF-16 or UTF-32 (begins with "} + (at(0) == 0xff ? "FF FE" : "FE FF")
           + "); save it as UTF-8";
  if (guess && head.size() >= 2 && (at(0) == 0) != (at(1) == 0))
    return "looks like UTF-16 (byte " + std::to_string(at(0) == 0 ? 0 : 1)
           + " is 0); save it as UTF-8";
  return {};
}

tensor bytes_tensor(std::string_view bytes) {
  tensor out{dtype::u8, {static_cast<std::int64_t>(bytes.size())}};
  if (!bytes.empty())
    std::memcpy(out.mutable_bytes().data(), bytes.data(), bytes.size());
  return out;
}

} // namespace troupe::detail
