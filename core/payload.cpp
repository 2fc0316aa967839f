#include <troupe/core/payload.hpp>

#include <cereal/types/string.hpp>
#include <cereal/types/vector.hpp>

// Grammar of a flat payload (little-endian):
//   flat    := count:u32 header{count} bytes:(u64 length, length bytes) data{count}
//   header  := dtype:u8 shape:(u64 rank, i64{rank})
//   data    := the elements, row-major, as many bytes as dtype and shape say
namespace troupe {

namespace {

constexpr std::size_t tensor_head_bytes_min = 9;

} // namespace

std::size_t payload::size_bytes() const {
  std::size_t n = bytes.size() + 12;
  for (const auto& x : tensors)
    n += x.size_bytes() + 9 + 8 * x.rank();
  return n;
}

std::string flatten(const payload& x) {
  plain_writer head;
  head(static_cast<std::uint32_t>(x.tensors.size()));
  for (const auto& t : x.tensors)
    head(static_cast<std::uint8_t>(t.type()), t.defined() ? t.shape() : shape_t{0});
  head(x.bytes);
  auto out = std::move(head.out.bytes);
  out.reserve(x.size_bytes());
  for (const auto& t : x.tensors)
    out.append(reinterpret_cast<const char*>(t.bytes().data()), t.size_bytes());
  return out;
}

result<payload> unflatten(std::string_view bytes) {
  try {
    checked_reader in{bytes};
    std::uint32_t count = 0;
    in(count);
    if (count > in.rest_bytes() / tensor_head_bytes_min)
      return make_failure(errc::corrupt, "payload: " + std::to_string(count) + " tensors in "
                                           + std::to_string(bytes.size()) + " bytes");
    std::vector<std::pair<dtype, shape_t>> heads(count);
    std::uint64_t total = 0;
    for (auto& [type, shape] : heads) {
      std::uint8_t raw = 0;
      in(raw, shape);
      type = static_cast<dtype>(raw);
      if (!is_sane(shape, type))
        return make_failure(errc::corrupt,
                            "payload: tensor of " + to_string(type) + to_string(shape));
      total += static_cast<std::uint64_t>(count_of(shape)) * size_of(type);
      if (total > bytes.size())
        return make_failure(errc::corrupt, "payload: tensors of " + std::to_string(total)
                                             + " bytes in " + std::to_string(bytes.size()));
    }
    payload out;
    in(out.bytes);
    if (in.rest_bytes() != total)
      return make_failure(errc::corrupt, "payload: " + std::to_string(in.rest_bytes())
                                           + " bytes of elements, " + std::to_string(total)
                                           + " expected");
    for (auto& [type, shape] : heads) {
      out.tensors.emplace_back(type, std::move(shape));
      auto to = out.tensors.back().mutable_bytes();
      in.take(to.data(), to.size());
    }
    return out;
  } catch (const std::length_error& e) {
    return make_failure(errc::corrupt, std::string{"payload: "} + e.what());
  }
}

void checked_reader::take(void* to, std::size_t size_bytes) {
  if (size_bytes > rest_.size())
    throw std::length_error("need " + std::to_string(size_bytes) + " bytes, have "
                            + std::to_string(rest_.size()));
  if (size_bytes > 0)
    std::memcpy(to, rest_.data(), size_bytes);
  rest_.remove_prefix(size_bytes);
}

const tensor& checked_reader::tensor_at(std::uint32_t index) const {
  if (index >= tensors_.size())
    throw std::length_error("tensor " + std::to_string(index) + " of "
                            + std::to_string(tensors_.size()));
  return tensors_[index];
}

} // namespace troupe
