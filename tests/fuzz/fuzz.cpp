#include "fuzz.hpp"

namespace fuzz {

void require(bool holds, const std::string& what) {
  if (!holds)
    throw broken{what};
}

bool run(std::string_view input) {
  if (input.size() < 2)
    return false;
  pieces in{input};
  const auto number = in.number16() % decoders().size();
  return decoders()[number].decode(in.rest());
}

std::string input_for(std::size_t number, std::string_view rest) {
  std::string out{static_cast<char>(number & 0xff), static_cast<char>(number >> 8)};
  out += rest;
  return out;
}

} // namespace fuzz

/// What libFuzzer calls, and the replay of the corpora. What is thrown ends libFuzzer with a
/// report.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::run({reinterpret_cast<const char*>(data), size});
  return 0;
}
