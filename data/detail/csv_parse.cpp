#include <troupe/data/detail/csv_parse.hpp>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include <troupe/core/error.hpp>
#include <troupe/core/shown.hpp>
#include <troupe/data/detail/records.hpp>

namespace troupe::detail {

namespace {

constexpr std::size_t field_bytes_max = std::size_t{1} << 24;
constexpr std::size_t fields_max = std::size_t{1} << 18;
constexpr std::size_t names_shown_max = 20;
constexpr int end_of_text = -1;

/// Text in memory.
class text_feed final : public byte_feed {
public:
  explicit text_feed(std::string_view text) : rest_{std::as_bytes(std::span{text})} {}
  std::span<const std::byte> peek() override { return rest_; }
  void advance(std::size_t n) override { rest_ = rest_.subspan(n); }

private:
  std::span<const std::byte> rest_;
};

/// Splits text into records. A record's fields are valid until the next.
class record_reader {
public:
  record_reader(byte_feed& from, std::string_view file, char delimiter)
    : from_{from}, file_{file}, delimiter_{delimiter} {}

  /// Passes a byte order mark over.
  result<void> begin() {
    block_ = from_.peek();
    if (auto why = wide_text(block_, true); !why.empty())
      return make_failure(errc::corrupt, "csv " + std::string{file_} + ": " + why);
    constexpr std::byte mark[]{std::byte{0xef}, std::byte{0xbb}, std::byte{0xbf}};
    if (block_.size() >= 3 && std::equal(mark, mark + 3, block_.begin()))
      used_ = 3;
    return {};
  }

  /// Whether a blank line is a record of one empty field.
  void blank_is_record(bool yes) { blank_is_record_ = yes; }

  /// False at the end, where blank lines are passed over.
  result<bool> next() {
    std::size_t blank = 0; // the first line of those passed over
    for (;;) {
      line_ = next_line_;
      if (look() == end_of_text)
        return false;
      if (auto ok = read_record(); !ok)
        return std::move(ok.error());
      if (blank_is_record_ || !is_blank_)
        break;
      blank = blank == 0 ? line_ : blank;
    }
    if (blank == 0)
      return true;
    const auto after = std::exchange(line_, blank);
    return fail(": blank line before line " + std::to_string(after));
  }
  const std::vector<std::string>& fields() const { return fields_; }
  failure fail(const std::string& what) const {
    return make_failure(errc::corrupt,
                        "csv " + std::string{file_} + ": line " + std::to_string(line_) + what);
  }

private:
  /// The next character, or `end_of_text`.
  int look() {
    if (used_ == block_.size()) {
      from_.advance(used_);
      used_ = 0;
      block_ = from_.peek();
    }
    return used_ == block_.size() ? end_of_text : std::to_integer<int>(block_[used_]);
  }
  void skip() { ++used_; }
  bool is_line_end(int c) const { return c == '\n' || c == '\r'; }
  /// At the end of a field. The delimiter may itself be a blank.
  bool is_end(int c) const {
    return c == end_of_text || is_line_end(c) || c == static_cast<unsigned char>(delimiter_);
  }
  bool is_blank(int c) const { return (c == ' ' || c == '\t') && !is_end(c); }
  void skip_blanks() {
    while (is_blank(look()))
      skip();
  }
  /// "\n", "\r\n" or "\r".
  void skip_line_end() {
    const auto first = look();
    skip();
    if (first == '\r' && look() == '\n')
      skip();
    ++next_line_;
  }

  result<void> read_record() {
    fields_.clear();
    is_blank_ = true;
    for (;;) {
      if (fields_.size() == fields_max)
        return fail(": more than " + std::to_string(fields_max) + " fields");
      skip_blanks();
      if (auto ok = look() == '"' ? quoted() : plain(); !ok)
        return ok;
      const auto end = look();
      if (end == end_of_text)
        return {};
      if (is_line_end(end)) {
        skip_line_end();
        return {};
      }
      is_blank_ = false;
      skip();
    }
  }

  result<void> add(std::string& field, int c) {
    if (field.size() == field_bytes_max)
      return fail(in_field() + ": over " + std::to_string(field_bytes_max)
                  + " bytes; a closing quote may be missing");
    field.push_back(static_cast<char>(c));
    return {};
  }

  /// Up to the delimiter or the line's end, without the blanks around it.
  result<void> plain() {
    auto& field = fields_.emplace_back();
    for (auto c = look(); !is_end(c); c = look()) {
      if (auto ok = add(field, c); !ok)
        return ok;
      skip();
    }
    field.resize(field.find_last_not_of(" \t") + 1);
    is_blank_ = is_blank_ && field.empty();
    return {};
  }

  result<void> quoted() {
    auto& field = fields_.emplace_back();
    is_blank_ = false;
    skip();
    for (;;) {
      const auto c = look();
      if (c == end_of_text)
        return fail(in_field() + ": missing closing quote");
      skip();
      if (c == '"' && look() != '"')
        break;
      if (c == '"')
        skip();
      if (c == '\n' || (c == '\r' && look() != '\n'))
        ++next_line_;
      if (auto ok = add(field, c); !ok)
        return ok;
    }
    skip_blanks();
    if (!is_end(look()))
      return fail(in_field() + ": text after the closing quote");
    return {};
  }

  std::string in_field() const { return ", field " + std::to_string(fields_.size() - 1); }

  byte_feed& from_;
  std::string_view file_;
  char delimiter_;
  std::span<const std::byte> block_{};
  std::size_t used_ = 0; // of the block
  std::vector<std::string> fields_{};
  bool is_blank_ = false;
  bool blank_is_record_ = false;
  std::size_t line_ = 1;
  std::size_t next_line_ = 1;
};

using numbers =
  std::variant<std::vector<std::uint8_t>, std::vector<std::int8_t>, std::vector<std::int32_t>,
               std::vector<std::int64_t>, std::vector<float>, std::vector<double>>;

std::optional<numbers> numbers_of(dtype type) {
  switch (type) {
    case dtype::u8: return std::vector<std::uint8_t>{};
    case dtype::i8: return std::vector<std::int8_t>{};
    case dtype::i32: return std::vector<std::int32_t>{};
    case dtype::i64: return std::vector<std::int64_t>{};
    case dtype::f32: return std::vector<float>{};
    case dtype::f64: return std::vector<double>{};
    default: return std::nullopt;
  }
}

/// Whether a decimal that overflows or underflows is the small one. @pre it is a number, not 0
bool is_tiny(std::string_view text) {
  const auto mark = text.find_first_of("eE");
  const auto mantissa = text.substr(0, mark);
  const auto digit = mantissa.find_first_of("123456789");
  if (digit == std::string_view::npos)
    return true;
  const auto point = std::min(mantissa.find('.'), mantissa.size());
  // Where the first digit stands before the point, or after it.
  auto power = static_cast<std::int64_t>(point) - static_cast<std::int64_t>(digit);
  if (mark == std::string_view::npos)
    return power < 0;
  auto digits = text.substr(mark + 1);
  const bool negative = digits.starts_with('-');
  if (negative || digits.starts_with('+'))
    digits.remove_prefix(1);
  std::int64_t exponent = 0;
  for (const char c : digits)
    exponent = std::min<std::int64_t>(exponent * 10 + (c - '0'), INT64_MAX / 100);
  return (negative ? power - exponent : power + exponent) < 0;
}

/// What a decimal outside the type's range is rounded to.
template <class T>
T rounded(std::string_view text) {
  const T x = is_tiny(text) ? T{0} : std::numeric_limits<T>::infinity();
  return text.starts_with('-') ? -x : x;
}

/// Appends the number that all of `text` is; false when it is none or, an integer, does not fit.
bool append_number(std::string_view text, numbers& to) {
  return std::visit(
    [text](auto& xs) {
      using number = typename std::remove_reference_t<decltype(xs)>::value_type;
      auto from = text.starts_with('+') ? text.substr(1) : text;
      number x{};
      auto [end, why] = std::from_chars(from.data(), from.data() + from.size(), x);
      if (end != from.data() + from.size() || from.empty() || (text[0] == '+' && from[0] == '-'))
        return false;
      if constexpr (std::is_floating_point_v<number>)
        if (why == std::errc::result_out_of_range) {
          xs.push_back(rounded<number>(from));
          return true;
        }
      if (why != std::errc{})
        return false;
      xs.push_back(x);
      return true;
    },
    to);
}

class parser {
public:
  parser(byte_feed& from, std::string_view file, const csv_options& options)
    : records_{from, file, options.delimiter}, options_{options} {
    for (const auto& x : options_.columns)
      values_.push_back(*numbers_of(x.type));
  }

  result<std::vector<tensor>> run() {
    if (auto ok = records_.begin(); !ok)
      return std::move(ok.error());
    if (auto ok = find_fields(); !ok)
      return std::move(ok.error());
    records_.blank_is_record(field_count_ == 1 && options_.columns[0].if_empty);
    for (;;) {
      auto more = records_.next();
      if (!more)
        return std::move(more.error());
      if (!*more)
        break;
      if (auto ok = take_record(); !ok)
        return std::move(ok.error());
    }
    std::vector<tensor> out;
    for (const auto& column : values_)
      out.push_back(std::visit(
        [](const auto& xs) {
          using number = typename std::remove_reference_t<decltype(xs)>::value_type;
          return tensor::of<number>({static_cast<std::int64_t>(xs.size())},
                                    std::span<const number>{xs});
        },
        column));
    return out;
  }

private:
  /// Which field each column is.
  result<void> find_fields() {
    field_count_ = options_.columns.size();
    for (std::size_t i = 0; i < field_count_; ++i)
      at_.push_back(i);
    if (!options_.header)
      return {};
    auto more = records_.next();
    if (!more)
      return std::move(more.error());
    if (!*more)
      return records_.fail(": no header");
    field_count_ = records_.fields().size();
    for (std::size_t i = 0; i < at_.size(); ++i) {
      auto found = field_called(options_.columns[i].name);
      if (!found)
        return std::move(found.error());
      at_[i] = *found;
    }
    return {};
  }

  result<std::size_t> field_called(const std::string& name) const {
    const auto& fields = records_.fields();
    std::optional<std::size_t> found;
    std::string all;
    for (std::size_t i = 0; i < fields.size(); ++i) {
      if (i < names_shown_max)
        all += (i ? ", " : "") + shown(fields[i]);
      if (fields[i] != name)
        continue;
      if (found)
        return records_.fail(": duplicate column \"" + name + "\"");
      found = i;
    }
    if (fields.size() > names_shown_max)
      all += " and " + std::to_string(fields.size() - names_shown_max) + " more";
    if (!found)
      return records_.fail(": no column \"" + name + "\" among " + all);
    return *found;
  }

  result<void> take_record() {
    const auto& fields = records_.fields();
    if (fields.size() != field_count_)
      return records_.fail(": " + std::to_string(fields.size()) + " fields instead of "
                           + std::to_string(field_count_));
    for (std::size_t i = 0; i < at_.size(); ++i) {
      const auto& column = options_.columns[i];
      const auto& field = fields[at_[i]];
      if (append_number(field.empty() && column.if_empty ? *column.if_empty : field, values_[i]))
        continue;
      return records_.fail(", field " + std::to_string(at_[i]) + " (" + column.name + "): \""
                           + shown(field) + "\" is not a valid " + to_string(column.type));
    }
    return {};
  }

  record_reader records_;
  const csv_options& options_;
  std::vector<numbers> values_{};
  std::vector<std::size_t> at_{}; // column -> field
  std::size_t field_count_ = 0;
};

} // namespace

void check_csv_options(const csv_options& options) {
  auto refuse = [](const std::string& what) {
    throw_failure(errc::invalid_argument, "dataset: csv: " + what);
  };
  if (options.columns.empty())
    refuse("no columns");
  if (options.delimiter == '"' || options.delimiter == '\n' || options.delimiter == '\r')
    refuse("delimiter is a quote or a line end");
  for (const auto& x : options.columns) {
    auto column = "column \"" + x.name + "\": ";
    auto type = numbers_of(x.type);
    if (!type)
      refuse(column + "type " + to_string(x.type) + " is not one of u8, i8, i32, i64, f32, f64");
    if (options.header && x.name.empty())
      refuse(column + "needs a name to be found in the header");
    if (x.if_empty && !append_number(*x.if_empty, *type))
      refuse(column + "if_empty \"" + *x.if_empty + "\" is not a valid " + to_string(x.type));
  }
}

result<std::vector<tensor>> parse_csv(byte_feed& from, std::string_view file,
                                      const csv_options& options) {
  return parser{from, file, options}.run();
}

result<std::vector<tensor>> parse_csv(std::string_view text, std::string_view file,
                                      const csv_options& options) {
  text_feed from{text};
  return parse_csv(from, file, options);
}

} // namespace troupe::detail
