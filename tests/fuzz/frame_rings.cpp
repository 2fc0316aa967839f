// Rings of bytes in memory that a peer can write whatever it likes to.
#include <cstring>
#include <memory>

#include <troupe/transport/detail/byte_ring.hpp>

#include "frame_decoders.hpp"

namespace fuzz {

namespace {

using namespace troupe;
using namespace troupe::detail;

constexpr std::size_t ring_bytes = 64;

/// What a step does: to the peer's own index, or by us.
enum class step : std::uint8_t { lie = 0, hostile, read, view, write, room, publish, ask, rest };
constexpr std::uint8_t steps = 9;

class ring_under_test {
public:
  ring_under_test()
    : indices_{std::make_unique<ring_indices>()},
      bytes_(ring_bytes),
      place_{indices_.get(), bytes_.data(), ring_bytes} {}

  /// One step of the reader, or of the writer; what it does is the input's.
  void as_reader(step what, std::uint64_t number) {
    auto& written = indices_->written;
    switch (what) {
      case step::lie: written.store(written.load() + number % (ring_bytes + 2)); break;
      case step::hostile: written.store(number); break;
      case step::read: {
        std::vector<std::byte> to(number % (2 * ring_bytes));
        if (auto n = reader_.read(to))
          require(*n <= to.size() && *n <= ring_bytes, "a reader takes what there is room for");
        break;
      }
      case step::view: {
        const auto n = number % (2 * ring_bytes);
        if (auto seen = reader_.view(n); seen && seen->size() == n && n > 0) {
          sum_ +=
            std::to_integer<unsigned>(seen->front()) + std::to_integer<unsigned>(seen->back());
          require(n <= ring_bytes, "a view is no longer than the ring");
          reader_.took(n);
        }
        break;
      }
      case step::publish: reader_.publish(); break;
      default: reader_.sleep_unless_bytes(1 + number % ring_bytes); break;
    }
  }

  void as_writer(step what, std::uint64_t number) {
    auto& taken = indices_->taken;
    switch (what) {
      case step::lie: taken.store(taken.load() + number % (ring_bytes + 2)); break;
      case step::hostile: taken.store(number); break;
      case step::write: {
        const std::vector<std::byte> from(number % (2 * ring_bytes), std::byte{0x5a});
        if (auto n = writer_.write(from))
          require(*n <= from.size() && *n <= ring_bytes, "a writer writes what there is room for");
        break;
      }
      case step::room: {
        const auto n = number % (2 * ring_bytes);
        if (auto to = writer_.room_for(n); to && to->size() == n && n > 0) {
          std::memset(to->data(), 0x5a, to->size());
          writer_.wrote(n);
        }
        break;
      }
      case step::publish: writer_.publish(); break;
      case step::rest:
        if (auto rest = writer_.rest())
          require(rest->first.size() + rest->second.size() <= ring_bytes,
                  "no more is left than the ring holds");
        break;
      default: writer_.sleep_unless_room(); break;
    }
  }

private:
  std::unique_ptr<ring_indices> indices_;
  std::vector<std::byte> bytes_;
  ring_place place_;
  ring_reader reader_{place_};
  ring_writer writer_{place_};
  unsigned sum_ = 0;
};

/// Whose side (bit 0), then steps: what, and a number (8 bytes for a hostile index, else one).
bool decode_ring(std::string_view input) {
  pieces in{input};
  const bool reads = in.byte() % 2 == 0;
  ring_under_test ring;
  while (!in.rest().empty()) {
    const auto what = static_cast<step>(in.byte() % steps);
    std::uint64_t number = 0;
    const auto bytes = in.take(what == step::hostile ? sizeof number : 1);
    std::memcpy(&number, bytes.data(), bytes.size());
    reads ? ring.as_reader(what, number) : ring.as_writer(what, number);
  }
  return !input.empty();
}

std::vector<std::string> ring_seeds() {
  return {std::string("\0\0\x20\2\x10\3\x10\6\0\7\1\0\x40\2\x40", 15),
          std::string("\1\4\x30\5\x08\6\0\0\x20\4\x40\x08\0\7\0", 15),
          std::string("\0\1\xff\xff\xff\xff\xff\xff\xff\xff\2\x10", 12)};
}

} // namespace

void add_rings(std::vector<decoder>& to) { to.push_back({"ring", decode_ring, ring_seeds}); }

} // namespace fuzz
