#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

/// Guesses of mistyped words. Pure functions; any thread.
namespace troupe {

/// The known word that is nearest to `word`: equal but for letter case and separators ('-', '_', '
/// '), or apart by one edit in up to five letters, two in more. An edit is a letter that is
/// missing, one too many, another one, or two swapped. Empty when none is that near. `word` itself,
/// when it is known.
std::string_view nearest_word(std::string_view word, std::span<const std::string_view> known);
std::string_view nearest_word(std::string_view word, std::initializer_list<std::string_view> known);

/// "; did you mean 'worker'?", or "" when nothing is near.
std::string did_you_mean(std::string_view word, std::span<const std::string_view> known);
std::string did_you_mean(std::string_view word, std::initializer_list<std::string_view> known);

} // namespace troupe
