#include <troupe/sim/tools/pick_text.hpp>

#include <charconv>

#include <troupe/sim/schedule.hpp>

namespace troupe::sim {

namespace {

constexpr std::uint64_t picks_max = 50'000'000;

/// The number that `text` is; false when it is none.
bool read_number(std::string_view text, std::uint64_t& to) {
  auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), to);
  return wrong == std::errc{} && end == text.data() + text.size();
}

} // namespace

std::string picks_to_text(std::span<const std::uint32_t> picks) {
  std::string out;
  for (std::size_t i = 0; i < picks.size();) {
    std::size_t end = i + 1;
    while (end < picks.size() && picks[end] == picks[i])
      ++end;
    out += out.empty() ? "" : " ";
    out += picks[i] == fifo_pick ? "f" : std::to_string(picks[i]);
    if (end - i > 1)
      out += "*" + std::to_string(end - i);
    i = end;
  }
  return out;
}

result<std::vector<std::uint32_t>> picks_from_text(std::string_view text) {
  std::vector<std::uint32_t> out;
  while (!text.empty()) {
    auto word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    if (word.empty())
      continue;
    auto star = word.find('*');
    auto what = word.substr(0, star);
    std::uint64_t pick = fifo_pick, times = 1;
    bool good = what == "f" || (read_number(what, pick) && pick < fifo_pick);
    if (star != std::string_view::npos)
      good = good && read_number(word.substr(star + 1), times);
    if (!good || times > picks_max - out.size())
      return make_failure(errc::corrupt, "picks: invalid pick '" + std::string{word} + "'");
    out.insert(out.end(), times, static_cast<std::uint32_t>(pick));
  }
  return out;
}

} // namespace troupe::sim
