#include <troupe/core/failure_codec.hpp>

#include <stdexcept>

#include <cereal/types/string.hpp>

#include <troupe/core/payload.hpp>

namespace troupe {

namespace {

bool is_code(errc code) { return to_string(code) != to_string(static_cast<errc>(0xff)); }

} // namespace

std::string encode_failure(const failure& why) {
  auto copy = why;
  plain_writer out;
  out(copy);
  return std::move(out.out.bytes);
}

std::optional<failure> decode_failure(std::string_view bytes) {
  failure out;
  try {
    checked_reader in{bytes};
    in(out);
    if (in.rest_bytes() != 0)
      return std::nullopt;
  } catch (const std::length_error&) {
    return std::nullopt;
  }
  const bool known = is_code(out.code) && out.retry <= retry_class::after_recovery
                     && out.where.task.job <= job_kind::evaluator;
  return known ? std::optional{std::move(out)} : std::nullopt;
}

} // namespace troupe
