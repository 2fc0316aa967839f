#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <troupe/core/production_ports.hpp>
#include <troupe/kernels/casts.hpp>
#include <troupe/transport/asio_transport.hpp>
#include <troupe/transport/collective_group.hpp>
#include <troupe/transport/host_transport.hpp>
#include <troupe/transport/memory_transport.hpp>

/// Groups of threads for the tests of collective operations.
namespace collective_test {

using namespace troupe;
using namespace std::chrono_literals;

/// What carries a group's data.
enum class carrier { memory, tcp, rings, host, process };

inline const char* name_of(carrier by) {
  switch (by) {
    case carrier::memory: return "memory";
    case carrier::tcp: return "tcp";
    case carrier::rings: return "rings";
    case carrier::host: return "host";
    case carrier::process: return "process";
  }
  return "?";
}

inline group_class class_of(carrier by) {
  return by == carrier::process ? group_class::process
         : by == carrier::host  ? group_class::host
                                : group_class::network;
}

/// n members, each driven by a thread of its own. Ids are 100, 101, ...
class test_group {
public:
  using step = std::function<void(std::uint32_t, collective_group&)>;

  explicit test_group(carrier by, memory_transport_options memory = {})
    : by_{by},
      ports_{make_production_ports()},
      transport_{by == carrier::tcp     ? make_asio_transport(ports_->clock())
                 : by == carrier::rings ? make_host_transport(ports_->clock())
                                        : make_memory_transport(ports_->waits(), memory)},
      env_{ports_->clock(),   ports_->random(), ports_->storage(),
           ports_->threads(), ports_->waits(),  *transport_} {}

  test_group(carrier by, std::uint32_t n) : test_group{by} {
    add(n);
    const auto formed = form(group_epoch{1});
    for (const auto& ok : formed)
      REQUIRE_MESSAGE(ok, (ok ? "" : ok.error().text));
  }

  void add(std::uint32_t n = 1) {
    for (std::uint32_t i = 0; i < n; ++i) {
      const auto at = static_cast<std::uint64_t>(groups_.size());
      group_options options;
      const bool has_ports = by_ == carrier::tcp || by_ == carrier::rings;
      options.listen = has_ports ? "127.0.0.1:0" : "mem:0";
      options.spin = 50us;
      options.arena_bytes = arena_bytes;
      options.members_listen = members_listen;
      if (by_ == carrier::process)
        options.locality = group_locality{7, 7};
      else if (by_ == carrier::host)
        options.locality = group_locality{7, 100 + at};
      else if (by_ == carrier::rings) // the channels alone
        options.locality = group_locality{};
      groups_.push_back(collective_group::make(env_, 100 + at, options).value_or_throw());
    }
  }

  std::vector<collective_member> members() const {
    std::vector<collective_member> out;
    for (std::size_t i = 0; i < groups_.size(); ++i)
      out.push_back({100 + i, groups_[i] ? groups_[i]->address() : "mem:none"});
    return out;
  }

  std::vector<result<void>> form(group_epoch epoch, duration deadline = 20s) {
    const auto all = members();
    return collect(
      [&](std::uint32_t, collective_group& group) { return group.form(epoch, all, deadline); });
  }

  /// Runs `f` for all members at the same time, each on its own thread.
  void each(const step& f) {
    std::vector<std::thread> threads;
    for (std::uint32_t i = 0; i < groups_.size(); ++i)
      if (groups_[i])
        threads.emplace_back([&, i] { f(i, *groups_[i]); });
    for (std::thread& t : threads)
      t.join();
  }

  /// The same with what came out.
  std::vector<result<void>> collect(
    const std::function<result<void>(std::uint32_t, collective_group&)>& f) {
    std::vector<result<void>> out(groups_.size());
    each([&](std::uint32_t i, collective_group& group) { out[i] = f(i, group); });
    return out;
  }

  collective_group& operator[](std::size_t i) { return *groups_[i]; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(groups_.size()); }
  void destroy(std::size_t i) { groups_[i].reset(); }
  std::size_t arena_bytes = 0; ///< of those that are added next
  bool members_listen = false; ///< the same
  environment& env() { return env_; }
  data_transport& transport() { return *transport_; }

private:
  carrier by_;
  std::unique_ptr<production_ports> ports_;
  std::unique_ptr<data_transport> transport_;
  environment env_;
  std::vector<std::unique_ptr<collective_group>> groups_{};
};

/// A number as an element.
inline void put_element(tensor& x, std::size_t i, double value) {
  std::byte* const at = x.mutable_bytes().data() + i * size_of(x.type());
  const auto store = [&](auto v) { std::memcpy(at, &v, sizeof v); };
  switch (x.type()) {
    case dtype::u8: store(static_cast<std::uint8_t>(value)); break;
    case dtype::i8: store(static_cast<std::int8_t>(value)); break;
    case dtype::i32: store(static_cast<std::int32_t>(value)); break;
    case dtype::i64: store(static_cast<std::int64_t>(value)); break;
    case dtype::f16: store(kernels::f16_from_f32(static_cast<float>(value))); break;
    case dtype::bf16: store(kernels::bf16_from_f32(static_cast<float>(value))); break;
    case dtype::f32: store(static_cast<float>(value)); break;
    case dtype::f64: store(value); break;
  }
}

inline tensor make_tensor(dtype type, std::size_t count,
                          const std::function<double(std::size_t)>& value) {
  tensor out{type, {static_cast<std::int64_t>(count)}};
  for (std::size_t i = 0; i < count; ++i)
    put_element(out, i, value(i));
  return out;
}

/// Of a call that failed; nothing of one that did not.
inline std::string text_of(const result<void>& r) { return r ? "" : to_string(r.error()); }

inline tensor zeros(dtype type, std::size_t count) {
  return tensor::zeros(type, {static_cast<std::int64_t>(count)});
}

inline constexpr dtype all_types[] = {dtype::u8,  dtype::i8,   dtype::i32, dtype::i64,
                                      dtype::f16, dtype::bf16, dtype::f32, dtype::f64};
inline constexpr carrier all_carriers[] = {carrier::memory, carrier::tcp, carrier::rings,
                                           carrier::host, carrier::process};

} // namespace collective_test
