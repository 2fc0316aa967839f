#include <troupe/data/tfrecord.hpp>

#include <array>
#include <cstdint>

#include <troupe/data/detail/crc32c.hpp>
#include <troupe/data/detail/little_endian.hpp>
#include <troupe/data/detail/records.hpp>

namespace troupe {

using namespace detail;

result<tfrecord_writer> tfrecord_writer::create(storage_port& storage, const std::string& path) {
  auto file = storage.create(path);
  if (!file)
    return std::move(file.error());
  return tfrecord_writer{std::move(*file)};
}

result<void> tfrecord_writer::write(std::span<const std::byte> record) {
  std::array<std::byte, tfrecord_head_bytes> head{};
  std::array<std::byte, tfrecord_tail_bytes> tail{};
  std::span<std::byte> all{head};
  put_little_endian<std::uint64_t>(all, record.size());
  put_little_endian(all.subspan(sizeof(std::uint64_t)),
                    masked(crc32c(all.first(sizeof(std::uint64_t)))));
  put_little_endian(std::span<std::byte>{tail}, masked(crc32c(record)));
  for (auto part : {std::span<const std::byte>{head}, record, std::span<const std::byte>{tail}})
    if (auto ok = file_->write(part); !ok)
      return ok;
  return {};
}

result<void> tfrecord_writer::write(std::string_view record) {
  return write(std::as_bytes(std::span{record.data(), record.size()}));
}

result<void> tfrecord_writer::close() {
  if (auto ok = file_->sync(); !ok)
    return ok;
  return file_->close();
}

} // namespace troupe
