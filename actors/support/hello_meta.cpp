#include <troupe/actors/support/hello_meta.hpp>

#include <troupe/core/mac.hpp>

namespace troupe {

namespace {

/// What the proof covers.
std::string text_of(const hello_meta& hello, hello_use use) {
  return hello.cluster + "\n" + to_string(hello.task) + "\n" + std::to_string(hello.inc.nonce)
         + "\n" + std::to_string(value_of(hello.term))
         + (use == hello_use::link ? "\nlink" : "\ndata");
}

} // namespace

std::string hello_code(const hello_meta& hello, const std::string& token, hello_use use) {
  return token_proof(token, text_of(hello, use));
}

bool has_token(const hello_meta& hello, const std::string& token, hello_use use) {
  return proves_token(hello.token, token, text_of(hello, use));
}

std::string token_refusal(const hello_meta& hello, const std::string& token, std::string_view who) {
  const std::string what = hello.token.empty() ? "the token is missing: "
                           : token.empty() ? "unexpected token, " + std::string{who} + " has none: "
                                           : "wrong token: ";
  return what + std::string{token_advice};
}

} // namespace troupe
