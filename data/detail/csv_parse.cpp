#include <troupe/data/detail/csv_parse.hpp>

#include <charconv>
#include <optional>
#include <string>
#include <variant>

#include <troupe/core/error.hpp>

namespace troupe::detail {

namespace {

constexpr std::size_t shown_bytes_max = 40;
constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";

/// Splits text into records. A record's fields are valid until the next.
class record_reader {
public:
  record_reader(std::string_view text, std::string_view file, char delimiter)
    : rest_{text}, file_{file}, delimiter_{delimiter} {
    if (rest_.starts_with(byte_order_mark))
      rest_.remove_prefix(byte_order_mark.size());
  }

  /// False at the end.
  result<bool> next() {
    fields_.clear();
    line_ = next_line_;
    if (rest_.empty())
      return false;
    for (;;) {
      auto ok = !rest_.empty() && rest_[0] == '"' ? quoted() : plain();
      if (!ok)
        return std::move(ok.error());
      if (rest_.empty())
        return true;
      auto mark = rest_[0];
      rest_.remove_prefix(1);
      if (mark == delimiter_)
        continue;
      ++next_line_;
      return true;
    }
  }
  const std::vector<std::string>& fields() const { return fields_; }
  failure fail(const std::string& what) const {
    return make_failure(errc::corrupt,
                        "csv " + std::string{file_} + ": line " + std::to_string(line_) + what);
  }

private:
  /// Up to the delimiter or the line's end, without the blanks around it.
  result<void> plain() {
    std::size_t n = 0;
    while (n < rest_.size() && rest_[n] != delimiter_ && rest_[n] != '\n')
      if (rest_[n++] == '"')
        return fail(", field " + std::to_string(fields_.size()) + ": a quote inside "
                    + std::string{rest_.substr(0, std::min(n, shown_bytes_max))});
    auto field = rest_.substr(0, n);
    rest_.remove_prefix(n);
    auto begin = field.find_first_not_of(" \t\r");
    auto end = field.find_last_not_of(" \t\r");
    fields_.emplace_back(begin == std::string_view::npos ? std::string_view{}
                                                         : field.substr(begin, end - begin + 1));
    return {};
  }

  result<void> quoted() {
    auto& field = fields_.emplace_back();
    auto where = ", field " + std::to_string(fields_.size() - 1);
    rest_.remove_prefix(1);
    for (;;) {
      auto n = rest_.find('"');
      if (n == std::string_view::npos)
        return fail(where + ": the quote is not closed");
      for (auto c : rest_.substr(0, n))
        next_line_ += c == '\n' ? 1 : 0;
      field.append(rest_.substr(0, n));
      rest_.remove_prefix(n + 1);
      if (!rest_.starts_with('"'))
        break;
      field.push_back('"');
      rest_.remove_prefix(1);
    }
    if (rest_.starts_with("\r\n") || rest_ == "\r")
      rest_.remove_prefix(1);
    if (!rest_.empty() && rest_[0] != delimiter_ && rest_[0] != '\n')
      return fail(where + ": text after the closing quote");
    return {};
  }

  std::string_view rest_;
  std::string_view file_;
  char delimiter_;
  std::vector<std::string> fields_{};
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

/// Appends the number that all of `text` is; false when it is none or does not fit.
bool append_number(std::string_view text, numbers& to) {
  return std::visit(
    [text](auto& xs) {
      auto from = text.starts_with('+') ? text.substr(1) : text;
      typename std::remove_reference_t<decltype(xs)>::value_type x{};
      auto [end, why] = std::from_chars(from.data(), from.data() + from.size(), x);
      if (why != std::errc{} || end != from.data() + from.size() || from.empty()
          || (text[0] == '+' && from[0] == '-'))
        return false;
      xs.push_back(x);
      return true;
    },
    to);
}

class parser {
public:
  parser(std::string_view text, std::string_view file, const csv_options& options)
    : records_{text, file, options.delimiter}, options_{options} {
    for (const auto& x : options_.columns)
      values_.push_back(*numbers_of(x.type));
  }

  result<std::vector<tensor>> run() {
    if (auto ok = find_fields(); !ok)
      return std::move(ok.error());
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
      all += (i ? ", " : "") + fields[i];
      if (fields[i] != name)
        continue;
      if (found)
        return records_.fail(": column \"" + name + "\" is there twice");
      found = i;
    }
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
                           + field.substr(0, shown_bytes_max) + "\" is no "
                           + to_string(column.type));
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
      refuse(column + "type " + to_string(x.type) + " is none of u8, i8, i32, i64, f32, f64");
    if (options.header && x.name.empty())
      refuse(column + "needs a name to be found in the header");
    if (x.if_empty && !append_number(*x.if_empty, *type))
      refuse(column + "if_empty \"" + *x.if_empty + "\" is no " + to_string(x.type));
  }
}

result<std::vector<tensor>> parse_csv(std::string_view text, std::string_view file,
                                      const csv_options& options) {
  return parser{text, file, options}.run();
}

} // namespace troupe::detail
