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

class tfrecord_format final : public record_format {
public:
  const char* name() const override { return "tfrecords"; }
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
    if (from.rest_bytes() < head.size())
      fail("head ends early, after " + std::to_string(from.rest_bytes()) + " bytes");
    from.read(head);
    std::span<const std::byte> in_head{head};
    check(in_head.first(8), from_little_endian<std::uint32_t>(in_head.subspan(8)), "length");
    auto length = from_little_endian<std::uint64_t>(in_head);
    if (from.rest_bytes() < tfrecord_tail_bytes || length > from.rest_bytes() - tfrecord_tail_bytes)
      fail("length " + std::to_string(length) + ", but only " + std::to_string(from.rest_bytes())
           + " bytes are left");
    tensor out{dtype::u8, {static_cast<std::int64_t>(length)}};
    from.read(out.mutable_bytes());
    std::array<std::byte, tfrecord_tail_bytes> tail{};
    from.read(tail);
    check(out.bytes(), from_little_endian<std::uint32_t>(tail), "data");
    return out;
  }
};

class record_stream final : public stream<element> {
public:
  record_stream(storage_port& storage, std::vector<std::string> paths,
                std::shared_ptr<const record_format> format)
    : storage_{storage}, paths_{std::move(paths)}, format_{std::move(format)} {}

  void start(std::uint64_t) override {
    file_ = 0;
    record_ = 0;
    cursor_.reset();
  }
  bool next(element& to) override {
    while (file_ < paths_.size()) {
      if (!cursor_)
        cursor_.emplace(storage_, paths_[file_], 0);
      if (cursor_->rest_bytes() > 0) {
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
      cursor_.emplace(storage_, paths_[file_], offset_bytes);
  }

private:
  storage_port& storage_;
  std::vector<std::string> paths_;
  std::shared_ptr<const record_format> format_;
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
                                       std::shared_ptr<const record_format> format) {
  return std::make_unique<record_stream>(storage, std::move(paths), std::move(format));
}

tensor bytes_tensor(std::string_view bytes) {
  tensor out{dtype::u8, {static_cast<std::int64_t>(bytes.size())}};
  if (!bytes.empty())
    std::memcpy(out.mutable_bytes().data(), bytes.data(), bytes.size());
  return out;
}

} // namespace troupe::detail
