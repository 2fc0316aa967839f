#pragma once

#include <string>
#include <vector>

/// Devices of this process by the names that a program gives them.
namespace troupe::detail {

/// The short name of a device of this process: "cpu:1" for "/cpu:1" and for the name in full;
/// `device_unavailable` for another process's. `name`: of the strategy.
std::string own_device(const char* name, const std::string& text);
/// `own_device` of each name; `invalid_argument` for a device that is named twice.
std::vector<std::string> own_devices(const char* name, std::vector<std::string> devices);

} // namespace troupe::detail
