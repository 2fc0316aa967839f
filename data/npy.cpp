#include <troupe/data/npy.hpp>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <optional>

#include <troupe/core/error.hpp>
#include <troupe/data/detail/file_bytes.hpp>
#include <troupe/data/detail/little_endian.hpp>

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

struct header {
  std::optional<std::string> descr{};
  std::optional<bool> fortran_order{};
  std::optional<shape_t> shape{};
};

struct element_code {
  dtype type;
  bool swapped; // big-endian in the file
};

/// What a descr names, or nothing.
std::optional<element_code> element_of(std::string_view descr) {
  if (descr == "bfloat16")
    return element_code{dtype::bf16, false};
  if (descr.size() != 3)
    return std::nullopt;
  struct known {
    std::string_view code;
    dtype type;
  };
  static constexpr known all[]{{"u1", dtype::u8},  {"i1", dtype::i8},  {"i4", dtype::i32},
                               {"i8", dtype::i64}, {"f2", dtype::f16}, {"f4", dtype::f32},
                               {"f8", dtype::f64}, {"V2", dtype::bf16}};
  for (const auto& x : all)
    if (x.code == descr.substr(1)) {
      auto order = descr[0];
      auto wide = size_of(x.type) > 1;
      if (order == '<' || order == '=' || (order == '|' && (!wide || x.type == dtype::bf16)))
        return element_code{x.type, false};
      if (order == '>')
        return element_code{x.type, wide};
    }
  return std::nullopt;
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
      return fail("goes on with " + shown());
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
  std::string shown() const { return '"' + std::string{rest_.substr(0, 16)} + '"'; }
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
    return fail("key \"" + key + "\" is unknown or there twice");
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
                  "descr \"" + *head->descr + "\" is none of u1, i1, i4, i8, f2, f4, f8, bfloat16");
    if (*head->fortran_order)
      return fail(errc::invalid_argument,
                  "fortran_order is True; save it in C order (numpy.ascontiguousarray)");
    return read_data(*code, *head->shape);
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
      return fail(errc::corrupt, "does not begin with \\x93NUMPY");
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
      return fail(errc::corrupt, "header length " + std::to_string(length) + " is over "
                                   + std::to_string(std::min(header_bytes_max, rest_.size())));
    std::string_view out{reinterpret_cast<const char*>(rest_.data()), length};
    rest_ = rest_.subspan(length);
    return out;
  }

  result<tensor> read_data(element_code code, const shape_t& shape) {
    if (!is_sane(shape, code.type))
      return fail(errc::corrupt,
                  "shape " + to_string(shape) + " of " + to_string(code.type) + " overflows");
    auto want = static_cast<std::size_t>(count_of(shape)) * size_of(code.type);
    if (want != rest_.size())
      return fail(errc::corrupt, "data is " + std::to_string(rest_.size()) + " bytes instead of "
                                   + std::to_string(want) + " for " + to_string(code.type)
                                   + to_string(shape));
    tensor out{code.type, shape};
    if (want > 0)
      std::memcpy(out.mutable_bytes().data(), rest_.data(), want);
    if (code.swapped)
      for (auto at = out.mutable_bytes(); !at.empty(); at = at.subspan(size_of(code.type)))
        std::reverse(at.begin(), at.begin() + static_cast<std::ptrdiff_t>(size_of(code.type)));
    return out;
  }

  std::span<const std::byte> rest_;
  std::string name_;
};

} // namespace

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
