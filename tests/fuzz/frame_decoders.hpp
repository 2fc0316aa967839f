#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "../unit/transport/support.hpp"
#include "fuzz.hpp"

/// The decoders of the target fuzz_frame, by file, and what they share.
namespace fuzz {

void add_streams(std::vector<decoder>& to);
void add_groups(std::vector<decoder>& to);
void add_blocks(std::vector<decoder>& to);
void add_servers(std::vector<decoder>& to);
void add_rings(std::vector<decoder>& to);

/// A scripted channel; as one of memory, what came can be looked at and room be written to.
class test_channel final : public troupe::channel {
public:
  test_channel(transport_test::scripted_channel& of, bool of_memory)
    : of_{of}, place_bytes_max_{of_memory ? std::size_t{4096} : 0} {}
  troupe::result<std::size_t> try_send(std::span<const troupe::const_bytes> parts) override {
    return of_.try_send(parts);
  }
  troupe::result<std::size_t> try_receive(std::span<const troupe::mutable_bytes> parts) override {
    return of_.try_receive(parts);
  }
  void close() override {}
  std::string peer() const override { return of_.peer(); }

  bool can_damage() const override { return place_bytes_max_ == 0; }
  std::size_t place_bytes_max() const override { return place_bytes_max_; }
  troupe::result<troupe::const_bytes> try_view(std::size_t n) override {
    if (of_.incoming.size() - of_.read_at >= n)
      return transport_test::bytes_of(of_.incoming).subspan(of_.read_at, n);
    if (of_.ends)
      return troupe::make_failure(troupe::errc::connection_lost, "the peer closed it");
    return troupe::const_bytes{};
  }
  void take(std::size_t n) override { of_.read_at += n; }
  troupe::mutable_bytes try_room(std::size_t n) override {
    room_.assign(n, std::byte{});
    return room_;
  }
  void give(std::size_t n) override {
    of_.outgoing.append(reinterpret_cast<const char*>(room_.data()), n);
  }

private:
  transport_test::scripted_channel& of_;
  std::size_t place_bytes_max_;
  std::vector<std::byte> room_{};
};

/// Makes magic, version and checksums of frames right, as far as their lengths lead: no fuzzer
/// guesses a checksum.
std::string repaired(std::string stream);

/// Cuts what a channel moves into pieces of 1 to 61 bytes, by a seed; 0: as much as there is.
std::function<std::size_t()> cuts_of(std::uint8_t seed);

} // namespace fuzz
