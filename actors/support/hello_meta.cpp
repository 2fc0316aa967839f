#include <troupe/actors/support/hello_meta.hpp>

#include <troupe/core/mac.hpp>

namespace troupe {

std::string hello_code(const hello_meta& hello, const std::string& token,
                       std::string_view purpose) {
  if (token.empty())
    return {};
  return message_code(
    token, hello.cluster + "\n" + to_string(hello.task) + "\n" + std::to_string(hello.inc.nonce)
             + "\n" + std::to_string(value_of(hello.term)) + "\n" + std::string{purpose});
}

bool has_token(const hello_meta& hello, const std::string& token, std::string_view purpose) {
  return same_code(hello.token, hello_code(hello, token, purpose));
}

std::string token_refusal(const hello_meta& hello, const std::string& token, std::string_view who) {
  const std::string what = hello.token.empty() ? "the token is missing: "
                           : token.empty() ? "unexpected token, " + std::string{who} + " has none: "
                                           : "wrong token: ";
  return what + std::string{token_advice};
}

} // namespace troupe
