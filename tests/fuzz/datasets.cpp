// Files and positions of datasets.
#include <zlib.h>

#include <bit>
#include <cstring>

#include <troupe/core/error.hpp>
#include <troupe/core/random.hpp>
#include <troupe/data/dataset.hpp>
#include <troupe/data/idx.hpp>
#include <troupe/data/iterator.hpp>

#include "../support/bytes.hpp"
#include "../support/counting_random.hpp"
#include "../support/fake_storage.hpp"
#include "message_decoders.hpp"

namespace fuzz {

namespace {

using namespace troupe;
using troupe::testing::bytes_of;

// --- IDX

void put_big_endian(std::string& to, std::uint64_t x, std::size_t bytes) {
  for (std::size_t i = bytes; i-- > 0;)
    to += static_cast<char>(x >> (8 * i) & 0xff);
}

template <class T, class Bits>
void put_elements(std::string& to, const tensor& x) {
  for (const T element : x.as<T>())
    put_big_endian(to, std::bit_cast<Bits>(element), sizeof(T));
}

/// The file that `x` was read from; `code` tells how its elements stand there.
std::string idx_of(const tensor& x, std::uint8_t code) {
  std::string out{'\0', '\0', static_cast<char>(code), static_cast<char>(x.rank())};
  for (const auto extent : x.shape())
    put_big_endian(out, static_cast<std::uint64_t>(extent), 4);
  switch (code) {
    case 0x08: put_elements<std::uint8_t, std::uint8_t>(out, x); break;
    case 0x09: put_elements<std::int8_t, std::uint8_t>(out, x); break;
    case 0x0b:
      for (const auto element : x.as<std::int32_t>())
        put_big_endian(out, static_cast<std::uint16_t>(element), 2);
      break;
    case 0x0c: put_elements<std::int32_t, std::uint32_t>(out, x); break;
    case 0x0d: put_elements<float, std::uint32_t>(out, x); break;
    default: put_elements<double, std::uint64_t>(out, x); break;
  }
  return out;
}

result<tensor> parsed(std::string_view file) {
  auto out = parse_idx(bytes_of(file), "file");
  if (!out)
    require(out.error().code == errc::corrupt, "an IDX file that is refused is corrupt");
  return out;
}

bool is_gzip(std::string_view file) { return file.starts_with("\x1f\x8b"); }

bool decode_idx(std::string_view input) {
  auto got = parsed(input);
  if (!got)
    return false;
  if (!is_gzip(input))
    require(idx_of(*got, static_cast<std::uint8_t>(input[2])) == input,
            "an array is not what its file says");
  return true;
}

std::string zipped(std::string_view bytes) {
  z_stream state{};
  require(deflateInit2(&state, 1, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) == Z_OK,
          "zlib has memory");
  std::string out(deflateBound(&state, bytes.size()), '\0');
  state.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  state.avail_in = static_cast<uInt>(bytes.size());
  state.next_out = reinterpret_cast<Bytef*>(out.data());
  state.avail_out = static_cast<uInt>(out.size());
  require(deflate(&state, Z_FINISH) == Z_STREAM_END, "zlib has room");
  out.resize(state.total_out);
  deflateEnd(&state);
  return out;
}

/// A plain file, packed here in two members: the reader must find the same in both.
bool decode_zipped(std::string_view input) {
  if (is_gzip(input))
    return false;
  auto plain = parsed(input);
  const auto half = input.size() / 2;
  auto packed = parsed(zipped(input.substr(0, half)) + zipped(input.substr(half)));
  require(plain.operator bool() == packed.operator bool(),
          "a packed file differs from a plain one");
  require(!plain || *plain == *packed, "a packed array differs from a plain one");
  return plain.operator bool();
}

std::vector<std::string> plain_files() {
  const auto numbers = tensor::vector<std::int32_t>({1, -2, 3, -4, 5, 6}).reshaped({2, 3});
  return {idx_of(tensor::vector<std::uint8_t>({1, 2, 3, 4, 5, 6}).reshaped({3, 2}), 0x08),
          idx_of(tensor::vector<std::int8_t>({-1, 2}), 0x09),
          idx_of(numbers, 0x0b),
          idx_of(numbers, 0x0c),
          idx_of(tensor::vector<float>({1.5f, -0.0f}), 0x0d),
          idx_of(tensor::scalar(2.5), 0x0e)};
}

std::vector<std::string> idx_seeds() {
  auto out = plain_files();
  for (const auto& file : plain_files())
    out.push_back(zipped(file));
  return out;
}

// --- positions

struct reading {
  troupe::testing::fake_storage disk{};
  troupe::testing::counting_random random{};
  data_context ports{disk, random};
};

/// Whatever has a position of its own, finite: a position may ask for as many draws as there are.
dataset all_operations() {
  const auto small = [](const element& x) { return x.item<std::int64_t>() % 3 != 0; };
  const auto negated = [small](const element& x) {
    return element{{tensor::scalar(small(x) ? -x.item<std::int64_t>() : 0)}};
  };
  return dataset::range(60)
    .shuffle(7)
    .shard(2, 1)
    .repeat(3)
    .map(negated)
    .shuffle(5, 11)
    .concatenate(dataset::range(9).skip(2).take(4).repeat(2))
    .batch(4)
    .prefetch(2);
}

constexpr std::size_t position_head_bytes = 16; // magic, fingerprint
constexpr std::size_t checksum_bytes = 8;

/// The checksum of data/detail/position.cpp.
std::uint64_t checksum_of(std::string_view bytes) {
  std::uint64_t h = 0xcbf29ce484222325;
  for (const char c : bytes)
    h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return mix_bits(h);
}

bool restores(dataset_iterator& to, const std::string& position) {
  try {
    to.restore_position(position);
    return true;
  } catch (const error& e) {
    require(e.code() == errc::corrupt || e.code() == errc::mismatch,
            "a position that is refused is corrupt, or another's");
    return false;
  }
}

/// The numbers between fingerprint and checksum.
bool decode_position(std::string_view input) {
  reading at;
  auto iterator = all_operations().iterate(at.ports);
  auto position = iterator.save_position().substr(0, position_head_bytes);
  position += input;
  const auto sum = checksum_of(position);
  position.append(reinterpret_cast<const char*>(&sum), sizeof sum);
  if (!restores(iterator, position))
    return false;
  require(iterator.save_position() == position, "a position changes when it is restored and saved");
  std::vector<element> ahead;
  while (ahead.size() < 6)
    if (auto x = iterator.try_next())
      ahead.push_back(std::move(*x));
    else
      break;
  auto other = all_operations().iterate(at.ports);
  require(restores(other, position), "a position is restored once and not again");
  for (const auto& x : ahead)
    require(other.try_next() == x, "what follows a position differs");
  return true;
}

/// As it comes from a checkpoint's extras.
bool decode_whole_position(std::string_view input) {
  reading at;
  auto iterator = dataset::range(8).shuffle(4).iterate(at.ports);
  return restores(iterator, std::string{input});
}

std::vector<std::string> position_seeds() {
  reading at;
  auto iterator = all_operations().iterate(at.ports);
  std::vector<std::string> out;
  do {
    const auto whole = iterator.save_position();
    out.push_back(
      whole.substr(position_head_bytes, whole.size() - position_head_bytes - checksum_bytes));
  } while (iterator.try_next());
  return {out.front(), out[3], out[out.size() / 2], out.back()};
}

std::vector<std::string> whole_position_seeds() {
  reading at;
  auto iterator = dataset::range(8).shuffle(4).iterate(at.ports);
  iterator.next();
  return {iterator.save_position()};
}

} // namespace

void add_datasets(std::vector<decoder>& to) {
  to.push_back({"idx", decode_idx, idx_seeds});
  to.push_back({"idx, zipped here", decode_zipped, plain_files});
  to.push_back({"position", decode_position, position_seeds});
  to.push_back({"position, whole", decode_whole_position, whole_position_seeds});
}

} // namespace fuzz
