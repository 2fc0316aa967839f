#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <troupe/core/result.hpp>

/// Names of devices in a cluster: "/job:worker/replica:0/task:1/device:GPU:0". Plain values; any
/// thread. Source: TensorFlow's device names.
namespace troupe {

/// A name whose every part may be left open. An open part is filled by what stands around it: an
/// outer device scope, a default, the process's own place.
struct device_name {
  std::optional<std::string> job{};
  std::optional<std::uint32_t> replica{};
  std::optional<std::uint32_t> task{};
  std::optional<std::string> kind{}; ///< "CPU", "GPU" or "TPU"
  std::optional<std::uint32_t> index{};
  friend bool operator==(const device_name&, const device_name&) = default;
};

/// Reads parts in any order, each at most once:
///
///     name   := "" | part { part } | device
///     part   := "/job:" job | "/replica:" number | "/task:" number | "/" device
///     device := [ "device:" ] kind [ ":" number ]        "/cpu:0", "/device:GPU:0", "gpu:0"
///
/// Kinds are CPU, GPU and TPU in any case. A job is a letter, then letters, digits and '_'. A "*"
/// stands for an open part. `invalid_argument` quotes the text and the part that is wrong.
result<device_name> parse_device_name(std::string_view text);

/// "/job:worker/replica:0/task:1/device:GPU:0", without the open parts. An open index is '*' when
/// the kind is known, and the other way round, so `parse_device_name` gives the same name back.
std::string to_string(const device_name& x);

/// "cpu:0": kind and index alone, as devices of one process are called. @pre both are known.
std::string short_name(const device_name& x);

/// The parts of `inner`; those it leaves open are `outer`'s.
device_name merge(const device_name& inner, const device_name& outer);

/// A process's job and task: they fill a name's open parts.
struct process_place {
  std::string job = "localhost";
  std::uint32_t task = 0;
};

/// `name` with every part filled: from `fallback` first, then from `place`, replica 0 and CPU 0.
device_name canonicalize(const device_name& name, const device_name& fallback = {},
                         const process_place& place = {});

/// `canonicalize` of texts: the full name of `name`. `invalid_argument` as `parse_device_name`.
result<std::string> canonicalize(std::string_view name, std::string_view fallback = "",
                                 const process_place& place = {});

/// `name` in full inside nested device scopes, `scopes` outermost first: inner parts win over outer
/// ones.
device_name resolve(const device_name& name, std::span<const device_name> scopes,
                    const process_place& place = {});

} // namespace troupe
