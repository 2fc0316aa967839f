#include <troupe/core/function_registry.hpp>
#include <troupe/core/readable_name.hpp>

#include <algorithm>
#include <mutex>
#include <stdexcept>

namespace troupe {

namespace {

std::mutex& index_mutex() {
  static std::mutex m;
  return m;
}

std::uint64_t fold(std::uint64_t h,
                   std::string_view text) { // FNV-1a: names are short and this runs once
  for (unsigned char c : text)
    h = (h ^ c) * 0x100000001b3ULL;
  return (h ^ 0xff) * 0x100000001b3ULL;
}

} // namespace

function_table& function_table::global() {
  static function_table table;
  return table;
}

void function_table::add(function_entry entry, const void* address) {
  if (address)
    by_address_[address] = entry.name;
  auto name = entry.name;
  if (!by_name_.try_emplace(name, std::move(entry)).second)
    throw std::logic_error("duplicate registration of function " + name);
  indexed_ = false;
}

void function_table::add_unnamed(function_entry entry, const void* key) {
  auto made = entry.name;
  for (int n = 2; by_name_.contains(entry.name); ++n)
    entry.name = made + "#" + std::to_string(n);
  add(std::move(entry), key);
}

const function_entry* function_table::find(std::string_view name) const {
  auto at = by_name_.find(name);
  return at == by_name_.end() ? nullptr : &at->second;
}

std::string_view function_table::name_of(const void* address) const {
  auto at = by_address_.find(address);
  return at == by_address_.end() ? std::string_view{} : std::string_view{at->second};
}

std::vector<const function_entry*>& function_table::index() const {
  if (indexed_.load(std::memory_order_acquire))
    return by_index_;
  std::lock_guard lock{index_mutex()};
  if (!indexed_.load(std::memory_order_relaxed)) {
    by_index_.clear();
    for (const auto& [name, entry] : by_name_)
      by_index_.push_back(&entry);
    indexed_.store(true, std::memory_order_release);
  }
  return by_index_;
}

function_index function_table::index_of(std::string_view name) const {
  auto& all = index();
  auto at = std::lower_bound(all.begin(), all.end(), name,
                             [](auto* e, std::string_view n) { return e->name < n; });
  if (at == all.end() || (*at)->name != name)
    throw_failure(errc::not_registered, "function '" + readable_function(name)
                                          + "' is not registered with TROUPE_FUNCTION");
  return static_cast<function_index>(at - all.begin());
}

const function_entry* function_table::at(function_index i) const {
  auto& all = index();
  return value_of(i) < all.size() ? all[value_of(i)] : nullptr;
}

std::vector<function_line> function_table::lines() const {
  std::vector<function_line> out;
  for (const auto& [name, entry] : by_name_)
    out.push_back({.name = name, .signature = entry.signature});
  return out;
}

std::uint64_t function_table::hash() const {
  std::uint64_t h = 0xcbf29ce484222325ULL;
  for (const auto& [name, entry] : by_name_)
    h = fold(fold(h, name), entry.signature);
  return h;
}

std::string first_difference(std::span<const function_line> ours,
                             std::span<const function_line> theirs, std::string_view our_build,
                             std::string_view their_build) {
  const auto differ = [](const function_line& x, const std::string& how) {
    return "the builds differ: function '" + readable_function(x.name) + "' is " + how;
  };
  const auto only = [&](const function_line& x, std::string_view has, std::string_view lacks) {
    return differ(x, "in " + std::string{has} + " but not in " + std::string{lacks});
  };
  std::size_t i = 0;
  for (; i < ours.size() && i < theirs.size(); ++i) {
    if (ours[i].name < theirs[i].name)
      return only(ours[i], our_build, their_build);
    if (theirs[i].name < ours[i].name)
      return only(theirs[i], their_build, our_build);
    if (ours[i].signature != theirs[i].signature)
      return differ(ours[i], ours[i].signature + " in " + std::string{our_build} + " and "
                               + theirs[i].signature + " in " + std::string{their_build});
  }
  if (i < ours.size())
    return only(ours[i], our_build, their_build);
  if (i < theirs.size())
    return only(theirs[i], their_build, our_build);
  return {};
}

} // namespace troupe
