#include <troupe/sim/detail/process_instance.hpp>

#include <algorithm>

#include <troupe/sim/detail/core.hpp>
#include <troupe/sim/detail/ports.hpp>

namespace troupe::sim {

void serve(process& p) {
  runtime rt{p.options(), p.host()};
  p.set_exit_code(rt.serve());
}

process_instance::process_instance(world::core& w, machine& home, process_id id,
                                   runtime_options options)
  : world_{w},
    home_{home},
    id_{id},
    ports_{std::make_unique<all_ports>(*this)},
    env_{ports_->clock, ports_->random,     *ports_->storage, ports_->threads,
         ports_->waits, *ports_->transport, &ports_->trace,   &ports_->devices},
    options_{std::move(options)},
    draws_{draw_stream{w.options.seed, "process"}.at(hash_text(home.host)).at(home.starts)},
    preemptions_{draws_.at(hash_text("preempt"))},
    actors_{*this, id} {
  ending.node = home.name;
  ending.start = home.starts;
}

process_instance::~process_instance() { tear_down(); }

node_name process_instance::name() const { return home_.name; }

fake_backend* process_instance::gpus() const { return ports_->devices.gpus(); }

std::uint32_t process_instance::start() const { return ending.start; }

// --- the program
// --------------------------------------------------------------------------------------------------

void process_instance::start_main() {
  start_thread("main", [this] { main_body(); });
}

void process_instance::main_body() {
  try {
    home_.main(*this);
    ending.how = exit_record::returned;
  } catch (const std::exception& e) {
    ending.how = exit_record::threw;
    ending.code = 134;
    ending.text = e.what();
  }
  if (up_)
    world_.exit_soon(*this);
}

// --- running
// ------------------------------------------------------------------------------------------------------

std::uint64_t process_instance::run(const ready_task& task) {
  if (task.is_thread) {
    auto& f = *static_cast<thread_fiber*>(task.what);
    run_thread(f);
    return f.number;
  }
  try {
    return actors_.run_job(task.what);
  } catch (const process_left&) { // passed through a part of CAF that catches nothing
    return 0;
  }
}

void process_instance::run_thread(thread_fiber& f) {
  auto* outer = std::exchange(running_, &f);
  f.stack.run();
  running_ = outer;
  if (!f.stack.ended())
    return;
  if (up_ && f.stack.error()) {
    try {
      std::rethrow_exception(f.stack.error());
    } catch (const std::exception& e) {
      complain("thread " + f.stack.name() + " threw: " + e.what());
    } catch (...) {
      complain("thread " + f.stack.name() + " threw");
    }
  }
  for (auto* j : std::exchange(f.joiners, {}))
    wake(*j, true);
}

void process_instance::finish_thread(thread_fiber& f) {
  auto at = std::find_if(ready.begin(), ready.end(), [&](const auto& t) { return t.what == &f; });
  if (at != ready.end()) {
    ready.erase(at);
    run_thread(f);
  }
  if (!f.stack.ended())
    complain("a handler waits for thread " + f.stack.name());
}

thread_fiber& process_instance::start_thread(std::string name, std::function<void()> body) {
  threads_.push_back(
    std::make_unique<thread_fiber>(*this, ++thread_numbers_, std::move(name), std::move(body)));
  auto& f = *threads_.back();
  if (up_)
    ready.push_back({&f, ++world_.ready_seq, true});
  return f;
}

thread_fiber& process_instance::running() {
  TROUPE_ASSERT(running_ != nullptr, "sim: only threads wait, never an actor's handler");
  return *running_;
}

bool process_instance::block(thread_fiber& f, time_point deadline) {
  f.next_yield = {};
  if (!up_) // frozen: until it is torn down
    return f.stack.suspend() && f.notified;
  f.notified = false;
  f.waiting = true;
  f.deadline = deadline == never ? never : std::max(home_.clock.world_at(deadline), world_.now);
  if (f.deadline != never)
    world_.waits.add(f);
  if (!f.stack.suspend())
    return false;
  return f.notified;
}

/// A program that tries again and again what can't be had any more would never end.
void process_instance::end_here() {
  if (!up_ && running_)
    running_->stack.suspend();
}

void process_instance::wake(thread_fiber& f, bool notified) {
  if (!f.waiting)
    return;
  f.waiting = false;
  f.notified = notified;
  world_.waits.remove(f);
  if (up_)
    ready.push_back({&f, ++world_.ready_seq, true});
}

// --- the end
// ------------------------------------------------------------------------------------------------------

void process_instance::leave(int code) {
  if (up_) {
    ending.code = code;
    world_.crash(home_, crash_plain, exit_record::left);
  }
  if (running_ == nullptr)
    throw process_left{};
  running_->stack.suspend();
  throw forced_unwind{};
}

void process_instance::freeze(exit_record::how_t how) {
  up_ = false;
  ending.how = how;
  ending.at = world_.since_start();
  actors_.cut();
  for (auto& f : threads_)
    world_.waits.remove(*f);
  for (const auto& task : ready)
    if (!task.is_thread)
      actors_.give_back(task.what);
  ready.clear();
}

/// The program first: it owns the runtime, which waits for the rest. What it waits for has ended,
/// or the clock runs until its deadlines have passed.
void process_instance::tear_down() {
  if (std::exchange(closed_, true))
    return;
  if (up_)
    freeze(exit_record::running);
  tearing_ = true;
  for (std::size_t i = 0; i < threads_.size(); ++i) {
    auto* outer = std::exchange(running_, threads_[i].get());
    threads_[i]->stack.unwind();
    running_ = outer;
  }
  for (const auto& task : std::exchange(ready, {}))
    if (!task.is_thread)
      actors_.give_back(task.what);
  actors_.close();
}

// --- what the ports ask
// -------------------------------------------------------------------------------------------

time_point process_instance::local_now() const noexcept {
  auto at = home_.clock.local(world_.now);
  if (tearing_)
    at += std::chrono::seconds{++runaway_s_};
  return at;
}

std::uint64_t process_instance::draw(std::string_view purpose) {
  auto key = hash_text(purpose);
  auto at =
    std::find_if(purposes_.begin(), purposes_.end(), [&](const auto& p) { return p.first == key; });
  if (at == purposes_.end())
    at = purposes_.insert(purposes_.end(), {key, 0});
  return draws_.at(key).value(at->second++);
}

void process_instance::may_be_preempted() {
  if (!running_ || !up_ || !preemptions_.chance(world_.options.preempt_per_mille))
    return;
  auto pause = std::chrono::microseconds{1 + preemptions_.below(200)};
  block(*running_, after(local_now(), pause));
}

void process_instance::job_ready(void* job) {
  if (up_)
    ready.push_back({job, ++world_.ready_seq, false});
  else
    actors_.give_back(job);
}

void process_instance::complain(const std::string& what) {
  if (up_)
    world_.fail("complaint", home_.host + ": " + what);
}

std::uint16_t process_instance::bind(std::uint16_t wanted) {
  if (wanted == 0)
    wanted = home_.next_port++;
  return ports.insert(wanted).second ? wanted : 0;
}

bool process_instance::find_machine(const std::string& host, std::uint32_t& machine) {
  for (const auto& m : world_.machines)
    if (m->host == host) {
      machine = m->index;
      return true;
    }
  return false;
}

std::uint64_t process_instance::route_to(const process_id& peer) {
  return world_.net.route(*this, peer);
}

void process_instance::send(packet&& p) {
  if (!up_)
    return;
  p.from = id_;
  world_.net.send(std::move(p));
}

} // namespace troupe::sim
