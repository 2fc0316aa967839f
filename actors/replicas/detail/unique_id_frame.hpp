#pragma once

#include <optional>

#include <troupe/core/device_port.hpp>
#include <troupe/core/tensor.hpp>

/// How rank 0 of a group tells the others the key of its devices' communicator, as u8: a byte for
/// the format, 1; one that says whether there is a key, 0 or 1; the key's length in two
/// (little-endian); the key.
namespace troupe::detail {

/// None: no key could be had.
tensor pack_unique_id(const std::optional<unique_id>& key);
/// `bad_frame` names the format and the length that came.
result<std::optional<unique_id>> unpack_unique_id(const tensor& frame);

} // namespace troupe::detail
