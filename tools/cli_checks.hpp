#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cli.hpp"

/// What may not stand together on a command line, and the texts that become plans: what no parser
/// of flags can say. Plain functions; errors are `bad_config` naming the flags.
namespace tool {

constexpr std::uint32_t replicas_max = 64; ///< and CPU devices of a process

/// What flags fill in before it is checked.
struct raw_flags {
  std::string program{};
  std::vector<std::string> kills{};
  std::string kill_at_mark{};
  std::string stop_at_mark{};
};

/// Whether the user typed a flag, "--workers".
using flag_given = std::function<bool(const char* flag)>;

void finish_train(const flag_given& given, train_command& train, const raw_flags& raw);
void finish_serve(const flag_given& given, serve_command& serve, const raw_flags& raw);
void finish_export(const export_command& wanted);

} // namespace tool
