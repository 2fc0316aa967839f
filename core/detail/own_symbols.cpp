// Looks up a function of the running program in its own file, where also those that no other object
// sees have their names.
#include <troupe/core/readable_name.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace troupe {

namespace {

/// A file's bytes, mapped; none when it cannot be.
class mapped_file {
public:
  explicit mapped_file(const char* path) {
    const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
    struct stat info {};
    if (fd >= 0 && ::fstat(fd, &info) == 0 && info.st_size > 0) {
      void* at =
        ::mmap(nullptr, static_cast<std::size_t>(info.st_size), PROT_READ, MAP_PRIVATE, fd, 0);
      if (at != MAP_FAILED)
        bytes_ = {static_cast<const std::byte*>(at), static_cast<std::size_t>(info.st_size)};
    }
    if (fd >= 0)
      ::close(fd);
  }
  ~mapped_file() {
    if (!bytes_.empty())
      ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  }
  mapped_file(const mapped_file&) = delete;
  mapped_file& operator=(const mapped_file&) = delete;

  /// Null when the file is too short.
  template <class T>
  const T* at(std::uint64_t offset, std::uint64_t count = 1) const {
    if (offset > bytes_.size() || count > (bytes_.size() - offset) / sizeof(T)
        || offset % alignof(T) != 0)
      return nullptr;
    return reinterpret_cast<const T*>(bytes_.data() + offset);
  }

private:
  std::span<const std::byte> bytes_{};
};

std::span<const ElfW(Shdr)> sections_of(const mapped_file& file) {
  const auto* head = file.at<ElfW(Ehdr)>(0);
  if (!head || head->e_ident[EI_MAG0] != ELFMAG0 || head->e_shentsize != sizeof(ElfW(Shdr)))
    return {};
  const auto* first = file.at<ElfW(Shdr)>(head->e_shoff, head->e_shnum);
  return first ? std::span{first, head->e_shnum} : std::span<const ElfW(Shdr)>{};
}

/// The name in one symbol table of the function that begins at `value`.
std::string named_in(const mapped_file& file, const ElfW(Shdr) & table, const ElfW(Shdr) & names,
                     std::uint64_t value) {
  const auto count = table.sh_size / sizeof(ElfW(Sym));
  const auto* symbols = file.at<ElfW(Sym)>(table.sh_offset, count);
  const auto* text = file.at<char>(names.sh_offset, names.sh_size);
  if (!symbols || !text)
    return {};
  for (const auto& symbol : std::span{symbols, count})
    if ((symbol.st_info & 0xf) == STT_FUNC && symbol.st_value == value
        && symbol.st_name < names.sh_size) {
      const std::string_view rest{text + symbol.st_name, names.sh_size - symbol.st_name};
      return std::string{rest.substr(0, rest.find('\0'))};
    }
  return {};
}

std::string symbol_at(const void* address) {
  Dl_info info{};
  link_map* object = nullptr;
  if (::dladdr1(address, &info, reinterpret_cast<void**>(&object), RTLD_DL_LINKMAP) == 0 || !object)
    return {};
  if (info.dli_sname && info.dli_saddr == address)
    return info.dli_sname;
  const bool is_program = !object->l_name || *object->l_name == '\0';
  const mapped_file file{is_program ? "/proc/self/exe" : object->l_name};
  const auto sections = sections_of(file);
  for (const auto& section : sections)
    if (section.sh_type == SHT_SYMTAB && section.sh_link < sections.size())
      return named_in(file, section, sections[section.sh_link],
                      reinterpret_cast<std::uintptr_t>(address) - object->l_addr);
  return {};
}

} // namespace

std::string function_at(const void* address) {
  const auto symbol = symbol_at(address);
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text{
    abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status), std::free};
  return status == 0 && text ? std::string{text.get()} : symbol;
}

} // namespace troupe
