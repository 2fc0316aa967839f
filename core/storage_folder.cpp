#include <troupe/core/storage_folder.hpp>

#include <algorithm>
#include <optional>
#include <utility>

namespace troupe {

std::string_view to_string(file_kind kind) {
  switch (kind) {
    case file_kind::none: return "nothing";
    case file_kind::file: return "a file";
    case file_kind::directory: return "a directory";
    case file_kind::link: return "a link";
    case file_kind::other: return "a FIFO, a socket or a device";
  }
  return "file_kind(?)";
}

std::vector<std::string> path_parts(const std::string& path) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at < path.size();) {
    const auto end = std::min(path.find('/', at), path.size());
    auto part = path.substr(at, end - at);
    if (!part.empty() && part != ".")
      parts.push_back(std::move(part));
    at = end + 1;
  }
  return parts;
}

namespace {

class storage_folder final : public storage_port {
public:
  storage_folder(storage_port& below, std::string directory)
    : below_{below}, prefix_{std::move(directory)} {
    if (!prefix_.ends_with('/'))
      prefix_ += '/';
  }

  result<std::unique_ptr<file_writer>> create(const std::string& path) override {
    if (auto no = refuse("create", path, true))
      return *no;
    return below_.create(whole(path));
  }
  result<std::unique_ptr<file_reader>> open(const std::string& path) override {
    if (auto no = refuse("open", path, true))
      return *no;
    return below_.open(whole(path));
  }
  result<void> rename(const std::string& from, const std::string& to) override {
    for (const auto* path : {&from, &to})
      if (auto no = refuse("rename", *path, false))
        return *no;
    return below_.rename(whole(from), whole(to));
  }
  result<void> remove(const std::string& path) override {
    if (auto no = refuse("remove", path, false))
      return *no;
    return below_.remove(whole(path));
  }
  result<void> make_directories(const std::string& path) override {
    if (auto no = refuse("make directory", path, true))
      return *no;
    return below_.make_directories(whole(path));
  }
  result<void> sync_directory(const std::string& path) override {
    if (auto no = refuse("open directory", path, true))
      return *no;
    return below_.sync_directory(whole(path));
  }
  result<std::vector<std::string>> list(const std::string& path) override {
    if (auto no = refuse("list", path, true))
      return *no;
    return below_.list(whole(path));
  }
  bool exists(const std::string& path) override {
    auto there = kind(path);
    return there && *there != file_kind::none;
  }
  result<file_kind> kind(const std::string& path) override {
    if (auto no = refuse("look at", path, false))
      return *no;
    return below_.kind(whole(path));
  }
  result<std::unique_ptr<storage_port>> folder(const std::string& directory) override {
    if (auto no = refuse("open directory", directory, true))
      return *no;
    return below_.folder(whole(directory));
  }
  result<std::unique_ptr<file_lock>> lock(const std::string& path) override {
    if (auto no = refuse("lock", path, true))
      return *no;
    return below_.lock(whole(path));
  }

private:
  std::string whole(const std::string& path) const { return prefix_ + path; }

  /// Why a call on `path` would leave the folder, if it would. The last part may be a link unless
  /// `last_too`.
  std::optional<failure> refuse(const char* what, const std::string& path, bool last_too) const {
    auto at = prefix_;
    const auto parts = path_parts(path);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      at += parts[i];
      if (parts[i] == "..")
        return make_failure(errc::invalid_argument,
                            std::string{what} + " " + whole(path) + ": .. escapes from " + prefix_);
      if (i + 1 == parts.size() && !last_too)
        break;
      if (auto there = below_.kind(at); there && *there == file_kind::link)
        return make_failure(errc::io_failed,
                            std::string{what} + " " + whole(path) + ": " + at
                              + " is a symbolic link; links are not followed below "
                              + prefix_.substr(0, prefix_.size() - 1));
      at += '/';
    }
    return std::nullopt;
  }

  storage_port& below_;
  std::string prefix_;
};

} // namespace

std::unique_ptr<storage_port> make_storage_folder(storage_port& below, std::string directory) {
  return std::make_unique<storage_folder>(below, std::move(directory));
}

result<std::unique_ptr<storage_port>> storage_port::folder(const std::string& directory) {
  if (!exists(directory))
    return make_failure(errc::not_found,
                        "open directory " + directory + ": No such file or directory");
  return make_storage_folder(*this, directory);
}

} // namespace troupe
