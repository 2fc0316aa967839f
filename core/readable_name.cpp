#include <troupe/core/readable_name.hpp>

#include <cxxabi.h>
#include <cstdlib>
#include <memory>

namespace troupe {

namespace {

/// Empty when it is no name of the compiler's.
std::string demangled(const char* name) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text{
    abi::__cxa_demangle(name, nullptr, nullptr, &status), std::free};
  return status == 0 && text ? std::string{text.get()} : std::string{};
}

std::string without(std::string text, std::string_view part) {
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at))
    text.erase(at, part.size());
  return text;
}

} // namespace

std::string readable_name(const std::type_info& type) {
  auto text = demangled(type.name());
  return text.empty() ? std::string{type.name()} : text;
}

std::string readable_function(std::string_view registered) {
  // Also "i" is a type's name; functions that are spelled out never look like a local one.
  if (!registered.starts_with('Z') && !registered.starts_with('N') && !registered.starts_with("Ul"))
    return std::string{registered};
  const auto number = registered.find('#');
  const std::string own{registered.substr(0, number)};
  auto text = without(demangled(own.c_str()), "troupe::");
  if (text.empty())
    return std::string{registered};
  return number == std::string_view::npos ? text : text + std::string{registered.substr(number)};
}

} // namespace troupe
