#include <troupe/data/detail/whole_file.hpp>

#include <utility>

namespace troupe::detail {

struct whole_file::state {
  storage_port& storage;
  std::string path;
  std::unique_ptr<file_writer> file{};
  bool in_place = false;

  std::string temporary() const { return path + ".tmp"; }
  std::string directory() const {
    const auto slash = path.rfind('/');
    return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  }
};

whole_file::whole_file(std::unique_ptr<state> made) : state_{std::move(made)} {}

whole_file::whole_file(whole_file&&) noexcept = default;

whole_file::~whole_file() {
  if (!state_ || state_->in_place)
    return;
  state_->file.reset();
  (void)state_->storage.remove(state_->temporary());
}

result<whole_file> whole_file::create(storage_port& storage, std::string path) {
  if (path.empty() || path.ends_with('/'))
    return make_failure(errc::invalid_argument, "write '" + path + "': not a file name");
  std::unique_ptr<state> made{new state{.storage = storage, .path = std::move(path)}};
  if (auto gone = storage.remove(made->temporary()); !gone) // were it a link, it would be followed
    return std::move(gone.error());
  auto file = storage.create(made->temporary());
  if (!file)
    return std::move(file.error());
  made->file = std::move(*file);
  return whole_file{std::move(made)};
}

result<void> whole_file::write(std::span<const std::byte> bytes) {
  return state_->file->write(bytes);
}

result<void> whole_file::close() {
  auto& s = *state_;
  if (auto done = s.file->sync(); !done)
    return done;
  if (auto done = s.file->close(); !done)
    return done;
  s.file.reset();
  if (auto done = s.storage.rename(s.temporary(), s.path); !done)
    return done;
  s.in_place = true;
  return s.storage.sync_directory(s.directory());
}

} // namespace troupe::detail
