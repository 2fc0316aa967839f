#include <troupe/data/npy.hpp>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/core/shown.hpp>
#include <troupe/data/detail/file_bytes.hpp>
#include <troupe/data/detail/little_endian.hpp>
#include <troupe/data/detail/whole_file.hpp>

// Grammar, after numpy's format description (numpy.lib.format):
//   file   := 0x93 "NUMPY" major:u8 minor:u8 length header data
//   length := u16 (version 1) | u32 (versions 2, 3), little-endian
//   header := "{" (key ":" value ","?)* "}" blank*, with the keys 'descr', 'fortran_order', 'shape'
//   value  := 'text' | True | False | "(" (integer ","?)* ")"
namespace troupe {

namespace {

using detail::from_little_endian;

constexpr std::string_view magic{"\x93NUMPY", 6};
constexpr std::size_t header_bytes_max = 1 << 16;
constexpr std::size_t rank_max = 16; // of `is_sane`
constexpr std::size_t head_unit_bytes = 64;

struct header {
  std::optional<std::string> descr{};
  std::optional<bool> fortran_order{};
  std::optional<shape_t> shape{};
};

/// How elements stand in a file, and what they become.
struct element_code {
  dtype type;           // in memory
  std::size_t in_bytes; // an element in the file
  char kind;            // 'b', 'i', 'u', or 'f' for all that is kept as it is
  bool swapped;         // big-endian in the file
};

/// What a descr names, or nothing.
std::optional<element_code> element_of(std::string_view descr) {
  if (descr == "bfloat16")
    return element_code{dtype::bf16, 2, 'f', false};
  if (descr.size() != 3)
    return std::nullopt;
  struct known {
    std::string_view code;
    dtype type;
    char kind;
  };
  static constexpr known all[]{
    {"b1", dtype::u8, 'b'},  {"u1", dtype::u8, 'f'},  {"i1", dtype::i8, 'f'},
    {"i2", dtype::i32, 'i'}, {"u2", dtype::i32, 'u'}, {"i4", dtype::i32, 'f'},
    {"u4", dtype::i64, 'u'}, {"i8", dtype::i64, 'f'}, {"u8", dtype::i64, 'u'},
    {"f2", dtype::f16, 'f'}, {"f4", dtype::f32, 'f'}, {"f8", dtype::f64, 'f'},
    {"V2", dtype::bf16, 'f'}};
  for (const auto& x : all)
    if (x.code == descr.substr(1)) {
      const auto order = descr[0];
      const auto in_bytes = static_cast<std::size_t>(x.code[1] - '0');
      const bool wide = in_bytes > 1;
      if (order == '<' || order == '=' || (order == '|' && (!wide || x.type == dtype::bf16)))
        return element_code{x.type, in_bytes, x.kind, false};
      if (order == '>')
        return element_code{x.type, in_bytes, x.kind, wide};
    }
  return std::nullopt;
}

constexpr const char* types_text = "b1, u1 to u8, i1 to i8, f2, f4, f8 or bfloat16";

void swap_bytes(std::span<std::byte> elements, std::size_t each) {
  for (; !elements.empty(); elements = elements.subspan(each))
    std::reverse(elements.begin(), elements.begin() + static_cast<std::ptrdiff_t>(each));
}

/// Widens elements of `In`, which are little-endian, to those of `to`; the index of one that does
/// not fit.
template <class In, class Out>
std::optional<std::size_t> widen(std::span<const std::byte> from, std::span<Out> to) {
  for (std::size_t i = 0; i < to.size(); ++i) {
    const auto x = from_little_endian<In>(from.subspan(i * sizeof(In)));
    if constexpr (sizeof(In) == sizeof(Out))
      if (x > static_cast<In>(std::numeric_limits<Out>::max()))
        return i;
    to[i] = static_cast<Out>(x);
  }
  return std::nullopt;
}

/// The same for all that is not kept as it is. `from` is little-endian.
std::optional<std::size_t> convert(const element_code& code, std::span<const std::byte> from,
                                   tensor& to) {
  if (code.kind == 'b') {
    auto out = to.mutable_as<std::uint8_t>();
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = from[i] == std::byte{0} ? 0 : 1;
    return std::nullopt;
  }
  if (code.kind == 'i')
    return widen<std::int16_t>(from, to.mutable_as<std::int32_t>());
  switch (code.in_bytes) {
    case 2: return widen<std::uint16_t>(from, to.mutable_as<std::int32_t>());
    case 4: return widen<std::uint32_t>(from, to.mutable_as<std::int64_t>());
    default: return widen<std::uint64_t>(from, to.mutable_as<std::int64_t>());
  }
}

/// The array whose elements stand in `x` with the first axis fastest, in C order.
tensor from_fortran(const tensor& x) {
  const auto& shape = x.shape();
  tensor out{x.type(), shape};
  const auto each = size_of(x.type());
  std::vector<std::size_t> stride(shape.size(), 1); // in elements of the file
  for (std::size_t axis = 1; axis < shape.size(); ++axis)
    stride[axis] = stride[axis - 1] * static_cast<std::size_t>(shape[axis - 1]);
  std::vector<std::int64_t> index(shape.size(), 0);
  const auto from = x.bytes();
  auto to = out.mutable_bytes();
  std::size_t at = 0; // in the file
  while (!to.empty()) {
    std::memcpy(to.data(), from.data() + at * each, each);
    to = to.subspan(each);
    for (auto axis = shape.size(); axis-- > 0;) {
      at += stride[axis];
      if (++index[axis] < shape[axis])
        break;
      at -= stride[axis] * static_cast<std::size_t>(index[axis]);
      index[axis] = 0;
    }
  }
  return out;
}

/// Reads the dictionary of a header.
class header_parser {
public:
  header_parser(std::string_view text, std::string name) : rest_{text}, name_{std::move(name)} {}

  result<header> run() {
    header out;
    if (!take('{'))
      return fail("begins with " + shown());
    while (!take('}')) {
      auto key = quoted();
      if (!key || !take(':'))
        return fail("no key at " + shown());
      if (auto ok = value_of(*key, out); !ok)
        return std::move(ok.error());
      if (!take(',') && !peek('}'))
        return fail("no comma at " + shown());
    }
    blanks();
    if (!rest_.empty())
      return fail("continues with " + shown());
    for (auto [key, there] : {std::pair{"descr", out.descr.has_value()},
                              std::pair{"fortran_order", out.fortran_order.has_value()},
                              std::pair{"shape", out.shape.has_value()}})
      if (!there)
        return fail("has no " + std::string{key});
    return out;
  }

private:
  failure fail(const std::string& what) const {
    return make_failure(errc::corrupt, "npy " + name_ + ": header " + what);
  }
  std::string shown() const { return '"' + troupe::shown(rest_, 16) + '"'; }
  void blanks() {
    auto n = rest_.find_first_not_of(" \n\t");
    rest_.remove_prefix(std::min(n, rest_.size()));
  }
  bool peek(char c) {
    blanks();
    return !rest_.empty() && rest_[0] == c;
  }
  bool take(char c) {
    if (!peek(c))
      return false;
    rest_.remove_prefix(1);
    return true;
  }
  bool take_word(std::string_view word) {
    blanks();
    if (!rest_.starts_with(word))
      return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  std::optional<std::string> quoted() {
    for (char mark : {'\'', '"'})
      if (take(mark)) {
        auto n = rest_.find(mark);
        if (n == std::string_view::npos)
          return std::nullopt;
        std::string out{rest_.substr(0, n)};
        rest_.remove_prefix(n + 1);
        return out;
      }
    return std::nullopt;
  }

  result<void> value_of(const std::string& key, header& to) {
    if (key == "descr" && !to.descr) {
      to.descr = quoted();
      if (!to.descr) // a list: the fields of a structure
        return make_failure(errc::invalid_argument,
                            "npy " + name_ + ": descr " + shown() + " is not one element type");
      return {};
    }
    if (key == "fortran_order" && !to.fortran_order) {
      if (take_word("False"))
        to.fortran_order = false;
      else if (take_word("True"))
        to.fortran_order = true;
      else
        return fail("fortran_order is " + shown());
      return {};
    }
    if (key == "shape" && !to.shape)
      return read_shape(to.shape.emplace());
    return fail("key \"" + troupe::shown(key) + "\" is unknown or duplicate");
  }

  result<void> read_shape(shape_t& to) {
    if (!take('('))
      return fail("shape is " + shown());
    while (!take(')')) {
      blanks();
      std::int64_t extent = 0;
      auto [end, why] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), extent);
      if (why != std::errc{} || extent < 0 || to.size() == rank_max)
        return fail("shape: extent " + std::to_string(to.size()) + " is " + shown());
      to.push_back(extent);
      rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
      take_word("L"); // Python 2 wrote long integers so
      if (!take(',') && !peek(')'))
        return fail("shape: no comma at " + shown());
    }
    return {};
  }

  std::string_view rest_;
  std::string name_;
};

class parser {
public:
  parser(std::span<const std::byte> file, std::string_view name) : rest_{file}, name_{name} {}

  result<tensor> run() {
    auto text = header_text();
    if (!text)
      return std::move(text.error());
    auto head = header_parser{*text, name_}.run();
    if (!head)
      return std::move(head.error());
    auto code = element_of(*head->descr);
    if (!code)
      return fail(errc::invalid_argument,
                  "descr \"" + shown(*head->descr) + "\" is not one of " + types_text);
    auto out = read_data(*code, *head->shape);
    if (out && *head->fortran_order && out->rank() > 1)
      return from_fortran(*out);
    return out;
  }

private:
  failure fail(errc code, const std::string& what) const {
    return make_failure(code, "npy " + name_ + ": " + what);
  }

  result<std::string_view> header_text() {
    if (rest_.size() < magic.size() + 2)
      return fail(errc::corrupt,
                  "ends in the magic, at " + std::to_string(rest_.size()) + " bytes");
    if (std::memcmp(rest_.data(), magic.data(), magic.size()) != 0)
      return fail(errc::corrupt, "expected \\x93NUMPY at the beginning, got \""
                                   + shown({reinterpret_cast<const char*>(rest_.data()), 6}) + '"');
    auto major = std::to_integer<int>(rest_[magic.size()]);
    auto minor = std::to_integer<int>(rest_[magic.size() + 1]);
    if (major < 1 || major > 3 || minor != 0)
      return fail(errc::corrupt, "version " + std::to_string(major) + "." + std::to_string(minor)
                                   + " is not 1.0, 2.0 or 3.0");
    rest_ = rest_.subspan(magic.size() + 2);
    std::size_t length_bytes = major == 1 ? 2 : 4;
    if (rest_.size() < length_bytes)
      return fail(errc::corrupt, "ends in the header length");
    auto length = major == 1 ? from_little_endian<std::uint16_t>(rest_)
                             : from_little_endian<std::uint32_t>(rest_);
    rest_ = rest_.subspan(length_bytes);
    if (length > header_bytes_max || length > rest_.size())
      return fail(errc::corrupt, "header length " + std::to_string(length) + " exceeds "
                                   + std::to_string(std::min(header_bytes_max, rest_.size())));
    std::string_view out{reinterpret_cast<const char*>(rest_.data()), length};
    rest_ = rest_.subspan(length);
    return out;
  }

  result<tensor> read_data(element_code code, const shape_t& shape) {
    if (!is_sane(shape, code.type))
      return fail(errc::corrupt,
                  "shape " + to_string(shape) + " of " + to_string(code.type) + " overflows");
    auto want = static_cast<std::size_t>(count_of(shape)) * code.in_bytes;
    if (want != rest_.size())
      return fail(errc::corrupt, "data is " + std::to_string(rest_.size()) + " bytes instead of "
                                   + std::to_string(want) + " for " + to_string(code.type)
                                   + to_string(shape));
    tensor out{code.type, shape};
    if (code.kind == 'f') {
      if (want > 0)
        std::memcpy(out.mutable_bytes().data(), rest_.data(), want);
      if (code.swapped)
        swap_bytes(out.mutable_bytes(), code.in_bytes);
      return out;
    }
    std::vector<std::byte> turned;
    if (code.swapped) {
      turned.assign(rest_.begin(), rest_.end());
      swap_bytes(turned, code.in_bytes);
    }
    if (auto bad = convert(code, code.swapped ? turned : rest_, out))
      return fail(errc::out_of_range, "element " + std::to_string(*bad)
                                        + ", in the file's order, is above "
                                        + std::to_string(INT64_MAX) + ", the highest i64");
    return out;
  }

  std::span<const std::byte> rest_;
  std::string name_;
};

} // namespace

namespace {

const char* descr_of(dtype type) {
  switch (type) {
    case dtype::u8: return "|u1";
    case dtype::i8: return "|i1";
    case dtype::i32: return "<i4";
    case dtype::i64: return "<i8";
    case dtype::f16: return "<f2";
    case dtype::bf16: return "|V2";
    case dtype::f32: return "<f4";
    case dtype::f64: return "<f8";
  }
  return "";
}

} // namespace

result<std::string> npy_head(dtype type, const shape_t& shape) {
  if (!is_sane(shape, type) || size_of(type) == 0)
    return make_failure(errc::invalid_argument,
                        "npy: shape " + to_string(shape) + " of " + to_string(type));
  std::string header =
    std::string{"{'descr': '"} + descr_of(type) + "', 'fortran_order': False, 'shape': (";
  for (std::size_t axis = 0; axis < shape.size(); ++axis)
    header += std::to_string(shape[axis])
              + (axis + 1 < shape.size() ? ", "
                 : shape.size() == 1     ? ","
                                         : "");
  header += "), }";
  auto padded = [&](std::size_t length_bytes) {
    const auto before = magic.size() + 2 + length_bytes;
    const auto whole =
      (before + header.size() + 1 + head_unit_bytes - 1) / head_unit_bytes * head_unit_bytes;
    return header + std::string(whole - before - header.size() - 1, ' ') + '\n';
  };
  std::size_t length_bytes = 2;
  auto text = padded(length_bytes);
  if (text.size() > UINT16_MAX)
    text = padded(length_bytes = 4);
  std::string out{magic};
  out += length_bytes == 2 ? '\1' : '\2';
  out += '\0';
  for (std::size_t i = 0; i < length_bytes; ++i)
    out += static_cast<char>(text.size() >> (8 * i));
  return out + text;
}

result<void> write_npy(storage_port& storage, const std::string& path, const tensor& x) {
  if (!x.defined())
    return make_failure(errc::invalid_argument, "npy " + path + ": the tensor has no value");
  auto head = npy_head(x.type(), x.shape());
  if (!head)
    return std::move(head.error());
  auto file = detail::whole_file::create(storage, path);
  if (!file)
    return std::move(file.error());
  for (auto part : {std::as_bytes(std::span{head->data(), head->size()}), x.bytes()})
    if (auto done = file->write(part); !done)
      return done;
  return file->close();
}

result<tensor> parse_npy(std::span<const std::byte> file, std::string_view name) {
  return parser{file, name}.run();
}

result<tensor> read_npy(storage_port& storage, const std::string& path) {
  auto file = detail::read_file(storage, path);
  if (!file)
    return std::move(file.error());
  return parse_npy(file->all(), path);
}

} // namespace troupe
