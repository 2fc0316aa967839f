// The simulator's command: troupe-sim --help.
#include <cstdio>
#include <exception>

#include <troupe/sim/tools/commands.hpp>

int main(int argc, char** argv) {
  using namespace troupe::sim;
  try {
    return do_command(parse_sim_command({argv + 1, argv + argc}));
  } catch (const std::exception& e) {
    std::fprintf(stderr, "troupe-sim: %s\n", e.what());
    return 2;
  }
}
