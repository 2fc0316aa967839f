// Writes the seeds of the linked target into a directory, one a file: what a fuzzer begins with.
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "fuzz.hpp"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s DIRECTORY\n", argv[0]);
    return 2;
  }
  const std::filesystem::path directory{argv[1]};
  std::filesystem::create_directories(directory);
  std::size_t written = 0;
  for (std::size_t i = 0; i < fuzz::decoders().size(); ++i) {
    const auto& decoder = fuzz::decoders()[i];
    std::size_t n = 0;
    for (const auto& seed : decoder.seeds()) {
      std::string name = "seed-" + decoder.name + "-" + std::to_string(n++);
      for (char& c : name)
        if (c == ' ' || c == ',')
          c = '_';
      std::ofstream out{directory / name, std::ios::binary | std::ios::trunc};
      out << fuzz::input_for(i, seed);
      out.close();
      if (!out) {
        std::fprintf(stderr, "%s can't be written\n", (directory / name).c_str());
        return 1;
      }
      ++written;
    }
  }
  std::printf("%zu seeds in %s\n", written, directory.c_str());
}
