#include <troupe/data/idx.hpp>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>

#include <troupe/core/error.hpp>
#include <troupe/data/detail/file_bytes.hpp>
#include <troupe/data/detail/inflate.hpp>

// Grammar of an IDX file (big-endian), after LeCun's description of the MNIST files:
//   file   := 0x00 0x00 type:u8 rank:u8 extent:u32{rank} data
//   type   := 0x08 u8 | 0x09 i8 | 0x0B i16 | 0x0C i32 | 0x0D f32 | 0x0E f64
// A gzipped file is one or more gzip members (RFC 1952) that hold such bytes.
namespace troupe {

namespace {

constexpr std::size_t first_block_bytes = std::size_t{1} << 20;
constexpr std::size_t rank_max = 16; // of `is_sane`

/// Bytes of an IDX file one after the other, whatever they are packed in.
class byte_source {
public:
  virtual ~byte_source() = default;
  /// Fills `to` as far as bytes go; fewer than asked means the end.
  virtual result<std::size_t> read(std::span<std::byte> to) = 0;
};

class plain_source final : public byte_source {
public:
  explicit plain_source(std::span<const std::byte> rest) : rest_{rest} {}
  result<std::size_t> read(std::span<std::byte> to) override {
    auto n = std::min(to.size(), rest_.size());
    if (n > 0)
      std::memcpy(to.data(), rest_.data(), n);
    rest_ = rest_.subspan(n);
    return n;
  }

private:
  std::span<const std::byte> rest_;
};

class gzip_source final : public byte_source {
public:
  gzip_source(std::span<const std::byte> file, const std::string& name)
    : rest_{file}, inflater_{compression::gzip, "idx " + name} {}

  result<std::size_t> read(std::span<std::byte> to) override {
    std::size_t done = 0;
    while (done < to.size()) {
      auto step = inflater_.run(rest_, to.subspan(done));
      if (!step)
        return std::move(step.error());
      rest_ = rest_.subspan(step->taken);
      done += step->made;
      if (step->made == 0 && rest_.empty()) {
        if (auto ok = inflater_.finish(); !ok)
          return std::move(ok.error());
        break;
      }
    }
    return done;
  }

private:
  std::span<const std::byte> rest_;
  detail::inflater inflater_;
};

struct element_code {
  dtype type;           // in memory
  std::size_t in_bytes; // an element in the file
};

std::optional<element_code> element_of(std::uint8_t code) {
  switch (code) {
    case 0x08: return element_code{dtype::u8, 1};
    case 0x09: return element_code{dtype::i8, 1};
    case 0x0b: return element_code{dtype::i32, 2};
    case 0x0c: return element_code{dtype::i32, 4};
    case 0x0d: return element_code{dtype::f32, 4};
    case 0x0e: return element_code{dtype::f64, 8};
    default: return std::nullopt;
  }
}

template <class T>
T from_big_endian(const std::byte* at) {
  T out = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i)
    out = static_cast<T>((out << 8) | std::to_integer<T>(at[i]));
  return out;
}

/// What the header says.
struct header {
  element_code code{};
  shape_t shape{};
  std::size_t data_bytes = 0; // in the file
};

class parser {
public:
  parser(byte_source& in, std::string name) : in_{in}, name_{std::move(name)} {}

  result<tensor> run() {
    auto head = read_header();
    if (!head)
      return std::move(head.error());
    auto data = read_data(head->data_bytes);
    if (!data)
      return std::move(data.error());
    std::byte extra{};
    auto more = in_.read({&extra, 1});
    if (!more)
      return std::move(more.error());
    if (*more != 0)
      return fail("bytes after the array of " + std::to_string(head->data_bytes) + " bytes, shape "
                  + to_string(head->shape));
    return convert(*head, *data);
  }

private:
  failure fail(const std::string& what) const {
    return make_failure(errc::corrupt, "idx " + name_ + ": " + what);
  }

  result<void> read_exactly(std::span<std::byte> to, const std::string& field) {
    auto n = in_.read(to);
    if (!n)
      return std::move(n.error());
    if (*n < to.size())
      return fail(field + " is truncated: " + std::to_string(*n) + " of "
                  + std::to_string(to.size()) + " bytes");
    return {};
  }

  result<header> read_header() {
    std::byte magic[4]{};
    if (auto ok = read_exactly(magic, "magic"); !ok)
      return std::move(ok.error());
    if (magic[0] != std::byte{0} || magic[1] != std::byte{0})
      return fail("magic begins with " + std::to_string(from_big_endian<std::uint16_t>(magic))
                  + " instead of 0");
    auto code = element_of(std::to_integer<std::uint8_t>(magic[2]));
    if (!code)
      return fail("type code " + std::to_string(std::to_integer<int>(magic[2]))
                  + " is not 8, 9, 11, 12, 13 or 14");
    auto rank = std::to_integer<std::size_t>(magic[3]);
    if (rank > rank_max)
      return fail("rank " + std::to_string(rank) + " exceeds " + std::to_string(rank_max));
    header out{.code = *code, .shape = shape_t(rank), .data_bytes = 0};
    for (std::size_t axis = 0; axis < rank; ++axis) {
      std::byte raw[4]{};
      if (auto ok = read_exactly(raw, "extent " + std::to_string(axis)); !ok)
        return std::move(ok.error());
      out.shape[axis] = from_big_endian<std::uint32_t>(raw);
    }
    if (!is_sane(out.shape, code->type))
      return fail("extents " + to_string(out.shape) + " of " + to_string(code->type) + " overflow");
    out.data_bytes = static_cast<std::size_t>(count_of(out.shape)) * code->in_bytes;
    return out;
  }

  /// Grows with what arrives, at most by doubling: a header that lies costs no more than the file
  /// holds.
  result<tensor> read_data(std::size_t data_bytes) {
    tensor block{dtype::u8, {static_cast<std::int64_t>(std::min(data_bytes, first_block_bytes))}};
    std::size_t held = 0;
    for (;;) {
      auto want = block.size_bytes() - held;
      auto n = in_.read(block.mutable_bytes().subspan(held));
      if (!n)
        return std::move(n.error());
      held += *n;
      if (*n < want)
        return fail("data is truncated: " + std::to_string(held) + " of "
                    + std::to_string(data_bytes) + " bytes");
      if (held == data_bytes)
        return block;
      tensor larger{dtype::u8, {static_cast<std::int64_t>(std::min(data_bytes, 2 * held))}};
      std::memcpy(larger.mutable_bytes().data(), block.bytes().data(), held);
      block = std::move(larger);
    }
  }

  template <class In, class Out, class Bits>
  static tensor swapped(const header& head, const tensor& data) {
    tensor out{head.code.type, head.shape};
    auto to = out.mutable_as<Out>();
    for (std::size_t i = 0; i < to.size(); ++i)
      to[i] = static_cast<Out>(
        std::bit_cast<In>(from_big_endian<Bits>(data.bytes().data() + i * sizeof(In))));
    return out;
  }

  static tensor convert(const header& head, const tensor& data) {
    switch (head.code.type) {
      case dtype::i8: return swapped<std::int8_t, std::int8_t, std::uint8_t>(head, data);
      case dtype::i32:
        return head.code.in_bytes == 2
                 ? swapped<std::int16_t, std::int32_t, std::uint16_t>(head, data)
                 : swapped<std::int32_t, std::int32_t, std::uint32_t>(head, data);
      case dtype::f32: return swapped<float, float, std::uint32_t>(head, data);
      case dtype::f64: return swapped<double, double, std::uint64_t>(head, data);
      default: return data.reshaped(head.shape);
    }
  }

  byte_source& in_;
  std::string name_;
};

bool is_gzip(std::span<const std::byte> file) {
  return file.size() >= 2 && file[0] == std::byte{0x1f} && file[1] == std::byte{0x8b};
}

} // namespace

result<tensor> parse_idx(std::span<const std::byte> file, std::string_view name) {
  if (is_gzip(file)) {
    gzip_source in{file, std::string{name}};
    return parser{in, std::string{name}}.run();
  }
  plain_source in{file};
  return parser{in, std::string{name}}.run();
}

result<tensor> read_idx(storage_port& storage, const std::string& path) {
  auto file = detail::read_file(storage, path);
  if (!file)
    return std::move(file.error());
  return parse_idx(file->all(), path);
}

} // namespace troupe
