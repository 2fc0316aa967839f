#include <troupe/actors/server/server_event_loop.hpp>

#include <new>
#include <utility>

#include <troupe/actors/server/detail/server_admission.hpp>
#include <troupe/actors/server/detail/server_session.hpp>

namespace troupe {

server_event_loop::server_event_loop(const environment& env, server_event_loop_options options)
  : env_{env},
    options_{std::move(options)},
    admission_{
      std::make_unique<server_admission>(options_.cluster, options_.token, options_.store)},
    channels_{env.transport.make_poller()} {}

server_event_loop::~server_event_loop() = default;

result<std::string> server_event_loop::open() {
  auto made = env_.transport.listen(options_.address);
  if (!made)
    return made.error();
  auto address = (*made)->address();
  channels_.listen(std::move(*made));
  return address;
}

void server_event_loop::run() {
  TROUPE_ASSERT(channels_.listens(), "server_event_loop: open() comes before run()");
  while (!stopped_.load(std::memory_order_acquire)) {
    try {
      turn();
    } catch (const std::bad_alloc&) { // outside of any call: others may give some back
      mark(env_, "server.out_of_memory");
      env_.threads.yield();
    }
  }
  channels_.close();
}

void server_event_loop::turn() {
  if (check_again_.exchange(false, std::memory_order_acq_rel))
    check_again();
  channels_.accept(options_.channels_max, [this](std::unique_ptr<channel> wire) {
    auto& s = channels_.add(std::make_unique<server_session>(
      std::move(wire),
      server_session::context{
        .env = env_, .options = options_, .admission = *admission_, .pool = pool_}));
    trace(env_, "server.channel_accepted", {{"peer", s.wire().peer()}});
  });
  const auto now = env_.clock.now();
  channels_.turn([now](server_session& s) { return s.serve(now); },
                 [](const server_session& s) { return s.wait(); });
}

void server_event_loop::check_again() {
  for (const auto& s : channels_.sessions())
    s->check_again();
}

void server_event_loop::stop() {
  stopped_.store(true, std::memory_order_release);
  channels_.poller()->wake();
}

void server_event_loop::set_incarnation(const incarnation& self) {
  admission_->set_incarnation(self);
  check_again_.store(true, std::memory_order_release); // channels to the earlier incarnation end
  channels_.poller()->wake();
}

void server_event_loop::fence(const task_id& task, std::uint32_t counter) {
  admission_->fence(task, counter);
  check_again_.store(true, std::memory_order_release);
  channels_.poller()->wake();
}

} // namespace troupe
