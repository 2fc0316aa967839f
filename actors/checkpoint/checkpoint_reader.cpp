#include <algorithm>
#include <cstring>

#include <troupe/actors/checkpoint/detail/checkpoint_manifest.hpp>
#include <troupe/kernels/hash.hpp>

namespace troupe {

namespace {

using detail::checkpoint_file;
using detail::checkpoint_manifest;
using detail::checkpoint_piece;

constexpr std::size_t block_bytes = std::size_t{1} << 20;

failure at_path(const std::string& path, failure why) {
  if (why.text.find(path) == std::string::npos)
    why.text = path + ": " + why.text;
  return why;
}

failure bad_checksum(const std::string& path, const std::string& what) {
  return make_failure(errc::corrupt, path + ": checksum mismatch in " + what);
}

/// Where a checkpoint's files are: in `folder`, at `within` + their names. `path` for errors.
struct place {
  storage_port& folder;
  const std::string& within;
  const std::string& path;

  std::string path_of(std::string_view name) const { return path + "/" + std::string{name}; }
  result<std::unique_ptr<file_reader>> open(std::string_view name) const {
    auto file = folder.open(within + std::string{name});
    if (!file)
      return at_path(path_of(name), std::move(file.error()));
    return file;
  }
};

result<checkpoint_manifest> read_manifest(const place& at) {
  auto file = at.open(detail::manifest_name);
  if (!file)
    return std::move(file.error());
  const auto path = at.path_of(detail::manifest_name);
  const auto size_bytes = (*file)->size_bytes();
  if (size_bytes > detail::manifest_bytes_max)
    return make_failure(errc::corrupt,
                        path + ": " + std::to_string(size_bytes) + " bytes exceed the size limit");
  std::string bytes(static_cast<std::size_t>(size_bytes), '\0');
  if (auto done =
        (*file)->read_at(0, std::as_writable_bytes(std::span{bytes.data(), bytes.size()}));
      !done)
    return at_path(path, std::move(done.error()));
  auto manifest = detail::decode(bytes);
  if (!manifest)
    return at_path(path, std::move(manifest.error()));
  return manifest;
}

failure no_checkpoint(const std::string& directory, const char* because) {
  return make_failure(errc::not_found, "no checkpoint in " + directory + ": " + because);
}

/// What has a checkpoint's name in a directory.
struct generations {
  std::vector<std::uint64_t> numbers{}; ///< the newest first
  std::vector<std::string> too_high{};  ///< names of none
};

result<generations> list_generations(storage_port& folder, const std::string& directory) {
  auto names = folder.list("");
  if (!names)
    return at_path(directory, std::move(names.error()));
  generations out;
  for (const auto& name : *names)
    if (const auto number = detail::generation_number(name, false))
      out.numbers.push_back(*number);
    else if (detail::is_number_too_high(name) && !name.ends_with(".tmp"))
      out.too_high.push_back(name);
  std::sort(out.numbers.rbegin(), out.numbers.rend());
  return out;
}

/// Size and, when asked, all bytes of a data file against the manifest.
result<void> verify_file(const place& at, const checkpoint_file& expected, bool verify_data) {
  const auto path = at.path_of(expected.name);
  auto file = at.open(expected.name);
  if (!file)
    return std::move(file.error());
  if ((*file)->size_bytes() != expected.size_bytes)
    return make_failure(errc::corrupt, path + ": " + std::to_string((*file)->size_bytes())
                                         + " bytes, expected by the manifest: "
                                         + std::to_string(expected.size_bytes));
  if (!verify_data)
    return {};
  kernels::hasher hash;
  std::vector<std::byte> block(
    static_cast<std::size_t>(std::min<std::uint64_t>(block_bytes, expected.size_bytes)));
  for (std::uint64_t done = 0; done < expected.size_bytes; done += block.size()) {
    const auto part = std::span{block}.first(
      static_cast<std::size_t>(std::min<std::uint64_t>(block.size(), expected.size_bytes - done)));
    if (auto read = (*file)->read_at(done, part); !read)
      return at_path(path, std::move(read.error()));
    hash.update(part.data(), part.size());
  }
  if (hash.digest() != expected.checksum)
    return bad_checksum(path, "the file");
  return {};
}

result<void> read_piece(file_reader& file, const std::string& path, const checkpoint_piece& piece,
                        std::span<std::byte> to) {
  if (auto done = file.read_at(piece.offset_bytes, to); !done)
    return at_path(path, std::move(done.error()));
  if (kernels::hash64(to.data(), to.size()) != piece.checksum)
    return bad_checksum(path, "rows [" + std::to_string(piece.row_begin) + ", "
                                + std::to_string(piece.row_end) + ")");
  return {};
}

/// Copies the rows that a piece shares with [begin, end) to their place in `out`.
result<void> copy_rows(file_reader& file, const std::string& path, const checkpoint_piece& piece,
                       std::uint64_t row_bytes, std::int64_t begin, std::int64_t end,
                       std::span<std::byte> out) {
  const auto bytes_of = [&](std::int64_t rows) {
    return static_cast<std::size_t>(rows) * row_bytes;
  };
  const auto piece_bytes = bytes_of(piece.row_end - piece.row_begin);
  const auto from = std::max(begin, piece.row_begin);
  const auto to = std::min(end, piece.row_end);
  const auto target = out.subspan(bytes_of(from - begin), bytes_of(to - from));
  if (target.size() == piece_bytes)
    return read_piece(file, path, piece, target);
  std::vector<std::byte> whole(piece_bytes);
  if (auto done = read_piece(file, path, piece, whole); !done)
    return done;
  if (!target.empty())
    std::memcpy(target.data(), whole.data() + bytes_of(from - piece.row_begin), target.size());
  return {};
}

} // namespace

checkpoint_reader::checkpoint_reader(std::shared_ptr<storage_port> folder, std::string within,
                                     std::string path,
                                     std::shared_ptr<const checkpoint_manifest> manifest)
  : folder_{std::move(folder)},
    within_{std::move(within)},
    path_{std::move(path)},
    manifest_{std::move(manifest)} {}

result<checkpoint_reader> checkpoint_reader::open_in(const std::shared_ptr<storage_port>& folder,
                                                     const std::string& within,
                                                     const std::string& path,
                                                     checkpoint_read_options options) {
  const place at{*folder, within, path};
  auto manifest = read_manifest(at);
  if (!manifest)
    return std::move(manifest.error());
  for (const auto& file : manifest->files)
    if (auto done = verify_file(at, file, options.verify_data); !done)
      return std::move(done.error());
  return checkpoint_reader{folder, within, path,
                           std::make_shared<const checkpoint_manifest>(std::move(*manifest))};
}

result<checkpoint_reader> checkpoint_reader::open(storage_port& storage, const std::string& path,
                                                  checkpoint_read_options options) {
  auto folder = storage.folder(path);
  if (!folder)
    return at_path(path, std::move(folder.error()));
  return open_in(std::move(*folder), "", path, options);
}

result<checkpoint_reader> checkpoint_reader::open_latest(storage_port& storage,
                                                         const std::string& directory,
                                                         checkpoint_read_options options) {
  auto opened = storage.folder(directory);
  if (!opened && opened.error().code == errc::not_found)
    return no_checkpoint(directory, "the directory does not exist");
  if (!opened)
    return at_path(directory, std::move(opened.error()));
  const std::shared_ptr<storage_port> folder = std::move(*opened);
  std::vector<refused_checkpoint> refused;
  std::uint64_t newest = 0;
  for (;;) {
    auto there = list_generations(*folder, directory);
    if (!there)
      return std::move(there.error());
    const auto& numbers = there->numbers;
    // A writer may take the old ones away while we read them; then a newer one is there.
    if (!refused.empty() && (numbers.empty() || numbers.front() <= newest))
      break;
    if (numbers.empty() && there->too_high.empty())
      return no_checkpoint(directory, "the directory contains no checkpoint");
    newest = numbers.empty() ? 0 : numbers.front();
    refused.clear();
    for (const auto& name : there->too_high)
      refused.push_back(
        {directory + "/" + name,
         make_failure(errc::corrupt, directory + "/" + name
                                       + ": the number exceeds the highest allowed, "
                                       + std::to_string(detail::generation_max))});
    for (const auto number : numbers) {
      const auto name = detail::generation_name(number);
      const auto path = directory + "/" + name;
      auto reader = open_in(folder, name + "/", path, options);
      if (reader) {
        reader->refused_ = std::move(refused);
        return reader;
      }
      refused.push_back({path, std::move(reader.error())});
    }
  }
  std::string text = directory + ": no checkpoint is complete";
  for (const auto& each : refused)
    text += "; " + to_string(each.why);
  return make_failure(errc::corrupt, text);
}

const std::vector<checkpoint_variable>& checkpoint_reader::variables() const {
  return manifest_->variables;
}

const checkpoint_variable* checkpoint_reader::find(std::string_view name) const {
  const auto at = manifest_->index.find(name);
  return at == manifest_->index.end() ? nullptr : &manifest_->variables[at->second];
}

result<tensor> checkpoint_reader::read(std::string_view name, std::string_view part,
                                       std::int64_t row_begin, std::int64_t row_end) const {
  const auto what = path_ + ": " + std::string{name} + "/" + std::string{part};
  const auto* variable = find(name);
  if (!variable)
    return make_failure(errc::unknown_name, what + ": unknown variable");
  const auto& parts = variable->parts;
  const auto found =
    std::find_if(parts.begin(), parts.end(), [&](const auto& p) { return p.name == part; });
  if (found == parts.end())
    return make_failure(errc::unknown_name, what + ": unknown part");
  if (row_begin < 0 || row_end < row_begin || row_end > detail::rows_of(variable->shape)
      || (variable->shape.empty() && row_begin == row_end))
    return make_failure(errc::out_of_range, what + ": rows [" + std::to_string(row_begin) + ", "
                                              + std::to_string(row_end) + ") of shape "
                                              + to_string(variable->shape));
  auto shape = variable->shape;
  if (!shape.empty())
    shape[0] = row_end - row_begin;
  tensor out{found->type, shape};
  const auto row_bytes = detail::row_bytes_of(variable->shape, found->type);
  const auto& pieces = manifest_->pieces[manifest_->index.find(name)->second]
                                        [static_cast<std::size_t>(found - parts.begin())];
  auto piece = std::upper_bound(pieces.begin(), pieces.end(), row_begin,
                                [](std::int64_t row, const auto& p) { return row < p.row_end; });
  std::unique_ptr<file_reader> file;
  for (auto opened = detail::no_file; piece != pieces.end() && piece->row_begin < row_end;
       ++piece) {
    const auto& name = manifest_->files[piece->file].name;
    const auto path = path_ + "/" + name;
    if (opened != piece->file) {
      auto reader = place{*folder_, within_, path_}.open(name);
      if (!reader)
        return std::move(reader.error());
      file = std::move(*reader);
      opened = piece->file;
    }
    if (auto done =
          copy_rows(*file, path, *piece, row_bytes, row_begin, row_end, out.mutable_bytes());
        !done)
      return std::move(done.error());
  }
  return out;
}

result<std::uint64_t> checkpoint_reader::steps(std::string_view name) const {
  const auto* variable = find(name);
  if (!variable)
    return make_failure(errc::unknown_name,
                        path_ + ": " + std::string{name} + ": unknown variable");
  return variable->steps;
}

result<std::string> checkpoint_reader::extra(std::string_view key) const {
  const auto at = manifest_->extras.find(key);
  if (at == manifest_->extras.end())
    return make_failure(errc::unknown_name, path_ + ": unknown extra '" + std::string{key} + "'");
  return at->second;
}

} // namespace troupe
