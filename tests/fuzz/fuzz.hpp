#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

/// What the fuzz targets share. A target is a list of decoders of bytes that a peer or a disk
/// gives. The first two bytes of an input choose one (their number, little-endian, modulo the
/// length of the list), the rest is for it.
namespace fuzz {

/// Something that must hold whatever the input is, and doesn't.
struct broken : std::logic_error {
  using std::logic_error::logic_error;
};

/// Throws `broken` unless it holds.
void require(bool holds, const std::string& what);

struct decoder {
  std::string name{};
  /// Decodes, and checks what was decoded. Whether the decoder took all of the input. Throws
  /// nothing but `broken`.
  bool (*decode)(std::string_view input) = nullptr;
  /// Inputs of which all are taken; at least one.
  std::vector<std::string> (*seeds)() = nullptr;
};

/// The decoders of the target that is linked. New ones go to the end, so that corpora keep their
/// meaning.
const std::vector<decoder>& decoders();

/// One input of the target, the choice of the decoder included.
bool run(std::string_view input);

/// Input for decoder `number`.
std::string input_for(std::size_t number, std::string_view rest);

/// Takes an input apart; past its end there are zeros.
class pieces {
public:
  explicit pieces(std::string_view input) : rest_{input} {}
  std::uint8_t byte() {
    const auto out = rest_.empty() ? std::uint8_t{0} : static_cast<std::uint8_t>(rest_.front());
    rest_.remove_prefix(rest_.empty() ? 0 : 1);
    return out;
  }
  std::size_t number16() {
    const std::size_t low = byte();
    return low | std::size_t{byte()} << 8;
  }
  std::string_view take(std::size_t bytes) {
    const auto out = rest_.substr(0, bytes);
    rest_.remove_prefix(out.size());
    return out;
  }
  std::string_view rest() const { return rest_; }

private:
  std::string_view rest_;
};

} // namespace fuzz
