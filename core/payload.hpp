#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <cereal/cereal.hpp>

#include <troupe/core/result.hpp>
#include <troupe/core/tensor.hpp>

/// Closure arguments and results: cereal bytes, and the tensors that stand in them by number, so
/// that within a process tensors are handed over and not copied.
namespace troupe {

/// The arguments of a step, or its result.
struct payload {
  std::string bytes{};
  std::vector<tensor> tensors{};
  /// The approximate number of bytes that crossing to another process takes.
  std::size_t size_bytes() const;
};

/// A payload as one string for the wire: grammar in payload.cpp.
std::string flatten(const payload& x);
/// The payload of such a string, every count and length checked; `corrupt` otherwise.
result<payload> unflatten(std::string_view bytes);

/// Reads bytes that came from a peer or a disk: refuses any count that the rest of the input cannot
/// hold before it allocates (cereal's own binary archive resizes to whatever the input says), and a
/// bool that is neither 0 nor 1. A vector grows with the elements that are there. Throws
/// std::length_error.
class checked_reader : public cereal::InputArchive<checked_reader, cereal::AllowEmptyClassElision> {
public:
  explicit checked_reader(std::string_view bytes, std::span<const tensor> tensors = {})
    : cereal::InputArchive<checked_reader, cereal::AllowEmptyClassElision>(this),
      rest_{bytes},
      tensors_{tensors} {}
  explicit checked_reader(const payload& x) : checked_reader{x.bytes, x.tensors} {}
  void take(void* to, std::size_t size_bytes);
  std::size_t rest_bytes() const { return rest_.size(); }
  const tensor& tensor_at(std::uint32_t index) const;

private:
  std::string_view rest_;
  std::span<const tensor> tensors_;
};

/// Writes native little-endian bytes; tensors go beside them.
class plain_writer : public cereal::OutputArchive<plain_writer, cereal::AllowEmptyClassElision> {
public:
  plain_writer() : cereal::OutputArchive<plain_writer, cereal::AllowEmptyClassElision>(this) {}
  void put(const void* from, std::size_t size_bytes) {
    out.bytes.append(static_cast<const char*>(from), size_bytes);
  }
  payload out{};
};

template <class T>
requires std::is_arithmetic_v<T>
void CEREAL_SAVE_FUNCTION_NAME(plain_writer& ar, const T& x) { ar.put(&x, sizeof x); }
template <class T>
requires std::is_arithmetic_v<T>
void CEREAL_LOAD_FUNCTION_NAME(checked_reader& ar, T& x) { ar.take(&x, sizeof x); }
inline void CEREAL_LOAD_FUNCTION_NAME(checked_reader& ar, bool& x) {
  std::uint8_t raw = 0;
  ar.take(&raw, sizeof raw);
  if (raw > 1)
    throw std::length_error("invalid bool value " + std::to_string(raw));
  x = raw == 1;
}
template <class T>
void CEREAL_SAVE_FUNCTION_NAME(plain_writer& ar, const cereal::BinaryData<T>& x) {
  ar.put(x.data, static_cast<std::size_t>(x.size));
}
template <class T>
void CEREAL_LOAD_FUNCTION_NAME(checked_reader& ar, cereal::BinaryData<T>& x) {
  ar.take(x.data, static_cast<std::size_t>(x.size));
}
template <class T>
void CEREAL_SAVE_FUNCTION_NAME(plain_writer& ar, const cereal::SizeTag<T>& x) {
  ar(static_cast<std::uint64_t>(x.size));
}
template <class T>
void CEREAL_LOAD_FUNCTION_NAME(checked_reader& ar, cereal::SizeTag<T>& x) {
  std::uint64_t count = 0;
  ar(count);
  if (count > ar.rest_bytes()) // every element takes at least a byte
    throw std::length_error("count " + std::to_string(count) + " with "
                            + std::to_string(ar.rest_bytes()) + " bytes left");
  x.size = static_cast<std::decay_t<T>>(count);
}

/// Instead of cereal's own, which makes room for all elements at once, however much larger they are
/// in memory than in the input.
template <class T, class Allocator>
requires(!std::is_same_v<T, bool>) void CEREAL_LOAD_FUNCTION_NAME(checked_reader& ar,
                                                                  std::vector<T, Allocator>& xs) {
  cereal::size_type count = 0;
  ar(cereal::make_size_tag(count));
  if constexpr (std::is_arithmetic_v<T>) {
    if (count > ar.rest_bytes() / sizeof(T))
      throw std::length_error("count " + std::to_string(count) + " of " + std::to_string(sizeof(T))
                              + " bytes each with " + std::to_string(ar.rest_bytes())
                              + " bytes left");
    xs.resize(count);
    ar.take(xs.data(), count * sizeof(T));
  } else {
    xs.clear();
    xs.reserve(std::min<std::size_t>(count, ar.rest_bytes() / sizeof(T) + 1));
    for (cereal::size_type i = 0; i < count; ++i)
      ar(xs.emplace_back());
  }
}

/// Pairs, tuples and map entries name their members; names don't travel.
template <class T>
void CEREAL_SAVE_FUNCTION_NAME(plain_writer& ar, const cereal::NameValuePair<T>& x) {
  ar(x.value);
}
template <class T>
void CEREAL_LOAD_FUNCTION_NAME(checked_reader& ar, cereal::NameValuePair<T>& x) {
  ar(x.value);
}

inline void CEREAL_SAVE_FUNCTION_NAME(plain_writer& ar, const tensor& x) {
  ar(static_cast<std::uint32_t>(ar.out.tensors.size()));
  ar.out.tensors.push_back(x);
}
inline void CEREAL_LOAD_FUNCTION_NAME(checked_reader& ar, tensor& x) {
  std::uint32_t index = 0;
  ar(index);
  x = ar.tensor_at(index);
}

} // namespace troupe

CEREAL_REGISTER_ARCHIVE(troupe::plain_writer)
CEREAL_REGISTER_ARCHIVE(troupe::checked_reader)
CEREAL_SETUP_ARCHIVE_TRAITS(troupe::checked_reader, troupe::plain_writer)
