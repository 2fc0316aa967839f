#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <typeinfo>
#include <vector>

#include <troupe/core/ids.hpp>
#include <troupe/core/payload.hpp>

/// The table of functions that a program can run by name in any of its processes. Filled by static
/// objects before main, read only afterwards.
namespace troupe {

class step_host;

/// A per-worker object, built on the worker and never moved.
struct resource {
  std::shared_ptr<void> object{};
  const std::type_info* type = nullptr;
  explicit operator bool() const noexcept { return object != nullptr; }
};

struct function_entry {
  std::string name{};
  std::string signature{};
  /// Runs the function. Throws what the user's code throws, `troupe::error`, or std::length_error
  /// on broken bytes.
  std::function<payload(step_host&, const payload&)> invoke{};
  /// Builds a resource instead (a dataset function, an iterator). Null for steps.
  std::function<resource(step_host&, const payload&)> make{};
};

/// Name and signature of an entry, as compared at connect.
struct function_line {
  std::string name{};
  std::string signature{};
  friend bool operator==(const function_line&, const function_line&) = default;
  TROUPE_FIELDS(function_line, name, signature)
};

/// Sorted by name, so equal programs have equal tables.
class function_table {
public:
  /// The program's own table. Before main; any thread afterwards, read only.
  static function_table& global();

  /// Throws std::logic_error when the name is taken. `address` finds the entry again; may be null.
  void add(function_entry entry, const void* address);
  /// `add` for a name that the compiler made, and may make twice: lambdas in functions of the same
  /// name in two files. A taken name gets "#2", "#3", in the binary's own order, which is the same
  /// in all of its processes. `key` finds it.
  void add_unnamed(function_entry entry, const void* key);
  /// The entry of that name; null when there is none.
  const function_entry* find(std::string_view name) const;
  /// The name of the function at that address or key; empty when it was not registered.
  std::string_view name_of(const void* address) const;
  std::size_t size() const { return by_name_.size(); }
  /// The position of that name in the table. Throws `not_registered`.
  function_index index_of(std::string_view name) const;
  /// The entry at that position; null past the end.
  const function_entry* at(function_index index) const;
  std::vector<function_line> lines() const;
  std::uint64_t hash() const;

private:
  std::map<std::string, function_entry, std::less<>> by_name_{};
  std::map<const void*, std::string> by_address_{};
  mutable std::vector<const function_entry*> by_index_{};
  mutable std::atomic<bool> indexed_{
    false}; ///< by_index_ is complete: every call looks, so without a lock
  std::vector<const function_entry*>& index() const;
};

/// The first difference of two tables: empty when equal; else one sentence that says that the
/// builds differ and names the first function (by name, as `readable_function` has it) that only
/// one side has or that has another signature there.
std::string first_difference(std::span<const function_line> ours,
                             std::span<const function_line> theirs,
                             std::string_view our_build = "this build",
                             std::string_view their_build = "the other build");

} // namespace troupe
