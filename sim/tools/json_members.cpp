#include <troupe/sim/tools/json_members.hpp>

#include <vector>

#include <troupe/core/error.hpp>

namespace troupe::sim {

std::string short_text(const json& value) {
  constexpr std::size_t most = 60;
  auto out = value.dump(-1, ' ', false, json::error_handler_t::replace);
  return out.size() <= most ? out : out.substr(0, most) + "...";
}

json_members::json_members(const json& from, std::string place)
  : from_{from}, place_{std::move(place)} {
  if (!from.is_object())
    throw_failure(errc::corrupt, (place_.empty() ? "replay file" : place_) + ": " + short_text(from)
                                   + " is not an object");
}

std::string json_members::place_of(std::string_view name) const {
  return place_.empty() ? std::string{name} : place_ + "." + std::string{name};
}

void json_members::refuse(const char* name, const std::string& why) const {
  throw_failure(errc::corrupt, place_of(name) + ": " + why);
}

const json& json_members::at(const char* name) {
  read_.insert(name);
  auto found = from_.find(name);
  if (found == from_.end())
    refuse(name, "missing member");
  return *found;
}

std::string json_members::text(const char* name) {
  const auto& value = at(name);
  if (!value.is_string())
    refuse(name, short_text(value) + " is not a string");
  return value.get<std::string>();
}

std::string json_members::text_or(const char* name, std::string otherwise) {
  return has(name) ? text(name) : std::move(otherwise);
}

std::uint64_t json_members::unsigned_number(const char* name) {
  const auto& value = at(name);
  if (!value.is_number_unsigned())
    refuse(name, short_text(value) + " is not an integer from 0 to 18446744073709551615");
  return value.get<std::uint64_t>();
}

std::int64_t json_members::number(const char* name, number_range range) {
  const auto& value = at(name);
  if (!value.is_number_integer())
    refuse(name, short_text(value) + " is not an integer");
  const bool fits = !value.is_number_unsigned()
                    || value.get<std::uint64_t>() <= static_cast<std::uint64_t>(INT64_MAX);
  auto out = fits ? value.get<std::int64_t>() : INT64_MAX;
  if (!fits || out < range.least || out > range.most)
    refuse(name, short_text(value) + " is not in the range " + std::to_string(range.least) + " to "
                   + std::to_string(range.most));
  return out;
}

std::int64_t json_members::number_or(const char* name, std::int64_t otherwise, number_range range) {
  return has(name) ? number(name, range) : otherwise;
}

json_members json_members::object(const char* name) {
  const auto& value = at(name);
  return {value, place_of(name)};
}

const json& json_members::list(const char* name) {
  const auto& value = at(name);
  if (!value.is_array())
    refuse(name, short_text(value) + " is not an array");
  return value;
}

void json_members::end() const {
  for (const auto& [name, value] : from_.items())
    if (!read_.contains(name))
      throw_failure(errc::corrupt, place_of(name) + ": unknown member");
}

json parse_json(std::string_view text) {
  std::vector<std::set<std::string>> open; // names of the objects around
  auto see = [&open](int, json::parse_event_t what, json& parsed) {
    if (what == json::parse_event_t::object_start)
      open.emplace_back();
    else if (what == json::parse_event_t::object_end)
      open.pop_back();
    else if (what == json::parse_event_t::key
             && !open.back().insert(parsed.get<std::string>()).second)
      throw_failure(errc::corrupt, parsed.get<std::string>() + ": duplicate member");
    return true;
  };
  try {
    return json::parse(text, see);
  } catch (const json::exception& e) {
    throw_failure(errc::corrupt, e.what());
  }
}

} // namespace troupe::sim
