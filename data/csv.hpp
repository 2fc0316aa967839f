#pragma once

#include <optional>
#include <string>
#include <vector>

#include <troupe/core/tensor.hpp>

/// How a CSV file is read (RFC 4180): records are lines, fields may stand in double quotes, where
/// `""` is one quote and line ends and delimiters are text.
namespace troupe {

/// One field of every record, as one part of the elements.
struct csv_column {
  /// As in the header; for messages only where there is none.
  std::string name{};
  /// u8, i8, i32, i64, f32 or f64.
  dtype type = dtype::f32;
  /// What an empty field stands for; without it an empty field is an error.
  std::optional<std::string> if_empty{};
};

struct csv_options {
  /// The parts of an element, in this order. With a header, fields are found by name and others are
  /// passed over; without one they are all the fields, in order.
  std::vector<csv_column> columns{};
  bool header = true;
  char delimiter = ',';
};

} // namespace troupe
