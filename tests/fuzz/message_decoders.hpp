#pragma once

#include "fuzz.hpp"

/// The decoders of the target fuzz_messages, by file; each says what it covers.
namespace fuzz {

void add_control_messages(std::vector<decoder>& to);
void add_linked_messages(std::vector<decoder>& to);
void add_data_metas(std::vector<decoder>& to);
void add_payloads(std::vector<decoder>& to);
void add_files(std::vector<decoder>& to);
void add_datasets(std::vector<decoder>& to);
void add_texts(std::vector<decoder>& to);
void add_readers(std::vector<decoder>& to);

} // namespace fuzz
