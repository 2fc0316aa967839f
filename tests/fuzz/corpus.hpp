#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

/// The corpus of a fuzz target: one archive, corpus/fuzz_NAME.tar.gz, that `./dev fuzz --merge`
/// writes.
namespace fuzz {

/// One input of a corpus.
struct corpus_input {
  std::string name{};
  std::string bytes{};
};

/// The content of a gzip file. Throws `std::runtime_error` naming the file where it can't be read,
/// is no gzip file, is cut short or has another checksum.
std::string gunzipped(const std::filesystem::path& path);

/// The regular files of a ustar archive, in its order. Throws `std::runtime_error` where a header's
/// checksum differs, a file is cut short, something else than regular files and folders is in it,
/// or the two blocks that end an archive are missing.
std::vector<corpus_input> unpacked(std::string_view archive);

} // namespace fuzz
