#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <ostream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/troupe.hpp>

#include "detail/bench.hpp"

/// What bench/collectives measures: which operations of which sizes, whose times, what they should
/// come to, and how a rank tells the program of them.
namespace bench {

namespace tr = troupe;

inline constexpr std::size_t kib = 1024;
inline constexpr std::size_t mib = 1024 * kib;
inline constexpr std::size_t bytes_max = 64 * mib;

inline constexpr std::array all_kinds{
  tr::collective_kind::all_reduce, tr::collective_kind::reduce_scatter,
  tr::collective_kind::all_gather, tr::collective_kind::broadcast,
  tr::collective_kind::reduce,     tr::collective_kind::gather,
  tr::collective_kind::barrier};

inline bool has_root(tr::collective_kind kind) {
  using k = tr::collective_kind;
  return kind == k::broadcast || kind == k::reduce || kind == k::gather;
}

/// For profiles: whether Troupe runs alone, with vectors of as many bytes as TROUPE_BENCH_ALONE
/// says.
inline std::optional<std::size_t> alone_bytes() {
  const char* const text = std::getenv("TROUPE_BENCH_ALONE");
  if (text == nullptr)
    return std::nullopt;
  return std::strtoul(text, nullptr, 10);
}

/// Bytes of the whole vector: what each member gives to a reduction or gets from a collection.
inline std::vector<std::size_t> sizes_of(tr::collective_kind kind) {
  if (const auto bytes = alone_bytes())
    return {*bytes};
  if (kind == tr::collective_kind::all_reduce)
    return {kib, 64 * kib, mib, 4 * mib, bytes_max};
  if (kind == tr::collective_kind::barrier)
    return {0};
  return {kib, mib, 16 * mib};
}

/// Calls of a sample.
inline int times_for(tr::collective_kind kind, std::size_t bytes, bool quick) {
  const bool is_sum = kind == tr::collective_kind::all_reduce;
  const int full = bytes <= 4 * kib    ? is_sum ? 500 : 300
                   : bytes <= 64 * kib ? 150
                   : bytes <= mib      ? 25
                   : bytes <= 4 * mib  ? 8
                   : bytes <= 16 * mib ? 3
                                       : 1;
  return quick ? std::max(1, full / 10) : full;
}

/// One of ours and one of the others, in one operation of one size.
struct cell {
  std::string kind{};
  std::string transport{};
  std::uint32_t n = 0;
  std::size_t bytes = 0;
  std::string wire = "f32";
  std::string order = "rank";
  std::string algorithm{};
  std::string peer{};
  std::string note{};
  std::vector<double> ours{};
  std::vector<double> peers{};
};

// --- what transport measurements on another machine led to expect
// -----------------------------------------------------------------------------------------

/// The aim for one size: the ratio to the better Gloo, to Open MPI over TCP, the share of bare
/// sockets, the ratios to Open MPI's shared memory through slots and in place; 0: none.
struct size_aim {
  std::size_t bytes = 0;
  double gloo = 0;
  double openmpi_tcp = 0;
  double raw_tcp = 0;
  double staged = 0;
  double zero_copy = 0;
};

inline constexpr std::array pair_aims{
  size_aim{kib, 20, 1.0, 0, 0.8, 1.0}, size_aim{64 * kib, 6, 1.2, 0, 3, 6},
  size_aim{mib, 3, 1.1, 0.75, 2, 5}, size_aim{4 * mib, 2.5, 1.4, 0.8, 1.8, 5},
  size_aim{64 * mib, 1.7, 1.9, 0.45, 3, 5}};

/// The ratio that the row should reach; 0: nobody said. Only sums have aims.
inline double aim_of(const cell& c) {
  if (c.kind != "all_reduce")
    return 0;
  const auto is = [&c](const char* prefix) { return c.peer.rfind(prefix, 0) == 0; };
  if (is("troupe_f32"))
    return c.bytes >= 4 * mib ? 1.3 : 0;
  if (c.transport == "inproc")
    return c.bytes >= mib ? 0.85 : 0;
  if (c.n > 2) {
    if (c.transport == "tcp")
      return is("gloo") ? 1.3 : is("openmpi") ? 1.5 : 0;
    return is("openmpi") && c.bytes >= 64 * kib && c.algorithm != "zero_copy" ? 2 : 0;
  }
  for (const size_aim& aim : pair_aims)
    if (aim.bytes == c.bytes) {
      if (c.transport == "tcp")
        return is("gloo") ? aim.gloo : is("openmpi") ? aim.openmpi_tcp : aim.raw_tcp;
      if (is("openmpi"))
        return c.algorithm == "zero_copy" ? aim.zero_copy : aim.staged;
      return c.algorithm == "zero_copy" && c.bytes == bytes_max ? 0.75 : 0;
    }
  return 0;
}

/// "all_reduce_tcp_n2", "all_reduce_tcp_n2_4M_bf16".
inline std::string group_name(std::string_view kind, const std::string& transport,
                              std::uint32_t n) {
  return std::string{kind} + "_" + transport + "_n" + std::to_string(n);
}

inline row row_of(const cell& c) {
  row out;
  const std::string size = c.bytes >= mib ? "_" + std::to_string(c.bytes / mib) + "M"
                           : c.bytes > 0  ? "_" + std::to_string(c.bytes / kib) + "K"
                                          : "";
  out.name = group_name(c.kind, c.transport, c.n) + size + (c.wire == "f32" ? "" : "_" + c.wire)
             + (c.order == "rank" ? "" : "_" + c.order)
             + (c.algorithm == "zero_copy" ? "_zero_copy" : "");
  out.params = {{"n", std::to_string(c.n)},         {"bytes", std::to_string(c.bytes)},
                {"transport", quoted(c.transport)}, {"wire", quoted(c.wire)},
                {"order", quoted(c.order)},         {"algorithm", quoted(c.algorithm)}};
  out.unit = "us";
  out.ours = c.ours;
  out.peer = c.peer;
  out.peers = c.peers;
  out.note = c.note;
  out.aim = aim_of(c);
  if (!c.ours.empty() && median(c.ours) <= 0)
    out.unmeasured = "shorter than the time that it took to write the vectors: try more rounds";
  return out;
}

// --- from the ranks to the program: a line a cell, fields between tabs
// -----------------------------------------------------------------------------------------

inline void write(std::ostream& out, const cell& c) {
  out << c.kind << '\t' << c.transport << '\t' << c.n << '\t' << c.bytes << '\t' << c.wire << '\t'
      << c.order << '\t' << c.algorithm << '\t' << c.peer << '\t' << c.note << '\t';
  for (const double us : c.ours)
    out << us << ' ';
  out << '\t';
  for (const double us : c.peers)
    out << us << ' ';
  out << std::endl;
}

inline std::vector<double> numbers(const std::string& text) {
  std::istringstream in{text};
  std::vector<double> out;
  for (double x = 0; in >> x;)
    out.push_back(x);
  return out;
}

/// False for a line that a rank did not finish.
inline bool read(const std::string& line, cell& c) {
  std::vector<std::string> fields;
  std::istringstream parts{line};
  for (std::string field; std::getline(parts, field, '\t');)
    fields.push_back(field);
  if (fields.size() < 10)
    return false;
  fields.resize(11); // the last one is empty without a peer
  c = {fields[0],
       fields[1],
       static_cast<std::uint32_t>(std::stoul(fields[2])),
       std::stoul(fields[3]),
       fields[4],
       fields[5],
       fields[6],
       fields[7],
       fields[8],
       numbers(fields[9]),
       numbers(fields[10])};
  return true;
}

} // namespace bench
