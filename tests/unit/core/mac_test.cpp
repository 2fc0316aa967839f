// Goal: a proof holds for its token and text, and for nothing else.
#include <doctest/doctest.h>

#include <troupe/core/mac.hpp>

using namespace troupe;

TEST_CASE("mac: the code is HMAC-SHA256, as RFC 4231 has it") {
  CHECK(message_code("Jefe", "what do ya want for nothing?")
        == "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

TEST_CASE("mac: a proof holds for its token and its text") {
  const auto proof = token_proof("secret", "worker:0");
  CHECK(proof == message_code("secret", "worker:0"));
  CHECK(proves_token(proof, "secret", "worker:0"));
  CHECK_FALSE(proves_token(proof, "secret", "worker:1"));
  CHECK_FALSE(proves_token(proof, "guess", "worker:0"));
  CHECK_FALSE(proves_token(proof.substr(1), "secret", "worker:0"));
  CHECK_FALSE(proves_token("", "secret", "worker:0"));
}

TEST_CASE("mac: without a token nothing is proved, and nothing may be given") {
  CHECK(token_proof("", "worker:0").empty());
  CHECK(proves_token("", "", "worker:0"));
  CHECK_FALSE(proves_token(token_proof("secret", "worker:0"), "", "worker:0"));
}
