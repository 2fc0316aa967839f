#include <troupe/device/detail/shared_library.hpp>

#include <string>

#include <dlfcn.h>

namespace troupe::detail {

void* load_library(std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (void* found = ::dlopen(name, RTLD_NOW | RTLD_LOCAL))
      return found;
#ifdef TROUPE_CUDA_LIBRARY_DIR
  for (const char* name : names)
    if (void* found = ::dlopen((std::string{TROUPE_CUDA_LIBRARY_DIR "/"} + name).c_str(),
                               RTLD_NOW | RTLD_LOCAL))
      return found;
#endif
  return nullptr;
}

void* find_symbol(void* library, const char* name) { return ::dlsym(library, name); }

} // namespace troupe::detail
