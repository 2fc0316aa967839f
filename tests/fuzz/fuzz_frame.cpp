// The data plane: frames, the channels made of them, and the blocks of collective operations.
#include "frame_decoders.hpp"

namespace fuzz {

const std::vector<decoder>& decoders() {
  static const auto all = [] {
    std::vector<decoder> out;
    add_streams(out);
    add_groups(out);
    add_blocks(out);
    add_servers(out);
    return out;
  }();
  return all;
}

} // namespace fuzz
