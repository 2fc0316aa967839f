#pragma once

#include <new>
#include <set>
#include <string>

#include <dirent.h>
#include <sys/mman.h>

#include <doctest/doctest.h>

#include "../../tools/process/child_process.hpp"
#include "waiting.hpp"

/// Processes of a test, and what they share.
namespace troupe::testing {

using tool::child_process;

/// Memory of a test and the processes that it starts.
template <class Page>
class shared_memory {
public:
  shared_memory() {
    void* at =
      ::mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(at != MAP_FAILED);
    page_ = new (at) Page{};
  }
  ~shared_memory() { ::munmap(page_, sizeof(Page)); }
  shared_memory(const shared_memory&) = delete;
  shared_memory& operator=(const shared_memory&) = delete;
  Page& operator*() { return *page_; }
  Page* operator->() { return page_; }
  const Page* operator->() const { return page_; }

private:
  Page* page_ = nullptr;
};

/// The named segments of shared memory on this machine.
inline std::set<std::string> shared_segments() {
  std::set<std::string> out;
  if (DIR* directory = ::opendir("/dev/shm")) {
    while (const dirent* entry = ::readdir(directory))
      out.insert(entry->d_name);
    ::closedir(directory);
  }
  return out;
}

} // namespace troupe::testing
