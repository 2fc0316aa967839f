#include <troupe/core/detail/production_storage.hpp>
#include <troupe/core/file_size_limit.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <optional>
#include <system_error>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <troupe/core/storage_folder.hpp>

namespace troupe::detail {

namespace {

errc code_of(int error_number) {
  switch (error_number) {
    case ENOSPC:
    case EDQUOT: return errc::no_space;
    case ENOENT:
    case ENOTDIR: return errc::not_found;
    default: return errc::io_failed;
  }
}

/// "write /a/b: No space left on device". Reads errno.
failure system_failure(const std::string& what, const std::string& path) {
  const int error_number = errno;
  auto text = what + " " + path + ": " + std::generic_category().message(error_number);
  rlimit limit{};
  if (error_number == EFBIG && ::getrlimit(RLIMIT_FSIZE, &limit) == 0
      && limit.rlim_cur != RLIM_INFINITY)
    text +=
      " (files of this process may have " + std::to_string(limit.rlim_cur) + " bytes: ulimit -f)";
  return make_failure(code_of(error_number), std::move(text));
}

/// Owns a file descriptor.
class descriptor {
public:
  explicit descriptor(int fd) : fd_{fd} {}
  descriptor(descriptor&& other) noexcept : fd_{std::exchange(other.fd_, -1)} {}
  descriptor& operator=(descriptor&& other) noexcept {
    if (this != &other) {
      release();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~descriptor() { release(); }
  bool is_open() const { return fd_ >= 0; }
  int get() const { return fd_; }
  /// The caller closes it from here on.
  int leave() { return std::exchange(fd_, -1); }
  /// 0, or -1 and errno. The descriptor is gone either way, an interrupted close included.
  int release() {
    const int fd = std::exchange(fd_, -1);
    return fd < 0 || ::close(fd) == 0 || errno == EINTR ? 0 : -1;
  }

private:
  int fd_;
};

descriptor open_retrying(int directory, const std::string& name, int flags) {
  int fd = -1;
  do {
    fd = ::openat(directory, name.c_str(), flags | O_CLOEXEC, 0644);
  } while (fd < 0 && errno == EINTR);
  return descriptor{fd};
}

int sync_retrying(int fd) {
  int rc = 0;
  do {
    rc = ::fsync(fd);
  } while (rc != 0 && errno == EINTR);
  return rc;
}

class posix_writer final : public file_writer {
public:
  posix_writer(std::string path, descriptor fd) : path_{std::move(path)}, fd_{std::move(fd)} {}

  result<void> write(std::span<const std::byte> bytes) override {
    if (auto no = refuse())
      return *no;
    const file_size_limit_fails here;
    while (!bytes.empty()) {
      const ssize_t n = ::write(fd_.get(), bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR)
        continue;
      if (n < 0)
        return broken("write");
      bytes = bytes.subspan(static_cast<std::size_t>(n));
    }
    return {};
  }

  result<void> sync() override {
    if (auto no = refuse())
      return *no;
    if (sync_retrying(fd_.get()) != 0)
      return broken("fsync");
    return {};
  }

  result<void> close() override {
    auto no = refuse();
    if (fd_.release() != 0 && !no)
      return broken("close");
    return no ? result<void>{*no} : result<void>{};
  }

private:
  std::optional<failure> refuse() const {
    TROUPE_ASSERT(fd_.is_open(), "a file is not used after its close");
    return broken_;
  }
  failure broken(const char* what) {
    broken_ = system_failure(what, path_);
    return *broken_;
  }

  std::string path_;
  descriptor fd_;
  std::optional<failure> broken_{};
};

class posix_reader final : public file_reader {
public:
  posix_reader(std::string path, descriptor fd, std::uint64_t size_bytes)
    : path_{std::move(path)}, fd_{std::move(fd)}, size_bytes_{size_bytes} {}

  std::uint64_t size_bytes() const override { return size_bytes_; }

  result<void> read_at(std::uint64_t offset_bytes, std::span<std::byte> to) override {
    const std::uint64_t begin = offset_bytes;
    const std::size_t asked = to.size();
    if (offset_bytes > size_bytes_ || asked > size_bytes_ - offset_bytes)
      return short_file(begin, asked);
    while (!to.empty()) {
      const ssize_t n = ::pread(fd_.get(), to.data(), to.size(), static_cast<off_t>(offset_bytes));
      if (n < 0 && errno == EINTR)
        continue;
      if (n < 0)
        return system_failure("read", path_);
      if (n == 0) // somebody cut the file after it was opened
        return short_file(begin, asked);
      to = to.subspan(static_cast<std::size_t>(n));
      offset_bytes += static_cast<std::uint64_t>(n);
    }
    return {};
  }

private:
  failure short_file(std::uint64_t begin, std::size_t asked) const {
    return make_failure(errc::corrupt, "read " + path_ + ": " + std::to_string(asked) + " bytes at "
                                         + std::to_string(begin) + " of a file of "
                                         + std::to_string(size_bytes_) + " bytes");
  }

  std::string path_;
  descriptor fd_;
  std::uint64_t size_bytes_;
};

file_kind kind_of(mode_t mode) {
  if (S_ISREG(mode))
    return file_kind::file;
  if (S_ISDIR(mode))
    return file_kind::directory;
  return S_ISLNK(mode) ? file_kind::link : file_kind::other;
}

const char* name_of(mode_t mode) {
  if (S_ISDIR(mode))
    return "a directory";
  if (S_ISFIFO(mode))
    return "a FIFO";
  return S_ISSOCK(mode) ? "a socket" : "a device";
}

/// flock on a file that is removed while it is held, so that none stays behind.
class posix_lock final : public file_lock {
public:
  /// `directory` may be none: then the name is the process's own.
  posix_lock(descriptor directory, std::string name, descriptor fd)
    : directory_{std::move(directory)}, name_{std::move(name)}, fd_{std::move(fd)} {}
  ~posix_lock() override {
    (void)::unlinkat(directory_.is_open() ? directory_.get() : AT_FDCWD, name_.c_str(), 0);
  }
  posix_lock(const posix_lock&) = delete;
  posix_lock& operator=(const posix_lock&) = delete;

private:
  descriptor directory_;
  std::string name_;
  descriptor fd_;
};

/// Where a call works: an open directory, or the process's own, and a name in it.
struct place {
  descriptor directory{-1};
  int at = AT_FDCWD;
  std::string name{};
};

class posix_storage final : public storage_port {
public:
  posix_storage() = default;
  /// The storage below an open directory; `path` for errors.
  posix_storage(descriptor root, std::string path)
    : root_{std::move(root)}, prefix_{path.empty() ? "." : std::move(path)} {
    if (!prefix_.ends_with('/'))
      prefix_ += '/';
  }

  result<std::unique_ptr<file_writer>> create(const std::string& path) override {
    auto where = find("create", path);
    if (!where)
      return std::move(where.error());
    // Without O_NONBLOCK a FIFO that nobody reads would hold this process up.
    auto fd = open_retrying(where->at, where->name,
                            O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK | no_follow());
    struct stat info {};
    if (!fd.is_open() && errno == ENXIO)
      return make_failure(errc::io_failed,
                          "create " + shown(path) + ": is a FIFO or a socket without a reader");
    if (!fd.is_open() || ::fstat(fd.get(), &info) != 0)
      return broken("create", path, *where);
    if (!S_ISREG(info.st_mode) && is_folder())
      return no_file("create", path, info.st_mode);
    if (!S_ISREG(info.st_mode))
      (void)::fcntl(fd.get(), F_SETFL, 0); // from here on a slow reader is waited for
    return std::unique_ptr<file_writer>{new posix_writer{shown(path), std::move(fd)}};
  }

  result<std::unique_ptr<file_reader>> open(const std::string& path) override {
    auto where = find("open", path);
    if (!where)
      return std::move(where.error());
    auto fd = open_retrying(where->at, where->name, O_RDONLY | O_NONBLOCK | no_follow());
    struct stat info {};
    if (!fd.is_open() && errno == ENXIO)
      return make_failure(errc::io_failed,
                          "open " + shown(path) + ": is a socket, not a regular file");
    if (!fd.is_open() || ::fstat(fd.get(), &info) != 0)
      return broken("open", path, *where);
    if (!S_ISREG(info.st_mode))
      return no_file("open", path, info.st_mode);
    const auto size_bytes = static_cast<std::uint64_t>(info.st_size);
    return std::unique_ptr<file_reader>{new posix_reader{shown(path), std::move(fd), size_bytes}};
  }

  result<void> rename(const std::string& from, const std::string& to) override {
    auto old_place = find("rename", from);
    if (!old_place)
      return std::move(old_place.error());
    auto new_place = find("rename", to);
    if (!new_place)
      return std::move(new_place.error());
    if (::renameat(old_place->at, old_place->name.c_str(), new_place->at, new_place->name.c_str())
        != 0)
      return system_failure("rename", shown(from) + " to " + shown(to));
    return {};
  }

  result<void> remove(const std::string& path) override {
    auto where = find("remove", path);
    if (!where)
      return where.error().code == errc::not_found ? result<void>{} : std::move(where.error());
    if (::unlinkat(where->at, where->name.c_str(), 0) == 0 || errno == ENOENT)
      return {};
    if ((errno == EISDIR || errno == EPERM)
        && ::unlinkat(where->at, where->name.c_str(), AT_REMOVEDIR) == 0)
      return {};
    if (errno == ENOENT)
      return {};
    return system_failure("remove", shown(path));
  }

  result<void> make_directories(const std::string& path) override {
    for (std::size_t at = path.find_first_not_of('/'); at != std::string::npos;) {
      const std::size_t end = path.find('/', at);
      const std::string part = path.substr(0, end);
      auto where = find("make directory", part);
      if (!where)
        return std::move(where.error());
      if (::mkdirat(where->at, where->name.c_str(), 0755) != 0) {
        const int error_number = errno;
        if (!is_directory(*where)) { // what is there already may also say EROFS or EACCES
          errno = error_number;
          return broken("make directory", part, *where);
        }
      }
      at = end == std::string::npos ? end : path.find_first_not_of('/', end);
    }
    return {};
  }

  result<void> sync_directory(const std::string& path) override {
    auto fd = open_directory("open directory", path);
    if (!fd)
      return std::move(fd.error());
    if (sync_retrying(fd->get()) != 0
        && errno != EINVAL) // EINVAL: this file system has no such thing
      return system_failure("fsync directory", shown(path));
    return {};
  }

  result<std::vector<std::string>> list(const std::string& path) override {
    auto fd = open_directory("list", path);
    if (!fd)
      return std::move(fd.error());
    const std::unique_ptr<DIR, int (*)(DIR*)> dir{::fdopendir(fd->get()), ::closedir};
    if (!dir)
      return system_failure("list", shown(path));
    (void)fd->leave();
    std::vector<std::string> names;
    errno = 0;
    while (const dirent* entry = ::readdir(dir.get())) {
      const std::string name = entry->d_name;
      if (name != "." && name != "..")
        names.push_back(name);
      errno = 0;
    }
    if (errno != 0)
      return system_failure("list", shown(path));
    std::sort(names.begin(), names.end());
    return names;
  }

  bool exists(const std::string& path) override {
    const auto where = find("look at", path);
    struct stat info {};
    return where
           && ::fstatat(where->at, where->name.c_str(), &info,
                        is_folder() ? AT_SYMLINK_NOFOLLOW : 0)
                == 0;
  }

  result<file_kind> kind(const std::string& path) override {
    const auto where = find("look at", path);
    if (!where)
      return where.error().code == errc::not_found ? result<file_kind>{file_kind::none}
                                                   : result<file_kind>{where.error()};
    struct stat info {};
    if (::fstatat(where->at, where->name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0)
      return kind_of(info.st_mode);
    if (errno == ENOENT || errno == ENOTDIR)
      return file_kind::none;
    return system_failure("look at", shown(path));
  }

  result<std::unique_ptr<storage_port>> folder(const std::string& directory) override {
    auto fd = open_directory("open directory", directory);
    if (!fd)
      return std::move(fd.error());
    return std::unique_ptr<storage_port>{new posix_storage{std::move(*fd), shown(directory)}};
  }

  result<std::unique_ptr<file_lock>> lock(const std::string& path) override {
    for (;;) {
      auto where = find("lock", path);
      if (!where)
        return std::move(where.error());
      auto fd = open_retrying(where->at, where->name, O_RDWR | O_CREAT | O_NONBLOCK | no_follow());
      struct stat held {};
      if (!fd.is_open() || ::fstat(fd.get(), &held) != 0)
        return broken("lock", path, *where);
      if (!S_ISREG(held.st_mode))
        return no_file("lock", path, held.st_mode);
      if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return make_failure(errc::try_again, "lock " + shown(path) + ": already locked");
      // Whoever held it before took the name away: then this is the lock of nothing.
      struct stat named {};
      if (::fstatat(where->at, where->name.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0
          && named.st_dev == held.st_dev && named.st_ino == held.st_ino)
        return std::unique_ptr<file_lock>{new posix_lock{own(*where), where->name, std::move(fd)}};
    }
  }

private:
  bool is_folder() const { return root_.is_open(); }
  /// The place's directory for somebody who outlives this.
  static descriptor own(place& at) {
    if (at.directory.is_open() || at.at == AT_FDCWD)
      return std::move(at.directory);
    return descriptor{::fcntl(at.at, F_DUPFD_CLOEXEC, 0)};
  }
  int no_follow() const { return is_folder() ? O_NOFOLLOW : 0; }
  std::string shown(const std::string& path) const { return prefix_ + path; }

  /// In a folder one part after the other is opened, and none may be a link.
  result<place> find(const char* what, const std::string& path) const {
    if (!is_folder())
      return place{descriptor{-1}, AT_FDCWD, path.empty() ? "." : path};
    place out{descriptor{-1}, root_.get(), "."};
    for (const auto& part : path_parts(path)) {
      if (part == "..")
        return make_failure(errc::invalid_argument,
                            std::string{what} + " " + shown(path) + ": .. escapes from " + prefix_);
      if (out.name != ".") {
        auto next = open_retrying(out.at, out.name, O_PATH | O_DIRECTORY | O_NOFOLLOW);
        if (!next.is_open())
          return broken(what, path, out);
        out.at = next.get();
        out.directory = std::move(next);
      }
      out.name = part;
    }
    return out;
  }

  result<descriptor> open_directory(const char* what, const std::string& path) const {
    auto where = find(what, path);
    if (!where)
      return std::move(where.error());
    auto fd = open_retrying(where->at, where->name, O_RDONLY | O_DIRECTORY | no_follow());
    if (!fd.is_open())
      return broken(what, path, *where);
    return fd;
  }

  /// What errno says, or that a link is in the way. Reads errno.
  failure broken(const char* what, const std::string& path, const place& at) const {
    const int error_number = errno;
    struct stat info {};
    const bool there = ::fstatat(at.at, at.name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0;
    const auto text = std::string{what} + " " + shown(path);
    if (there && is_folder() && S_ISLNK(info.st_mode))
      return make_failure(errc::io_failed, text + ": " + at.name
                                             + " is a symbolic link; links are not followed below "
                                             + prefix_.substr(0, prefix_.size() - 1));
    errno = error_number;
    auto out = system_failure(what, shown(path));
    if (there && error_number == ENOTDIR && !S_ISLNK(info.st_mode))
      out.code = errc::io_failed; // it is there, and something else
    return out;
  }

  failure no_file(const char* what, const std::string& path, mode_t mode) const {
    return make_failure(errc::io_failed, std::string{what} + " " + shown(path) + ": is "
                                           + name_of(mode)
                                           + (S_ISDIR(mode) ? "" : ", not a regular file"));
  }

  static bool is_directory(const place& at, int flags) {
    struct stat info {};
    return ::fstatat(at.at, at.name.c_str(), &info, flags) == 0 && S_ISDIR(info.st_mode);
  }
  bool is_directory(const place& at) const {
    return is_directory(at, is_folder() ? AT_SYMLINK_NOFOLLOW : 0);
  }

  descriptor root_{-1};
  std::string prefix_{}; // "" or "directory/"
};

} // namespace

std::unique_ptr<storage_port> make_posix_storage() { return std::make_unique<posix_storage>(); }

} // namespace troupe::detail
