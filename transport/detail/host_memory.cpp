#include <troupe/transport/detail/host_memory.hpp>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <troupe/core/file_size_limit.hpp>
#include <troupe/kernels/hash.hpp>

namespace troupe::detail {

namespace {

failure no_memory(const std::string& what) {
  return make_failure(errc::unavailable, "shared memory: " + what + ": " + std::strerror(errno));
}

std::string boot_id() {
  const int fd = ::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return {};
  std::array<char, 64> text{};
  const ssize_t n = ::read(fd, text.data(), text.size());
  ::close(fd);
  return n > 0 ? std::string{text.data(), static_cast<std::size_t>(n)} : std::string{};
}

// Processes of other namespaces or users can't reach each other's descriptors.
std::string reach() {
  std::array<char, 128> link{};
  const ssize_t n = ::readlink("/proc/self/ns/pid", link.data(), link.size());
  if (n <= 0)
    return {};
  return std::string{link.data(), static_cast<std::size_t>(n)} + " " + std::to_string(::geteuid());
}

} // namespace

host_memory::~host_memory() {
  close_door();
  if (data_ != nullptr)
    ::munmap(data_, size_);
}

host_memory::host_memory(host_memory&& other) noexcept { *this = std::move(other); }

host_memory& host_memory::operator=(host_memory&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

result<owned_fd> make_sealed_memory(std::size_t bytes) {
  owned_fd out{::memfd_create("troupe-shared", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  if (!out)
    return no_memory("cannot create a memory descriptor");
  const file_size_limit_fails here; // memory counts as a file
  if (::ftruncate(out.get(), static_cast<off_t>(bytes)) != 0)
    return no_memory(std::to_string(bytes) + " bytes");
  // Nobody can make a reader fault by shortening it.
  if (::fcntl(out.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return no_memory("cannot seal the size");
  return out;
}

bool is_sealed_memory(int fd, std::size_t bytes) {
  struct stat what {};
  constexpr int seals = F_SEAL_SHRINK | F_SEAL_SEAL;
  return ::fstat(fd, &what) == 0 && static_cast<std::size_t>(what.st_size) == bytes
         && (::fcntl(fd, F_GET_SEALS) & seals) == seals;
}

result<host_memory> host_memory::create(std::size_t bytes) {
  auto made = make_sealed_memory(bytes);
  if (!made)
    return made.error();
  host_memory out;
  out.fd_ = made->release();
  if (auto ok = out.map(bytes); !ok)
    return ok.error();
  return out;
}

result<host_memory> host_memory::open(std::int64_t pid, std::int64_t fd, std::size_t bytes) {
  const std::string path = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(fd);
  host_memory out;
  out.fd_ = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (out.fd_ < 0)
    return no_memory(path);
  if (!is_sealed_memory(out.fd_, bytes))
    return make_failure(errc::unavailable,
                        "shared memory: " + path + " is not sealed shared memory");
  if (auto ok = out.map(bytes); !ok)
    return ok.error();
  out.close_door();
  return out;
}

result<void> host_memory::map(std::size_t bytes) {
  void* const at =
    ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd_, 0);
  if (at == MAP_FAILED)
    return no_memory(std::to_string(bytes) + " bytes cannot be mapped");
  data_ = static_cast<std::byte*>(at);
  size_ = bytes;
  return {};
}

void host_memory::close_door() {
  if (fd_ >= 0)
    ::close(std::exchange(fd_, -1));
}

std::int64_t own_pid() { return ::getpid(); }

} // namespace troupe::detail

namespace troupe {

group_locality this_locality() {
  const std::string boot = detail::boot_id();
  const std::string reach = detail::reach();
  if (boot.empty() || reach.empty())
    return {};
  group_locality out;
  out.host = kernels::hash64_text(boot + reach) | 1;
  out.process = kernels::hash64_text(std::to_string(detail::own_pid()), out.host) | 1;
  return out;
}

} // namespace troupe
