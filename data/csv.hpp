#pragma once

#include <optional>
#include <string>
#include <vector>

#include <troupe/core/tensor.hpp>
#include <troupe/data/compression.hpp>

/// How a CSV file is read (RFC 4180): records are lines that end in "\n", "\r\n" or "\r"; fields
/// may stand in double quotes, where `""` is one quote and line ends and delimiters are text.
/// Blanks around a field, and around its quotes, don't count; a quote inside a field that begins
/// without one is an ordinary character. The text is ASCII or UTF-8, with or without a byte order
/// mark; UTF-16 is refused. Blank lines at the end are passed over; one that records follow is an
/// error, except that in a file of one field with `if_empty` every blank line is a record.
namespace troupe {

/// A field of every record, which is a part of the elements.
struct csv_column {
  /// The field's name in the header; for messages only where there is none.
  std::string name{};
  /// u8, i8, i32, i64, f32 or f64. A decimal that f32 or f64 cannot hold is rounded: to a number
  /// next to 0 or to 0, or to an infinity. An integer outside the type's range is an error.
  dtype type = dtype::f32;
  /// The value of an empty field; without it an empty field is an error.
  std::optional<std::string> if_empty{};
};

struct csv_options {
  /// The parts of an element, in this order. With a header, fields are found by name and others are
  /// passed over; without one they are all the fields, in order.
  std::vector<csv_column> columns{};
  bool header = true;
  char delimiter = ',';
  troupe::compression compression = troupe::compression::detect;
};

} // namespace troupe
