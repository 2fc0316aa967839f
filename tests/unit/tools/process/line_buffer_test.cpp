#include <process/line_buffer.hpp>

#include <doctest/doctest.h>

using tool::line_buffer;

TEST_CASE("line buffer: lines come out whole, however the bytes came in") {
  line_buffer lines;
  CHECK_FALSE(lines.next().has_value());
  lines.append("one\ntw");
  CHECK(lines.next() == "one");
  CHECK_FALSE(lines.next().has_value());
  lines.append("o");
  CHECK_FALSE(lines.next().has_value());
  lines.append("\n\nthree\n");
  CHECK(lines.next() == "two");
  CHECK(lines.next() == "");
  CHECK(lines.next() == "three");
  CHECK_FALSE(lines.next().has_value());
}

TEST_CASE("line buffer: the rest is what has no end of line yet, and goes once") {
  line_buffer lines;
  lines.append("one\ntwo");
  CHECK(lines.next() == "one");
  CHECK_FALSE(lines.next().has_value());
  CHECK(lines.take_rest() == "two");
  CHECK(lines.take_rest().empty());
  lines.append("three\n");
  CHECK(lines.next() == "three");
}
