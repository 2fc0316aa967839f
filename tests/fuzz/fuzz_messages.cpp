// Everything that is decoded but frames: control messages, metas, closure arguments, files, texts.
#include "message_decoders.hpp"

namespace fuzz {

const std::vector<decoder>& decoders() {
  static const auto all = [] {
    std::vector<decoder> out;
    add_data_metas(out);
    add_payloads(out);
    add_files(out);
    add_datasets(out);
    add_texts(out);
    add_linked_messages(out);
    add_control_messages(out);
    add_readers(out);
    return out;
  }();
  return all;
}

} // namespace fuzz
