#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <zlib.h>

#include <troupe/core/environment.hpp>
#include <troupe/core/error.hpp>
#include <troupe/data/iterator.hpp>
#include <troupe/data/tfrecord.hpp>

#include "../../support/bytes.hpp"
#include "../../support/counting_random.hpp"
#include "../../support/tensors.hpp"
#include "../../support/thrown.hpp"

/// Stand-ins for the ports, and short ways to say what a dataset yields.
namespace data_test {

using namespace troupe;
using namespace troupe::testing;

class memory_file final : public file_reader {
public:
  memory_file(const std::string& bytes, std::string path) : bytes_{bytes}, path_{std::move(path)} {}
  std::uint64_t size_bytes() const override { return bytes_.size(); }
  result<void> read_at(std::uint64_t offset_bytes, std::span<std::byte> to) override {
    if (offset_bytes > bytes_.size() || to.size() > bytes_.size() - offset_bytes)
      return make_failure(errc::corrupt, path_ + ": ends early");
    if (!to.empty())
      std::memcpy(to.data(), bytes_.data() + offset_bytes, to.size());
    return {};
  }

private:
  const std::string& bytes_;
  std::string path_;
};

class memory_writer final : public file_writer {
public:
  explicit memory_writer(std::string& to) : to_{to} {}
  result<void> write(std::span<const std::byte> bytes) override {
    to_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return {};
  }
  result<void> sync() override { return {}; }
  result<void> close() override { return {}; }

private:
  std::string& to_;
};

/// Files by path; only what datasets use.
class memory_storage final : public storage_port {
public:
  std::map<std::string, std::string> files{};
  int opened = 0;

  result<std::unique_ptr<file_reader>> open(const std::string& path) override {
    ++opened;
    auto at = files.find(path);
    if (at == files.end())
      return make_failure(errc::not_found, path + ": no such file");
    return std::unique_ptr<file_reader>{std::make_unique<memory_file>(at->second, path)};
  }
  result<std::unique_ptr<file_writer>> create(const std::string& path) override {
    files[path].clear();
    return std::unique_ptr<file_writer>{std::make_unique<memory_writer>(files[path])};
  }
  result<void> rename(const std::string& from, const std::string& to) override {
    if (!exists(from))
      return refuse(from);
    auto bytes = std::move(files[from]);
    files.erase(from);
    files[to] = std::move(bytes);
    return {};
  }
  result<void> remove(const std::string& path) override {
    files.erase(path);
    return {};
  }
  result<void> make_directories(const std::string& path) override { return refuse(path); }
  result<void> sync_directory(const std::string&) override { return {}; }
  result<std::vector<std::string>> list(const std::string& path) override {
    std::vector<std::string> out;
    auto prefix = path == "." ? "" : path + "/";
    for (const auto& [name, bytes] : files)
      if (name.starts_with(prefix) && name.find('/', prefix.size()) == std::string::npos)
        out.push_back(name.substr(prefix.size()));
    if (out.empty())
      return make_failure(errc::not_found, path + ": no such directory");
    return out;
  }
  bool exists(const std::string& path) override { return files.count(path) > 0; }
  result<file_kind> kind(const std::string& path) override {
    return exists(path) ? file_kind::file : file_kind::none;
  }
  result<std::unique_ptr<file_lock>> lock(const std::string& path) override { return refuse(path); }

private:
  static failure refuse(const std::string& path) {
    return make_failure(errc::io_failed, path + ": read only");
  }
};

struct fake_ports {
  explicit fake_ports(std::uint64_t first_seed = 1) : random{first_seed} {}
  memory_storage storage{};
  counting_random random;
  data_context context() { return {storage, random}; }
};

/// Part 0 of the elements to come, at most `max`.
inline std::vector<std::vector<std::int64_t>> drain(dataset_iterator& it,
                                                    std::size_t max = 100000) {
  std::vector<std::vector<std::int64_t>> out;
  while (out.size() < max) {
    auto x = it.try_next();
    if (!x)
      break;
    out.push_back(values_of<std::int64_t>((*x)[0]));
  }
  return out;
}

/// The same flat.
inline std::vector<std::int64_t> flat(const dataset& from, data_context context,
                                      std::size_t max = 100000) {
  auto it = from.iterate(context);
  std::vector<std::int64_t> out;
  for (const auto& x : drain(it, max))
    out.insert(out.end(), x.begin(), x.end());
  return out;
}

inline std::vector<std::int64_t> sorted(std::vector<std::int64_t> xs) {
  std::sort(xs.begin(), xs.end());
  return xs;
}

/// Part 0 of the elements to come as text, at most `max`.
inline std::vector<std::string> texts(const dataset& from, data_context context,
                                      std::size_t max = 100000) {
  auto it = from.iterate(context);
  std::vector<std::string> out;
  while (out.size() < max) {
    auto x = it.try_next();
    if (!x)
      break;
    out.push_back(text_of((*x)[0]));
  }
  return out;
}

/// A TFRecord file's bytes.
inline std::string tfrecord_bytes(const std::vector<std::string>& records) {
  memory_storage storage;
  auto writer = tfrecord_writer::create(storage, "x").value_or_throw();
  for (const auto& x : records)
    writer.write(x).value_or_throw();
  writer.close().value_or_throw();
  return storage.files["x"];
}

inline void put_le(std::string& to, std::uint64_t x, int bytes) {
  for (int i = 0; i < bytes; ++i)
    to.push_back(static_cast<char>(x >> (8 * i)));
}

/// A .npy file's bytes.
inline std::string npy_bytes(const std::string& header, const std::string& data, int major = 1) {
  std::string out = "\x93NUMPY";
  out.push_back(static_cast<char>(major));
  out.push_back('\0');
  put_le(out, header.size(), major == 1 ? 2 : 4);
  return out + header + data;
}

inline std::string npy_header(const std::string& descr, const std::string& shape) {
  return "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }   \n";
}

inline void put_be(std::string& to, std::uint64_t x, int bytes) {
  for (int i = bytes - 1; i >= 0; --i)
    to.push_back(static_cast<char>(x >> (8 * i)));
}

/// An IDX file's bytes.
inline std::string idx_bytes(std::uint8_t type, const std::vector<std::uint32_t>& extents,
                             const std::string& data) {
  std::string out;
  put_be(out, type, 3);
  put_be(out, extents.size(), 1);
  for (auto x : extents)
    put_be(out, x, 4);
  return out + data;
}

inline std::string deflated(const std::string& plain, int window_bits) {
  z_stream state{};
  if (deflateInit2(&state, Z_BEST_SPEED, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    return {};
  std::string out(deflateBound(&state, plain.size()) + 64, '\0');
  state.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(plain.data()));
  state.avail_in = static_cast<uInt>(plain.size());
  state.next_out = reinterpret_cast<Bytef*>(out.data());
  state.avail_out = static_cast<uInt>(out.size());
  deflate(&state, Z_FINISH);
  out.resize(state.total_out);
  deflateEnd(&state);
  return out;
}

/// One gzip member.
inline std::string gzipped(const std::string& plain) { return deflated(plain, 16 + MAX_WBITS); }
/// A zlib stream.
inline std::string zlibbed(const std::string& plain) { return deflated(plain, MAX_WBITS); }

} // namespace data_test
