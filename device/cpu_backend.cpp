#include <troupe/device/cpu_backend.hpp>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <troupe/device/detail/cpu_collectives.hpp>
#include <troupe/device/detail/cpu_stream.hpp>

namespace troupe {

namespace {

using namespace detail;

constexpr std::size_t alignment_bytes = 64;

class cpu_backend final : public device_backend {
public:
  cpu_backend(const environment& env, cpu_backend_options options)
    : env_{env},
      options_{options},
      shared_{std::make_shared<cpu_shared>(env)},
      collectives_{env, [](native_stream s, device_op op) {
                     return static_cast<holder*>(s.handle)->stream->push(std::move(op));
                   }} {
    in_use_.resize(options.devices);
  }

  /// Nobody holds a handle any more. What a failed device left behind goes now, unless one of its
  /// threads hangs and may still use it.
  ~cpu_backend() override {
    bool all_ended = true;
    for (auto* s : streams_) {
      all_ended &= s->stream->stop();
      delete s;
    }
    if (!all_ended)
      return;
    for (const auto& [memory, bytes] : sizes_)
      ::operator delete (memory, std::align_val_t{alignment_bytes});
    for (auto* event : events_)
      delete event;
  }

  device_kind kind() const override { return device_kind::cpu; }
  result<std::uint32_t> count() override { return options_.devices; }

  result<device_facts> describe(std::uint32_t device) override {
    if (device >= options_.devices)
      return make_failure(errc::device_unavailable, "cpu:" + std::to_string(device)
                                                      + ": describe: " + to_string(no_device()));
    return device_facts{.name = "CPU device " + std::to_string(device),
                        .arch = {},
                        .memory_bytes = options_.memory_bytes};
  }

  device_answer bind(std::uint32_t device) override {
    return device < options_.devices ? device_answer{} : no_device();
  }

  device_answer health(std::uint32_t device) override {
    std::vector<std::shared_ptr<cpu_stream>> all;
    {
      std::lock_guard lock{mutex_};
      for (auto* s : streams_)
        if (s->device == device)
          all.push_back(s->stream);
    }
    for (auto& s : all)
      if (auto answer = s->failed(); !answer.ok())
        return answer;
    return {};
  }

  // --- memory

  device_answer allocate(std::uint32_t device, std::size_t bytes, void*& out) override {
    std::lock_guard lock{mutex_};
    if (device >= options_.devices)
      return no_device();
    if (options_.memory_bytes != 0 && bytes > options_.memory_bytes - in_use_[device])
      return {.status = device_status::out_of_memory};
    out = ::operator new (bytes, std::align_val_t{alignment_bytes}, std::nothrow);
    if (!out)
      return {.status = device_status::out_of_memory};
    in_use_[device] += bytes;
    sizes_[out] = bytes;
    return {};
  }

  device_answer release(std::uint32_t device, void* memory) override {
    std::lock_guard lock{mutex_};
    if (device >= options_.devices)
      return no_device();
    auto at = sizes_.find(memory);
    if (at == sizes_.end())
      return {.status = device_status::invalid, .text = "unknown memory"};
    in_use_[device] -= at->second;
    sizes_.erase(at);
    ::operator delete (memory, std::align_val_t{alignment_bytes});
    return {};
  }

  device_answer allocate_host(std::size_t bytes, void*& out) override {
    out = ::operator new (bytes, std::align_val_t{alignment_bytes}, std::nothrow);
    return {.status = out ? device_status::ok : device_status::out_of_memory};
  }

  device_answer release_host(void* memory) override {
    ::operator delete (memory, std::align_val_t{alignment_bytes});
    return {};
  }

  // --- streams and events

  device_answer make_stream(std::uint32_t device, const std::string& name,
                            native_stream& out) override {
    if (auto answer = bind(device); !answer.ok())
      return answer;
    auto made = std::make_shared<cpu_stream>(shared_, device_id{device_kind::cpu, device},
                                             options_.queue_len_max, options_.full_max);
    made->start(name, made);
    std::lock_guard lock{mutex_};
    streams_.push_back(new holder{made, device});
    out.handle = streams_.back();
    return {};
  }

  device_answer drop_stream(native_stream stream) override {
    auto* s = static_cast<holder*>(stream.handle);
    {
      std::lock_guard lock{mutex_};
      std::erase(streams_, s);
    }
    (void)s->stream->stop();
    delete s;
    return {};
  }

  device_answer make_event(std::uint32_t device, native_event& out) override {
    if (auto answer = bind(device); !answer.ok())
      return answer;
    auto made = std::make_unique<cpu_event>();
    std::lock_guard lock{mutex_};
    events_.insert(made.get());
    out.handle = made.release();
    return {};
  }

  device_answer drop_event(native_event event) override {
    auto* e = static_cast<cpu_event*>(event.handle);
    {
      std::lock_guard lock{mutex_};
      events_.erase(e);
    }
    delete e;
    return {};
  }

  device_answer record(native_stream stream, native_event event) override {
    return of(stream).record(of(event));
  }

  device_answer depend(native_stream stream, native_event event) override {
    return of(stream).depend(of(event));
  }

  device_answer query(native_event event) override {
    std::lock_guard lock{shared_->mutex};
    return state_of(of(event));
  }

  device_answer await(native_event event, time_point deadline) override {
    std::unique_lock lock{shared_->mutex};
    wait_for(*shared_->changed, lock, deadline,
             [&] { return state_of(of(event)).status != device_status::not_ready; });
    return state_of(of(event));
  }

  // --- work

  device_answer run(native_stream stream, const device_op& op) override {
    return of(stream).push(op);
  }

  device_answer copy(native_stream stream, void* to, const void* from, std::size_t bytes,
                     copy_kind) override {
    return of(stream).push({.name = "copy", .run = [=](const launch_site&) {
                              if (bytes > 0) // else there may be no memory either
                                std::memcpy(to, from, bytes);
                              return device_answer{};
                            }});
  }

  device_answer post(native_stream stream, void (*call)(void*), void* argument) override {
    return of(stream).push({.name = "post", .run = [=](const launch_site&) {
                              call(argument);
                              return device_answer{};
                            }});
  }

  collective_backend* collectives() override { return &collectives_; }

private:
  struct holder {
    std::shared_ptr<cpu_stream> stream{};
    std::uint32_t device = 0;
  };

  static cpu_stream& of(native_stream s) { return *static_cast<holder*>(s.handle)->stream; }
  static cpu_event& of(native_event e) { return *static_cast<cpu_event*>(e.handle); }
  static device_answer no_device() {
    return {.status = device_status::unavailable, .text = "no such CPU device"};
  }
  static device_answer state_of(const cpu_event& e) {
    if (!e.last || e.last->passed) // as on a GPU, one that was never recorded has passed
      return {};
    return e.last->failed.ok() ? device_answer{.status = device_status::not_ready} : e.last->failed;
  }

  const environment env_;
  const cpu_backend_options options_;
  const std::shared_ptr<cpu_shared> shared_;
  std::mutex mutex_{};
  std::vector<holder*> streams_{};
  std::vector<std::uint64_t> in_use_{};
  std::unordered_map<void*, std::size_t> sizes_{};
  std::unordered_set<cpu_event*> events_{};
  cpu_collectives collectives_;
};

} // namespace

std::shared_ptr<device_backend> make_cpu_backend(const environment& env,
                                                 cpu_backend_options options) {
  return std::make_shared<cpu_backend>(env, options);
}

} // namespace troupe
