#include <troupe/core/nearest_word.hpp>

#include <algorithm>
#include <cctype>
#include <vector>

namespace troupe {

namespace {

constexpr std::size_t word_chars_max = 64; // longer ones are no typing mistakes

std::string folded(std::string_view word) {
  std::string out;
  for (const unsigned char c : word)
    if (c != '-' && c != '_' && c != ' ')
      out += static_cast<char>(std::tolower(c));
  return out;
}

/// Edits that make `a` of `b`, two swapped neighbours being one.
std::size_t edits(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> at(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i)
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        at[i][j] = i + j;
        continue;
      }
      const std::size_t other = a[i - 1] == b[j - 1] ? 0 : 1;
      at[i][j] = std::min({at[i - 1][j] + 1, at[i][j - 1] + 1, at[i - 1][j - 1] + other});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        at[i][j] = std::min(at[i][j], at[i - 2][j - 2] + 1);
    }
  return at[a.size()][b.size()];
}

} // namespace

std::string_view nearest_word(std::string_view word, std::span<const std::string_view> known) {
  if (word.size() > word_chars_max)
    return {};
  const auto own = folded(word);
  std::string_view best;
  std::size_t least = own.size() <= 5 ? 2 : 3; // one more than what is near
  for (const auto each : known)
    if (const auto n = edits(own, folded(each)); n < least) {
      least = n;
      best = each;
    }
  return least < own.size() ? best : std::string_view{}; // every letter another: no mistake
}

std::string_view nearest_word(std::string_view word,
                              std::initializer_list<std::string_view> known) {
  return nearest_word(word, std::span{known.begin(), known.size()});
}

std::string did_you_mean(std::string_view word, std::span<const std::string_view> known) {
  const auto near = nearest_word(word, known);
  return near.empty() ? std::string{} : "; did you mean '" + std::string{near} + "'?";
}

std::string did_you_mean(std::string_view word, std::initializer_list<std::string_view> known) {
  return did_you_mean(word, std::span{known.begin(), known.size()});
}

} // namespace troupe
