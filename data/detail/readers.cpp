#include <troupe/data/detail/readers.hpp>

#include <cstring>

#include <troupe/core/error.hpp>
#include <troupe/data/detail/csv_parse.hpp>
#include <troupe/data/npy.hpp>

namespace troupe::detail {

namespace {

void require_paths(const std::vector<std::string>& paths) {
  if (paths.empty())
    throw_failure(errc::invalid_argument, "dataset: no files");
  for (const auto& x : paths)
    if (x.empty())
      throw_failure(errc::invalid_argument,
                    "dataset: path " + std::to_string(&x - paths.data()) + " is empty");
}

void check_compression(compression packed) {
  if (packed > compression::zlib)
    throw_failure(errc::invalid_argument,
                  "dataset: compression is " + std::string{to_string(packed)});
}

/// What a description says of `compression`: nothing for what is looked for by itself, so that
/// positions of before hold.
std::string packing_text(compression packed) {
  return packed == compression::detect ? std::string{} : ", " + std::string{to_string(packed)};
}

/// The paths themselves.
class files_source final : public dataset_node {
public:
  explicit files_source(std::vector<std::string> patterns) : patterns_{std::move(patterns)} {}
  opened open(open_context& context) const override {
    return stream_ptr<element>{
      std::make_unique<path_stream>(resolve_files(context.storage, patterns_))};
  }
  std::vector<tensor_spec> spec(open_context&) const override { return {{dtype::u8, {-1}}}; }
  std::string describe() const override { return "files(" + joined(patterns_) + ")"; }
  node_kind kind() const override { return node_kind::files; }
  std::int64_t count(storage_port& storage) const override {
    return static_cast<std::int64_t>(resolve_files(storage, patterns_).size());
  }

private:
  class path_stream final : public stream<element> {
  public:
    explicit path_stream(std::vector<std::string> paths) : paths_{std::move(paths)} {}
    void start(std::uint64_t) override { at_ = 0; }
    bool next(element& to) override {
      if (at_ == paths_.size())
        return false;
      to = bytes_tensor(paths_[at_++]);
      return true;
    }
    void save(position_out& out) const override { out.put(at_); }
    void load(position_in& in) override { at_ = in.take("path", paths_.size()); }

  private:
    std::vector<std::string> paths_;
    std::uint64_t at_ = 0;
  };

  std::vector<std::string> patterns_;
};

class record_source final : public reader_node {
public:
  record_source(std::vector<std::string> patterns, std::shared_ptr<const record_format> format,
                compression packed)
    : reader_node{std::move(patterns)}, format_{std::move(format)}, packed_{packed} {}
  opened open(open_context& context) const override {
    return make_record_stream(context.storage, resolve_files(context.storage, patterns()), format_,
                              packed_);
  }
  std::vector<tensor_spec> spec(open_context&) const override { return {{dtype::u8, {-1}}}; }
  std::string describe() const override {
    return std::string{format_->name()} + "(" + joined(patterns()) + packing_text(packed_) + ")";
  }
  node_ptr on_files(std::vector<std::string> patterns) const override {
    return std::make_shared<record_source>(std::move(patterns), format_, packed_);
  }

private:
  std::shared_ptr<const record_format> format_;
  compression packed_;
};

/// Files that hold tables: the tables one below the other.
class table_source : public reader_node {
public:
  using reader_node::reader_node;
  opened open(open_context& context) const override {
    auto store = rows(context.storage);
    auto count = store->count;
    return {std::move(store), std::make_unique<row_stream>(count)};
  }
  std::int64_t count(storage_port& storage) const override {
    return static_cast<std::int64_t>(rows(storage)->count);
  }

protected:
  /// The columns in one file, with as many rows.
  virtual std::vector<tensor> read_table(storage_port& storage, const std::string& path) const = 0;

private:
  std::shared_ptr<const row_store> rows(storage_port& storage) const {
    std::vector<std::vector<tensor>> parts; // by column
    for (const auto& path : resolve_files(storage, patterns())) {
      auto columns = read_table(storage, path);
      parts.resize(columns.size());
      for (std::size_t i = 0; i < columns.size(); ++i)
        parts[i].push_back(std::move(columns[i]));
    }
    auto out = std::make_shared<row_store>();
    for (const auto& column : parts) {
      auto whole = column.size() == 1 ? column[0] : concatenate(column);
      out->count = static_cast<row_no>(whole.rows());
      out->columns.push_back(make_tensor_column(std::move(whole)));
    }
    return out;
  }
};

class fixed_record_source final : public table_source {
public:
  fixed_record_source(std::vector<std::string> patterns, std::uint64_t record_bytes,
                      std::uint64_t header_bytes, std::uint64_t footer_bytes)
    : table_source{std::move(patterns)},
      record_bytes_{record_bytes},
      header_bytes_{header_bytes},
      footer_bytes_{footer_bytes} {}
  std::vector<tensor_spec> spec(open_context&) const override {
    return {{dtype::u8, {static_cast<std::int64_t>(record_bytes_)}}};
  }
  std::string describe() const override {
    return "fixed_records(" + joined(patterns()) + ", " + std::to_string(record_bytes_) + ", "
           + std::to_string(header_bytes_) + ", " + std::to_string(footer_bytes_) + ")";
  }
  node_ptr on_files(std::vector<std::string> patterns) const override {
    return std::make_shared<fixed_record_source>(std::move(patterns), record_bytes_, header_bytes_,
                                                 footer_bytes_);
  }

protected:
  std::vector<tensor> read_table(storage_port& storage, const std::string& path) const override {
    auto file = storage.open(path).value_or_throw();
    auto size_bytes = file->size_bytes();
    auto fail = [&](const std::string& what) {
      throw_failure(errc::corrupt,
                    "fixed_records " + path + ": " + std::to_string(size_bytes) + " bytes " + what);
    };
    if (size_bytes < header_bytes_ || size_bytes - header_bytes_ < footer_bytes_)
      fail("are fewer than the header of " + std::to_string(header_bytes_) + " and the footer of "
           + std::to_string(footer_bytes_));
    auto body_bytes = size_bytes - header_bytes_ - footer_bytes_;
    if (body_bytes % record_bytes_ != 0)
      fail("leave " + std::to_string(body_bytes % record_bytes_) + " after the last record of "
           + std::to_string(record_bytes_));
    tensor out{dtype::u8,
               {static_cast<std::int64_t>(body_bytes / record_bytes_),
                static_cast<std::int64_t>(record_bytes_)}};
    file->read_at(header_bytes_, out.mutable_bytes()).value_or_throw();
    return {std::move(out)};
  }

private:
  std::uint64_t record_bytes_;
  std::uint64_t header_bytes_;
  std::uint64_t footer_bytes_;
};

class csv_source final : public table_source {
public:
  csv_source(std::vector<std::string> patterns, csv_options options)
    : table_source{std::move(patterns)}, options_{std::move(options)} {}
  std::vector<tensor_spec> spec(open_context&) const override {
    std::vector<tensor_spec> out;
    for (const auto& x : options_.columns)
      out.push_back({x.type, {}});
    return out;
  }
  std::string describe() const override {
    auto out = "csv(" + joined(patterns());
    for (const auto& x : options_.columns)
      out += ", " + x.name + ":" + to_string(x.type) + (x.if_empty ? "=" + *x.if_empty : "");
    return out + (options_.header ? "" : ", no header")
           + (options_.delimiter == ',' ? "" : std::string{", by "} + options_.delimiter)
           + packing_text(options_.compression) + ")";
  }
  node_ptr on_files(std::vector<std::string> patterns) const override {
    return std::make_shared<csv_source>(std::move(patterns), options_);
  }

protected:
  std::vector<tensor> read_table(storage_port& storage, const std::string& path) const override {
    file_cursor file{storage, path, "csv", {.how = options_.compression}};
    return parse_csv(file, path, options_).value_or_throw();
  }

private:
  csv_options options_;
};

/// Arrays of numpy's files as columns. All are in memory, so there are no files to share out.
class numpy_source final : public source_node {
public:
  numpy_source(std::vector<std::string> paths, std::vector<std::string> names, bool archive)
    : paths_{std::move(paths)}, names_{std::move(names)}, archive_{archive} {}
  std::string describe() const override {
    return (archive_ ? "npz(" : "npy(") + joined(paths_) + (names_.empty() ? "" : ": ")
           + joined(names_) + ")";
  }

protected:
  std::shared_ptr<const row_store> rows(storage_port& storage) const override {
    auto out = std::make_shared<row_store>();
    std::string first;
    for (auto& x : read(storage)) {
      if (x.value.rank() == 0)
        throw_failure(errc::shape_mismatch, x.name + ": rank is 0, a dataset needs rows");
      auto count = static_cast<row_no>(x.value.rows());
      if (!out->columns.empty() && count != out->count)
        throw_failure(errc::shape_mismatch, x.name + ": " + std::to_string(count) + " rows, but "
                                              + std::to_string(out->count) + " in " + first);
      out->count = count;
      first = out->columns.empty() ? x.name : first;
      out->columns.push_back(make_tensor_column(std::move(x.value)));
    }
    return out;
  }

private:
  std::vector<named_tensor> read(storage_port& storage) const {
    if (!archive_) {
      std::vector<named_tensor> out;
      for (const auto& x : paths_)
        out.push_back({"npy " + x, read_npy(storage, x).value_or_throw()});
      return out;
    }
    auto out = read_npz(storage, paths_[0], names_).value_or_throw();
    if (out.empty())
      throw_failure(errc::invalid_argument, "npz " + paths_[0] + ": holds no arrays");
    for (auto& x : out)
      x.name = "npz " + paths_[0] + ":" + x.name;
    return out;
  }

  std::vector<std::string> paths_;
  std::vector<std::string> names_;
  bool archive_;
};

} // namespace

reader_node::reader_node(std::vector<std::string> patterns) : patterns_{std::move(patterns)} {
  require_paths(patterns_);
}

node_ptr make_files_source(std::vector<std::string> patterns) {
  require_paths(patterns);
  return std::make_shared<files_source>(std::move(patterns));
}

node_ptr make_record_source(std::vector<std::string> patterns,
                            std::shared_ptr<const record_format> format, compression packed) {
  check_compression(packed);
  return std::make_shared<record_source>(std::move(patterns), std::move(format), packed);
}

node_ptr make_fixed_source(std::vector<std::string> patterns, std::uint64_t record_bytes,
                           std::uint64_t header_bytes, std::uint64_t footer_bytes) {
  return std::make_shared<fixed_record_source>(std::move(patterns), record_bytes, header_bytes,
                                               footer_bytes);
}

node_ptr make_csv_source(std::vector<std::string> patterns, csv_options options) {
  check_csv_options(options);
  check_compression(options.compression);
  return std::make_shared<csv_source>(std::move(patterns), std::move(options));
}

node_ptr make_npy_source(std::vector<std::string> paths) {
  require_paths(paths);
  return std::make_shared<numpy_source>(std::move(paths), std::vector<std::string>{}, false);
}

node_ptr make_npz_source(std::string path, std::vector<std::string> names) {
  std::vector<std::string> paths{std::move(path)};
  require_paths(paths);
  return std::make_shared<numpy_source>(std::move(paths), std::move(names), true);
}

} // namespace troupe::detail
