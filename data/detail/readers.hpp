#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <troupe/data/csv.hpp>
#include <troupe/data/detail/node.hpp>
#include <troupe/data/detail/records.hpp>

/// Sources that read files.
namespace troupe::detail {

/// A source of the elements of one file after the other, so that workers can share the files out.
class reader_node : public dataset_node {
public:
  explicit reader_node(std::vector<std::string> patterns);
  node_kind kind() const final { return node_kind::reader; }
  const std::vector<std::string>& patterns() const { return patterns_; }
  /// This source on other files.
  virtual node_ptr on_files(std::vector<std::string> patterns) const = 0;

private:
  std::vector<std::string> patterns_;
};

/// Yields paths, as u8 vectors.
node_ptr make_files_source(std::vector<std::string> patterns);
node_ptr make_record_source(std::vector<std::string> patterns,
                            std::shared_ptr<const record_format> format, compression packed);
node_ptr make_fixed_source(std::vector<std::string> patterns, std::uint64_t record_bytes,
                           std::uint64_t header_bytes, std::uint64_t footer_bytes);
node_ptr make_csv_source(std::vector<std::string> patterns, csv_options options);
/// A source with a column for each file.
node_ptr make_npy_source(std::vector<std::string> paths);
/// A source with a column for each array of the archive.
node_ptr make_npz_source(std::string path, std::vector<std::string> names);

} // namespace troupe::detail
