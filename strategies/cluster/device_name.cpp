#include <troupe/strategies/cluster/device_name.hpp>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <vector>

namespace troupe {

namespace {

bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }

bool is_job(std::string_view text) {
  return !text.empty() && is_letter(text[0]) && std::all_of(text.begin(), text.end(), [](char c) {
    return c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0;
  });
}

// No leading zero: two texts for one device would not compare equal.
std::optional<std::uint32_t> number(std::string_view text) {
  std::uint32_t out = 0;
  const auto* end = text.data() + text.size();
  auto [at, why] = std::from_chars(text.data(), end, out);
  if (why != std::errc{} || at != end || (text.size() > 1 && text[0] == '0'))
    return std::nullopt;
  return out;
}

std::optional<std::string> kind(std::string_view text) {
  static constexpr std::array<std::string_view, 3> kinds{"CPU", "GPU", "TPU"};
  std::string upper{text};
  for (auto& c : upper)
    c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  if (std::find(kinds.begin(), kinds.end(), upper) == kinds.end())
    return std::nullopt;
  return upper;
}

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> out;
  for (;;) {
    auto end = text.find(at);
    out.push_back(text.substr(0, end));
    if (end == std::string_view::npos)
      return out;
    text.remove_prefix(end + 1);
  }
}

// Reads part by part into `out`.
struct reader {
  std::string_view text;
  device_name out{};
  std::vector<std::string_view> seen{};

  failure wrong(std::string_view part, const std::string& why) const {
    return make_failure(errc::invalid_argument, "device name \"" + std::string{text} + "\": part \""
                                                  + std::string{part} + "\" " + why);
  }

  result<void> once(std::string_view field, std::string_view part) {
    if (std::find(seen.begin(), seen.end(), field) != seen.end())
      return wrong(part, "repeats the " + std::string{field});
    seen.push_back(field);
    return {};
  }

  result<void> take_number(std::string_view value, std::string_view part,
                           std::optional<std::uint32_t>& to) const {
    if (value == "*")
      return {};
    to = number(value);
    if (!to)
      return wrong(part, "has \"" + std::string{value} + "\", expected a number");
    return {};
  }

  result<void> take_job(std::string_view value, std::string_view part) {
    if (value == "*")
      return {};
    if (!is_job(value))
      return wrong(part, "has \"" + std::string{value} + "\", expected a job name");
    out.job = std::string{value};
    return {};
  }

  result<void> take_device(std::string_view kind_text, std::optional<std::string_view> index,
                           std::string_view part) {
    if (auto first = once("device", part); !first)
      return first;
    if (kind_text != "*") {
      out.kind = kind(kind_text);
      if (!out.kind)
        return wrong(part, "has \"" + std::string{kind_text} + "\", expected CPU, GPU or TPU");
    }
    return index ? take_number(*index, part, out.index) : result<void>{};
  }

  result<void> take_field(std::string_view field, std::string_view value, std::string_view part) {
    if (auto first = once(field, part); !first)
      return first;
    if (field == "job")
      return take_job(value, part);
    return take_number(value, part, field == "replica" ? out.replica : out.task);
  }

  result<void> take(std::string_view part) {
    auto words = split(part, ':');
    const bool is_field = words[0] == "job" || words[0] == "replica" || words[0] == "task";
    if (is_field && words.size() == 2)
      return take_field(words[0], words[1], part);
    if (words[0] == "device" && (words.size() == 2 || words.size() == 3))
      return take_device(words[1], words.size() == 3 ? std::optional{words[2]} : std::nullopt,
                         part);
    if (kind(words[0]) && words.size() <= 2)
      return take_device(words[0], words.size() == 2 ? std::optional{words[1]} : std::nullopt,
                         part);
    return wrong(part,
                 "is not one of job:NAME, replica:NUMBER, task:NUMBER, device:KIND:NUMBER, "
                 "KIND:NUMBER");
  }
};

template <class T>
const std::optional<T>& first_of(const std::optional<T>& inner, const std::optional<T>& outer) {
  return inner ? inner : outer;
}

} // namespace

result<device_name> parse_device_name(std::string_view text) {
  reader in{text};
  if (text.empty())
    return in.out;
  if (text[0] != '/') {
    // Troupe's own short form, which the runtime prints, is a device and nothing else.
    auto words = split(text, ':');
    if (text.find('/') != std::string_view::npos || words[0] == "job" || words[0] == "replica"
        || words[0] == "task")
      return in.wrong(text.substr(0, text.find('/')), "does not start with '/'");
  }
  for (auto part : split(text[0] == '/' ? text.substr(1) : text, '/'))
    if (auto taken = in.take(part); !taken)
      return taken.error();
  return in.out;
}

std::string to_string(const device_name& x) {
  std::string out;
  if (x.job)
    out += "/job:" + *x.job;
  if (x.replica)
    out += "/replica:" + std::to_string(*x.replica);
  if (x.task)
    out += "/task:" + std::to_string(*x.task);
  if (x.kind || x.index)
    out += "/device:" + x.kind.value_or("*") + ":" + (x.index ? std::to_string(*x.index) : "*");
  return out;
}

std::string short_name(const device_name& x) {
  std::string out;
  for (const char c : x.kind.value_or("*"))
    out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out + ":" + (x.index ? std::to_string(*x.index) : "*");
}

device_name merge(const device_name& inner, const device_name& outer) {
  return {first_of(inner.job, outer.job), first_of(inner.replica, outer.replica),
          first_of(inner.task, outer.task), first_of(inner.kind, outer.kind),
          first_of(inner.index, outer.index)};
}

device_name canonicalize(const device_name& name, const device_name& fallback,
                         const process_place& place) {
  return merge(merge(name, fallback), {place.job, 0, place.task, "CPU", 0});
}

result<std::string> canonicalize(std::string_view name, std::string_view fallback,
                                 const process_place& place) {
  auto own = parse_device_name(name);
  if (!own)
    return own.error();
  auto under = parse_device_name(fallback);
  if (!under)
    return under.error();
  return to_string(canonicalize(*own, *under, place));
}

device_name resolve(const device_name& name, std::span<const device_name> scopes,
                    const process_place& place) {
  device_name current;
  for (const auto& scope : scopes)
    current = merge(scope, current);
  return canonicalize(name, current, place);
}

} // namespace troupe
