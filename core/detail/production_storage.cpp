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
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

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
  descriptor& operator=(descriptor&&) = delete;
  ~descriptor() { release(); }
  bool is_open() const { return fd_ >= 0; }
  int get() const { return fd_; }
  /// 0, or -1 and errno. The descriptor is gone either way, an interrupted close included.
  int release() {
    const int fd = std::exchange(fd_, -1);
    return fd < 0 || ::close(fd) == 0 || errno == EINTR ? 0 : -1;
  }

private:
  int fd_;
};

descriptor open_retrying(const std::string& path, int flags) {
  int fd = -1;
  do {
    fd = ::open(path.c_str(), flags | O_CLOEXEC, 0644);
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

bool is_directory(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

class posix_storage final : public storage_port {
public:
  result<std::unique_ptr<file_writer>> create(const std::string& path) override {
    auto fd = open_retrying(path, O_WRONLY | O_CREAT | O_TRUNC);
    if (!fd.is_open())
      return system_failure("create", path);
    return std::unique_ptr<file_writer>{new posix_writer{path, std::move(fd)}};
  }

  result<std::unique_ptr<file_reader>> open(const std::string& path) override {
    auto fd = open_retrying(path, O_RDONLY);
    struct stat info {};
    if (!fd.is_open() || ::fstat(fd.get(), &info) != 0)
      return system_failure("open", path);
    if (S_ISDIR(info.st_mode))
      return make_failure(errc::io_failed, "open " + path + ": is a directory");
    const auto size_bytes = static_cast<std::uint64_t>(info.st_size);
    return std::unique_ptr<file_reader>{new posix_reader{path, std::move(fd), size_bytes}};
  }

  result<void> rename(const std::string& from, const std::string& to) override {
    if (std::rename(from.c_str(), to.c_str()) != 0)
      return system_failure("rename", from + " to " + to);
    return {};
  }

  result<void> remove(const std::string& path) override {
    if (::unlink(path.c_str()) == 0 || errno == ENOENT)
      return {};
    if ((errno == EISDIR || errno == EPERM) && ::rmdir(path.c_str()) == 0)
      return {};
    if (errno == ENOENT)
      return {};
    return system_failure("remove", path);
  }

  result<void> make_directories(const std::string& path) override {
    for (std::size_t at = path.find_first_not_of('/'); at != std::string::npos;) {
      const std::size_t end = path.find('/', at);
      const std::string part = path.substr(0, end);
      if (::mkdir(part.c_str(), 0755) != 0) {
        const int error_number = errno;
        if (!is_directory(part)) { // what is there already may also say EROFS or EACCES
          errno = error_number;
          return system_failure("make directory", part);
        }
      }
      at = end == std::string::npos ? end : path.find_first_not_of('/', end);
    }
    return {};
  }

  result<void> sync_directory(const std::string& path) override {
    auto fd = open_retrying(path.empty() ? "." : path, O_RDONLY | O_DIRECTORY);
    if (!fd.is_open())
      return system_failure("open directory", path);
    if (sync_retrying(fd.get()) != 0
        && errno != EINVAL) // EINVAL: this file system has no such thing
      return system_failure("fsync directory", path);
    return {};
  }

  result<std::vector<std::string>> list(const std::string& path) override {
    const std::unique_ptr<DIR, int (*)(DIR*)> dir{::opendir(path.c_str()), ::closedir};
    if (!dir)
      return system_failure("list", path);
    std::vector<std::string> names;
    errno = 0;
    while (const dirent* entry = ::readdir(dir.get())) {
      const std::string name = entry->d_name;
      if (name != "." && name != "..")
        names.push_back(name);
      errno = 0;
    }
    if (errno != 0)
      return system_failure("list", path);
    std::sort(names.begin(), names.end());
    return names;
  }

  bool exists(const std::string& path) override { return ::access(path.c_str(), F_OK) == 0; }
};

} // namespace

std::unique_ptr<storage_port> make_posix_storage() { return std::make_unique<posix_storage>(); }

} // namespace troupe::detail
