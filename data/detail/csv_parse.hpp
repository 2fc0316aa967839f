#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include <troupe/core/result.hpp>
#include <troupe/core/tensor.hpp>
#include <troupe/data/csv.hpp>
#include <troupe/data/detail/file_bytes.hpp>

/// CSV text into typed columns. Pure; any thread.
namespace troupe::detail {

/// Throws `invalid_argument` for options that cannot be used.
void check_csv_options(const csv_options& options);

/// The columns of a file: a tensor each, of as many rows as the file has records. Errors are
/// `corrupt` and name the file, the line (of the record's begin), the field and the value, which is
/// escaped and cut. Holds one record beside the columns. @pre the options are checked
result<std::vector<tensor>> parse_csv(byte_feed& from, std::string_view file,
                                      const csv_options& options);
/// `parse_csv` of text in memory, which is plain.
result<std::vector<tensor>> parse_csv(std::string_view text, std::string_view file,
                                      const csv_options& options);

} // namespace troupe::detail
