#include <troupe/core/shown.hpp>

#include <doctest/doctest.h>

using troupe::shown;

TEST_CASE("shown: text stays, all else is escaped") {
  CHECK(shown("plain text, 1.5") == "plain text, 1.5");
  CHECK(shown("a\"b\\c\n\r\t") == "a\\\"b\\\\c\\n\\r\\t");
  CHECK(shown(std::string_view{"\0\x1b\x7f", 3}) == "\\x00\\x1b\\x7f");
  CHECK(shown("gr\xc3\xb6\xc3\x9f" "e \xe2\x82\xac \xf0\x9f\x98\x80")
        == "gr\xc3\xb6\xc3\x9f" "e \xe2\x82\xac \xf0\x9f\x98\x80");
}

TEST_CASE("shown: bytes that are no UTF-8, and characters that disturb a terminal, are escaped") {
  CHECK(shown("\xff\xfe") == "\\xff\\xfe");
  CHECK(shown("\xc3") == "\\xc3");                            // cut
  CHECK(shown("\xc0\x80") == "\\xc0\\x80");                   // too long a form
  CHECK(shown("\xe0\x80\x80") == "\\xe0\\x80\\x80");          // the same
  CHECK(shown("\xed\xa0\x80") == "\\xed\\xa0\\x80");          // a surrogate
  CHECK(shown("\xc2\x9b") == "\\xc2\\x9b");                   // a control character
  CHECK(shown("\xe2\x80\xae") == "\\xe2\\x80\\xae");          // turns the direction
  CHECK(shown("\xf5\x80\x80\x80") == "\\xf5\\x80\\x80\\x80"); // past the last
}

TEST_CASE("shown: what is long is cut at a whole character, and says how long it was") {
  CHECK(shown("12345", 5) == "12345");
  CHECK(shown("123456", 5) == "12345... (6 bytes)");
  CHECK(shown("1234\xc3\xb6", 5) == "1234... (6 bytes)");
  CHECK(shown(std::string(100'000, '\n'), 3) == "\\n\\n\\n... (100000 bytes)");
  CHECK(shown("", 0).empty());
}
