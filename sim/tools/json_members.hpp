#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace troupe::sim {

using json = nlohmann::ordered_json;

/// Whole numbers that a member may have, both ends included.
struct number_range {
  std::int64_t least = 0;
  std::int64_t most = 0;
};

/// An object of a JSON text, read member by member. Everything that is wrong throws `corrupt` and
/// names the member by its place and the value: "faults[2].at_ns: 1.5 is no whole number". What was
/// not asked for is refused by `end`.
class json_members {
public:
  /// `place`: of the object in its text, "" for the text itself.
  json_members(const json& from, std::string place);

  bool has(const char* name) const { return from_.contains(name); }

  std::string text(const char* name);
  std::string text_or(const char* name, std::string otherwise);
  /// Any number of 64 bits.
  std::uint64_t unsigned_number(const char* name);
  std::int64_t number(const char* name, number_range range);
  std::int64_t number_or(const char* name, std::int64_t otherwise, number_range range);
  template <class T>
  void get(const char* name, T& to, number_range range) {
    to = static_cast<T>(number(name, range));
  }
  json_members object(const char* name);
  /// An array.
  const json& list(const char* name);

  /// "faults[2].at_ns"
  std::string place_of(std::string_view name) const;
  /// Throws: the member of that name cannot be used.
  [[noreturn]] void refuse(const char* name, const std::string& why) const;
  /// Throws when there is a member that nobody has read.
  void end() const;

private:
  const json& at(const char* name);

  const json& from_;
  std::string place_;
  std::set<std::string, std::less<>> read_{};
};

/// The value as it stands in the text, cut where it is long.
std::string short_text(const json& value);
/// The text as JSON. `corrupt`: it is none, or an object has two members of one name.
json parse_json(std::string_view text);

} // namespace troupe::sim
