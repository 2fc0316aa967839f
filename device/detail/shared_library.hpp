#pragma once

#include <initializer_list>

/// Libraries that exist only on machines with a GPU.
namespace troupe::detail {

/// Loads the first of `names` that is found: where the loader looks, then beside the CUDA runtime
/// that Troupe was built with. Null when there is none. Never unloaded.
void* load_library(std::initializer_list<const char*> names);

/// A function of a loaded library, as `function`; false when it has none of that name.
template <class F>
bool find_function(void* library, const char* name, F*& function);

/// The address behind `find_function`.
void* find_symbol(void* library, const char* name);

template <class F>
bool find_function(void* library, const char* name, F*& function) {
  function = reinterpret_cast<F*>(find_symbol(library, name));
  return function != nullptr;
}

} // namespace troupe::detail
