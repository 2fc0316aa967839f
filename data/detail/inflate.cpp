#include <troupe/data/detail/inflate.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include <zlib.h>

#include <troupe/core/error.hpp>

namespace troupe {

std::string_view to_string(compression x) {
  switch (x) {
    case compression::detect: return "detect";
    case compression::none: return "none";
    case compression::gzip: return "gzip";
    case compression::zlib: return "zlib";
  }
  return "compression(?)";
}

namespace detail {

namespace {

constexpr std::size_t piece_bytes_max = std::size_t{1} << 30; // what one zlib call is given
constexpr std::byte gzip_first{0x1f};

int byte_at(std::span<const std::byte> bytes, std::size_t i) {
  return std::to_integer<int>(bytes[i]);
}

bool begins_gzip(std::span<const std::byte> head) {
  return head.size() >= 4 && head[0] == gzip_first && byte_at(head, 1) == 0x8b
         && byte_at(head, 2) == 8 && (byte_at(head, 3) & 0xe0) == 0;
}

bool begins_zlib(std::span<const std::byte> head) {
  return head.size() >= 2 && (byte_at(head, 0) & 0x0f) == 8 && byte_at(head, 0) >> 4 <= 7
         && (byte_at(head, 0) * 256 + byte_at(head, 1)) % 31 == 0 && (byte_at(head, 1) & 0x20) == 0;
}

/// Control characters but blanks and the escape: packed bytes have them soon, and text has none.
bool has_controls(std::span<const std::byte> head) {
  return std::any_of(head.begin(), head.end(), [](std::byte x) {
    const auto c = std::to_integer<unsigned>(x);
    return (c < 0x20 && (c < 0x07 || c > 0x0d) && c != 0x1b) || c == 0x7f;
  });
}

} // namespace

struct inflater::state {
  compression kind;
  std::string what;
  z_stream stream{};
  bool ready = false;
  bool between = false;       ///< a stream has ended and no other begun
  bool held_back = false;     ///< more may come without another byte
  std::uint64_t at_bytes = 0; ///< packed ones so far

  state(compression k, std::string w) : kind{k}, what{std::move(w)} {
    ready = inflateInit2(&stream, (kind == compression::gzip ? 16 : 0) + MAX_WBITS) == Z_OK;
  }
  ~state() {
    if (ready)
      inflateEnd(&stream);
  }
  state(const state&) = delete;
  state& operator=(const state&) = delete;

  failure fail(errc code, const std::string& text) const {
    return make_failure(code, what + ": " + std::string{to_string(kind)} + ": " + text);
  }

  /// After the end: another gzip member, or an error.
  result<void> begin_again(std::span<const std::byte> in) {
    if (kind == compression::zlib || in[0] != gzip_first)
      return fail(errc::corrupt, std::to_string(in.size()) + " bytes after the end, at byte "
                                   + std::to_string(at_bytes));
    inflateReset(&stream);
    between = false;
    return {};
  }

  result<step> run(std::span<const std::byte> in, std::span<std::byte> to) {
    step out;
    while ((out.taken < in.size() || held_back) && out.made < to.size()) {
      if (between)
        if (auto ok = begin_again(in.subspan(out.taken)); !ok)
          return std::move(ok.error());
      const auto in_bytes = std::min(in.size() - out.taken, piece_bytes_max);
      const auto out_bytes = std::min(to.size() - out.made, piece_bytes_max);
      // zlib's interface is not const-correct; it only reads from next_in.
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(in.data() + out.taken));
      stream.avail_in = static_cast<uInt>(in_bytes);
      stream.next_out = reinterpret_cast<Bytef*>(to.data() + out.made);
      stream.avail_out = static_cast<uInt>(out_bytes);
      const auto code = inflate(&stream, Z_NO_FLUSH);
      out.taken += in_bytes - stream.avail_in;
      at_bytes += in_bytes - stream.avail_in;
      out.made += out_bytes - stream.avail_out;
      held_back = stream.avail_out == 0 && code != Z_STREAM_END;
      if (code == Z_STREAM_END) {
        between = true;
      } else if (code != Z_OK && code != Z_BUF_ERROR) {
        return fail(errc::corrupt, std::string{code == Z_NEED_DICT ? "needs a dictionary"
                                               : stream.msg        ? stream.msg
                                                                   : "invalid data"}
                                     + " at byte " + std::to_string(at_bytes));
      }
    }
    return out;
  }
};

inflater::inflater(compression kind, std::string what)
  : state_{std::make_unique<state>(kind, std::move(what))} {}
inflater::~inflater() = default;
inflater::inflater(inflater&&) noexcept = default;
inflater& inflater::operator=(inflater&&) noexcept = default;

result<inflater::step> inflater::run(std::span<const std::byte> in, std::span<std::byte> to) {
  if (!state_->ready)
    return state_->fail(errc::io_failed, "out of memory");
  return state_->run(in, to);
}

result<void> inflater::finish() const {
  if (state_->between)
    return {};
  return state_->fail(errc::corrupt, "compressed data is truncated after "
                                       + std::to_string(state_->at_bytes) + " bytes");
}

compression detected(std::span<const std::byte> head, bool whole) {
  if (begins_gzip(head))
    return compression::gzip;
  if (!begins_zlib(head))
    return compression::none;
  if (has_controls(head.first(std::min<std::size_t>(head.size(), 512))))
    return compression::zlib;
  auto in = head.first(std::min(head.size(), detect_bytes));
  whole = whole && in.size() == head.size();
  inflater trial{compression::zlib, ""};
  std::array<std::byte, 4096> waste;
  for (bool full = true; full;) { // what is made is thrown away, so that it may be much
    const auto done = trial.run(in, waste);
    if (!done)
      return compression::none;
    in = in.subspan(done->taken);
    full = done->made == waste.size();
  }
  return !whole || trial.finish() ? compression::zlib : compression::none;
}

} // namespace detail

} // namespace troupe
