#include <algorithm>
#include <exception>
#include <utility>

#include <troupe/actors/checkpoint/detail/checkpoint_manifest.hpp>

#include <troupe/core/planted.hpp>
#include <troupe/kernels/hash.hpp>

namespace troupe {

namespace {

using detail::checkpoint_manifest;

std::string parent_of(const std::string& path) {
  const auto end = path.find_last_not_of('/');
  const auto slash = end == std::string::npos ? end : path.rfind('/', end);
  if (slash == std::string::npos)
    return path.starts_with('/') ? "/" : ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

/// Whether a name in the folder is a directory itself: what a link leads to is somebody else's.
bool is_directory(storage_port& folder, const std::string& name) {
  const auto kind = folder.kind(name);
  return kind && *kind == file_kind::directory;
}

/// Removes the files of a flat directory and the directory.
result<void> remove_flat(storage_port& folder, const std::string& path) {
  auto names = folder.list(path);
  if (!names)
    return names.error().code == errc::not_found ? result<void>{} : std::move(names.error());
  for (const auto& name : *names)
    if (auto done = folder.remove(path + "/" + name); !done)
      return done;
  return folder.remove(path);
}

failure in_slice(errc code, const std::string& name, std::string_view part,
                 const std::string& text) {
  return make_failure(code, "checkpoint: " + name + "/" + std::string{part} + ": " + text);
}

} // namespace

struct checkpoint_writer::state {
  enum class phase : std::uint8_t { idle, open, renamed };

  storage_port& storage;
  std::string directory;
  checkpoint_write_options options;
  std::unique_ptr<storage_port> folder{}; ///< the directory, while a checkpoint is open
  std::unique_ptr<file_lock> lock{};      ///< and its lock
  phase at = phase::idle;
  std::optional<failure> broken{};
  std::optional<failure> cleanup{};
  std::uint64_t number = 0;
  checkpoint_manifest manifest{};
  std::unique_ptr<file_writer> file{};
  kernels::hasher file_hash{};

  std::string final_path() const { return directory + "/" + final_name(); }
  std::string final_name() const { return detail::generation_name(number); }
  std::string temporary_name() const { return final_name() + ".tmp"; }

  failure fail(failure why) {
    broken = std::move(why);
    return *broken;
  }
  /// Nothing when `begin` went well and no call failed since.
  std::optional<failure> refuse() const {
    if (broken)
      return broken;
    if (at != phase::open)
      return make_failure(errc::wrong_state,
                          "checkpoint: begin() was not called (" + directory + ")");
    return {};
  }
  void mark(std::string_view id) const {
    if (options.trace)
      options.trace->mark(id);
  }

  void give_up();
  void leave();
  result<void> make_directory();
  result<void> enter();
  result<void> begin();
  result<void> check(const std::string& name, dtype type, const shape_t& shape,
                     std::string_view part, std::int64_t row_begin, const tensor& rows) const;
  checkpoint_variable& variable(const std::string& name);
  std::vector<detail::checkpoint_piece>& pieces_of(const std::string& name, dtype type,
                                                   std::string_view part);
  result<void> next_file();
  result<void> end_file();
  result<void> write_piece(detail::checkpoint_piece piece, std::span<const std::byte> bytes,
                           std::vector<detail::checkpoint_piece>& to);
  result<void> write_manifest();
  result<void> publish();
  result<void> clean_up();
};

/// Takes the unfinished checkpoint away, as far as the storage lets us: `begin` tries again.
void checkpoint_writer::state::give_up() {
  file.reset();
  try {
    if (at == phase::renamed)
      (void)folder->rename(final_name(), temporary_name());
    if (at != phase::idle)
      (void)remove_flat(*folder, temporary_name());
  } catch (const std::exception&) { // out of memory: what stays is a left-over as after a crash
  }
  leave();
}

/// Lets others write here.
void checkpoint_writer::state::leave() {
  at = phase::idle;
  lock.reset();
  folder.reset();
}

/// Makes the directory so that it survives a crash: each new name is synced in the directory above
/// it.
result<void> checkpoint_writer::state::make_directory() {
  std::vector<std::string> above;
  for (auto path = directory; !storage.exists(path) && parent_of(path) != path;
       path = parent_of(path))
    above.push_back(parent_of(path));
  if (auto done = storage.make_directories(directory); !done)
    return done;
  for (const auto& path : above)
    if (auto done = storage.sync_directory(path); !done)
      return done;
  return {};
}

/// Opens the directory and takes its lock.
result<void> checkpoint_writer::state::enter() {
  auto opened = storage.folder(directory);
  if (!opened)
    return std::move(opened.error());
  folder = std::move(*opened);
  auto locked = folder->lock(detail::lock_name);
  if (!locked && locked.error().code == errc::try_again)
    return make_failure(errc::try_again, "checkpoint: " + directory
                                           + ": another writer holds the lock of the directory ("
                                           + locked.error().text + ")");
  if (!locked)
    return std::move(locked.error());
  lock = std::move(*locked);
  return {};
}

result<void> checkpoint_writer::state::begin() {
  if (directory.empty())
    return make_failure(errc::invalid_argument, "checkpoint: directory is empty");
  if (auto done = make_directory(); !done)
    return done;
  if (auto done = enter(); !done)
    return done;
  auto names = folder->list("");
  if (!names)
    return std::move(names.error());
  std::uint64_t last = 0;
  bool is_first = true;
  for (const auto& name : *names) {
    const auto finished = detail::generation_number(name, false);
    const auto left_over = detail::generation_number(name, true);
    is_first = is_first && !finished;
    last = std::max({last, finished.value_or(0), left_over.value_or(0)});
    if (last == detail::generation_max || detail::is_number_too_high(name))
      return make_failure(errc::out_of_range,
                          "checkpoint: " + directory + "/" + name
                            + ": its number leaves none for the next checkpoint, the highest is "
                            + std::to_string(detail::generation_max) + "; move it away");
    if (left_over && is_directory(*folder, name)) // it may hold the space that this save needs
      (void)remove_flat(*folder, name);
  }
  if (is_first) // a process that was killed may have made the directory and not synced its name
    if (auto done = storage.sync_directory(parent_of(directory)); !done)
      return done;
  number = last + 1;
  at = phase::open;
  return folder->make_directories(temporary_name());
}

result<void> checkpoint_writer::state::check(const std::string& name, dtype type,
                                             const shape_t& shape, std::string_view part,
                                             std::int64_t row_begin, const tensor& rows) const {
  if (name.empty() || part.empty())
    return in_slice(errc::invalid_argument, name, part, "variable and part must have a name");
  if (!rows.defined() || !is_sane(shape, type))
    return in_slice(
      errc::invalid_argument, name, part,
      "shape " + to_string(shape) + " of " + to_string(type) + ", rows " + to_string(rows.shape()));
  if (rows.type() != type)
    return in_slice(errc::dtype_mismatch, name, part,
                    to_string(rows.type()) + " rows for " + to_string(type));
  auto expected = shape;
  if (!expected.empty())
    expected[0] = rows.rows();
  const bool is_scalar_row = shape.empty() && rows.size() == 1;
  if (rows.shape() != expected && !is_scalar_row)
    return in_slice(errc::shape_mismatch, name, part,
                    "rows " + to_string(rows.shape()) + " of shape " + to_string(shape));
  if (row_begin < 0 || row_begin > detail::rows_of(shape) - rows.rows())
    return in_slice(errc::out_of_range, name, part,
                    "row " + std::to_string(row_begin) + " and " + std::to_string(rows.rows())
                      + " rows of shape " + to_string(shape));
  const auto known = manifest.index.find(name);
  if (known == manifest.index.end() || manifest.variables[known->second].parts.empty())
    return {};
  const auto& variable = manifest.variables[known->second];
  if (variable.shape != shape)
    return in_slice(errc::mismatch, name, part,
                    "shape " + to_string(shape) + " after " + to_string(variable.shape));
  for (const auto& other : variable.parts)
    if (other.name == part && other.type != type)
      return in_slice(errc::mismatch, name, part,
                      to_string(type) + " after " + to_string(other.type));
  return {};
}

checkpoint_variable& checkpoint_writer::state::variable(const std::string& name) {
  const auto [at_name, is_new] = manifest.index.emplace(name, manifest.variables.size());
  if (is_new) {
    manifest.variables.emplace_back().name = name;
    manifest.pieces.emplace_back();
  }
  return manifest.variables[at_name->second];
}

std::vector<detail::checkpoint_piece>& checkpoint_writer::state::pieces_of(const std::string& name,
                                                                           dtype type,
                                                                           std::string_view part) {
  auto& parts = variable(name).parts;
  auto& pieces = manifest.pieces[manifest.index.find(name)->second];
  const auto found =
    std::find_if(parts.begin(), parts.end(), [&](const auto& p) { return p.name == part; });
  if (found != parts.end())
    return pieces[static_cast<std::size_t>(found - parts.begin())];
  parts.push_back({std::string{part}, type});
  return pieces.emplace_back();
}

result<void> checkpoint_writer::state::next_file() {
  const auto name = detail::data_file_name(manifest.files.size());
  auto made = folder->create(temporary_name() + "/" + name);
  if (!made)
    return std::move(made.error());
  file = std::move(*made);
  file_hash.reset();
  manifest.files.push_back({.name = name});
  return {};
}

result<void> checkpoint_writer::state::end_file() {
  if (!file)
    return {};
  manifest.files.back().checksum = file_hash.digest();
  if (auto done = planted(planted_bug::no_sync) ? result<void>{} : file->sync(); !done)
    return done;
  auto done = file->close();
  file.reset();
  return done;
}

result<void> checkpoint_writer::state::write_piece(detail::checkpoint_piece piece,
                                                   std::span<const std::byte> bytes,
                                                   std::vector<detail::checkpoint_piece>& to) {
  if (file && manifest.files.back().size_bytes + bytes.size() > options.file_bytes_max)
    if (auto done = end_file(); !done)
      return done;
  if (!file)
    if (auto done = next_file(); !done)
      return done;
  if (auto done = file->write(bytes); !done)
    return done;
  file_hash.update(bytes.data(), bytes.size());
  piece.file = static_cast<std::uint32_t>(manifest.files.size() - 1);
  piece.offset_bytes = std::exchange(manifest.files.back().size_bytes,
                                     manifest.files.back().size_bytes + bytes.size());
  piece.checksum = kernels::hash64(bytes.data(), bytes.size());
  to.push_back(piece);
  return {};
}

result<void> checkpoint_writer::state::write_manifest() {
  const auto bytes = detail::encode(manifest);
  const auto path = temporary_name() + "/" + std::string{detail::manifest_name};
  if (bytes.size() > detail::manifest_bytes_max)
    return make_failure(errc::too_large, "checkpoint: " + directory + "/" + path + " takes "
                                           + std::to_string(bytes.size()) + " bytes");
  auto made = folder->create(path);
  if (!made)
    return std::move(made.error());
  if (auto done = (*made)->write(std::as_bytes(std::span{bytes.data(), bytes.size()})); !done)
    return done;
  if (auto done = (*made)->sync(); !done)
    return done;
  return (*made)->close();
}

/// The steps of a commit in the order that makes it one: data, manifest, names, the rename, its
/// name.
result<void> checkpoint_writer::state::publish() {
  if (auto done = detail::order_pieces(manifest); !done)
    return done;
  if (auto done = end_file(); !done)
    return done;
  mark("checkpoint.data_synced");
  if (auto done = write_manifest(); !done)
    return done;
  if (auto done = folder->sync_directory(temporary_name()); !done)
    return done;
  mark("checkpoint.manifest_synced");
  at = phase::renamed;
  if (auto done = folder->rename(temporary_name(), final_name()); !done)
    return done;
  mark("checkpoint.renamed");
  return folder->sync_directory("");
}

/// Takes away what `keep` does not cover, and left-overs; the first failure of all. A generation
/// loses its name first, so that it is never there in part.
result<void> checkpoint_writer::state::clean_up() {
  auto names = folder->list("");
  if (!names)
    return std::move(names.error());
  result<void> first;
  const auto note = [&](result<void> done) {
    if (!done && first)
      first = std::move(done);
  };
  std::vector<std::uint64_t> finished;
  for (const auto& name : *names) {
    if (!is_directory(*folder, name))
      continue;
    if (const auto n = detail::generation_number(name, false))
      finished.push_back(*n);
    else if (detail::generation_number(name, true))
      note(remove_flat(*folder, name));
  }
  std::sort(finished.rbegin(), finished.rend());
  for (std::size_t i = std::max(options.keep, 1u); i < finished.size(); ++i) {
    const auto name = detail::generation_name(finished[i]);
    auto gone = folder->rename(name, name + ".tmp");
    if (gone)
      gone = folder->sync_directory("");
    if (gone)
      gone = remove_flat(*folder, name + ".tmp");
    note(std::move(gone));
  }
  return first;
}

checkpoint_writer::checkpoint_writer(storage_port& storage, std::string directory,
                                     checkpoint_write_options options)
  : state_{new state{.storage = storage, .directory = std::move(directory), .options = options}} {
  while (state_->directory.size() > 1 && state_->directory.ends_with('/'))
    state_->directory.pop_back();
}

checkpoint_writer::~checkpoint_writer() {
  if (state_)
    state_->give_up();
}

checkpoint_writer::checkpoint_writer(checkpoint_writer&&) noexcept = default;

result<void> checkpoint_writer::begin() {
  auto& s = *state_;
  s.give_up();
  s.broken.reset();
  s.cleanup.reset();
  s.manifest = {};
  if (auto done = s.begin(); !done) {
    s.give_up();
    return s.fail(std::move(done.error()));
  }
  return {};
}

result<void> checkpoint_writer::add_slice(const std::string& name, dtype type, const shape_t& shape,
                                          std::string_view part, std::int64_t row_begin,
                                          const tensor& rows) {
  auto& s = *state_;
  if (auto no = s.refuse())
    return std::move(*no);
  if (auto done = s.check(name, type, shape, part, row_begin, rows); !done)
    return s.fail(std::move(done.error()));
  s.variable(name).shape = shape;
  auto& pieces = s.pieces_of(name, type, part);
  const auto row_bytes = detail::row_bytes_of(shape, type);
  const auto step = row_bytes == 0 ? rows.rows()
                                   : static_cast<std::int64_t>(std::max<std::uint64_t>(
                                     1, s.options.piece_bytes_max / row_bytes));
  for (std::int64_t at = 0; at < rows.rows(); at += std::min(step, rows.rows() - at)) {
    const auto count = static_cast<std::uint64_t>(std::min(step, rows.rows() - at));
    const auto bytes =
      rows.bytes().subspan(static_cast<std::uint64_t>(at) * row_bytes, count * row_bytes);
    const auto begin = row_begin + at;
    auto done = s.write_piece(
      {.row_begin = begin, .row_end = begin + static_cast<std::int64_t>(count)}, bytes, pieces);
    if (!done)
      return s.fail(std::move(done.error()));
  }
  return {};
}

result<void> checkpoint_writer::set_steps(const std::string& name, std::uint64_t t,
                                          optimizer_kind optimizer) {
  if (auto no = state_->refuse())
    return std::move(*no);
  auto& variable = state_->variable(name);
  variable.steps = t;
  variable.optimizer = optimizer;
  return {};
}

result<void> checkpoint_writer::set_extra(const std::string& key, std::string bytes) {
  if (auto no = state_->refuse())
    return std::move(*no);
  state_->manifest.extras[key] = std::move(bytes);
  return {};
}

result<std::string> checkpoint_writer::commit() {
  auto& s = *state_;
  if (auto no = s.refuse())
    return std::move(*no);
  if (auto done = s.publish(); !done) {
    s.fail(std::move(done.error()));
    s.give_up();
    return *s.broken;
  }
  s.at = state::phase::idle;
  s.mark("checkpoint.committed");
  if (auto done = s.clean_up(); !done)
    s.cleanup = std::move(done.error());
  s.leave();
  return s.final_path();
}

const std::optional<failure>& checkpoint_writer::cleanup_failure() const { return state_->cleanup; }

} // namespace troupe
