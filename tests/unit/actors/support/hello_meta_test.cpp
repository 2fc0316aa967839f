// Goal: a hello shows the token for one use, of one sender, and what a refusal says helps.
#include <doctest/doctest.h>

#include <troupe/actors/support/hello_meta.hpp>

using namespace troupe;

namespace {

hello_meta signed_hello(const std::string& token, hello_use use) {
  hello_meta out{.cluster = "test",
                 .task = {job_kind::worker, 3},
                 .inc = {2, 77},
                 .receiver = {},
                 .term = term_no{4}};
  out.token = hello_code(out, token, use);
  return out;
}

} // namespace

TEST_CASE("hello_meta: the code holds for its token and use, and for nothing else") {
  const auto hello = signed_hello("secret", hello_use::data);
  CHECK(hello.token.size() == 64);
  CHECK(has_token(hello, "secret", hello_use::data));
  CHECK_FALSE(has_token(hello, "secret", hello_use::link));
  CHECK_FALSE(has_token(hello, "guess", hello_use::data));
  CHECK_FALSE(has_token(hello, "", hello_use::data));
  auto changed = [&](auto change) {
    auto out = hello;
    change(out);
    return has_token(out, "secret", hello_use::data);
  };
  CHECK_FALSE(changed([](hello_meta& x) { x.cluster = "prod"; }));
  CHECK_FALSE(changed([](hello_meta& x) { x.task.index = 4; }));
  CHECK_FALSE(changed([](hello_meta& x) { x.inc.nonce = 78; }));
  CHECK_FALSE(changed([](hello_meta& x) { x.term = term_no{5}; }));
}

TEST_CASE("hello_meta: the codes of each use are those of other processes, byte by byte") {
  // HMAC-SHA256("secret", "test\nworker:3\n77\n4\ndata") and "...\nlink"
  CHECK(signed_hello("secret", hello_use::data).token
        == "15fcfe2d3094012d5487b38875f142f67e3f256c27610f49d89d3a594875fc7d");
  CHECK(signed_hello("secret", hello_use::link).token
        == "7c02c2ebd39b0f2e5544a4f94d2fcfd7360589c0a0e74abfb2dd286366c1e07e");
}

TEST_CASE("hello_meta: without a token there is no code, and none is expected") {
  const auto hello = signed_hello("", hello_use::data);
  CHECK(hello.token.empty());
  CHECK(has_token(hello, "", hello_use::data));
  CHECK_FALSE(has_token(hello, "secret", hello_use::data));
}

TEST_CASE("hello_meta: a refusal says whether the token is missing, wrong or not expected") {
  auto begins = [](const std::string& text, const std::string& with) {
    return text.compare(0, with.size(), with) == 0;
  };
  const auto bare = signed_hello("", hello_use::data);
  const auto given = signed_hello("guess", hello_use::data);
  CHECK(begins(token_refusal(bare, "secret", "this server"), "the token is missing: all "));
  CHECK(begins(token_refusal(given, "secret", "this server"), "wrong token: all "));
  CHECK(begins(token_refusal(given, "", "this server"),
               "unexpected token, this server has none: all "));
}
