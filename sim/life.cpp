#include <troupe/sim/detail/life.hpp>

#include <algorithm>

#include <troupe/sim/detail/core.hpp>
#include <troupe/sim/detail/ports.hpp>

namespace troupe::sim {

void serve(process& p) {
  runtime rt{p.options(), p.host()};
  p.set_exit_code(rt.serve());
}

life::life(world::core& w, machine& home, life_id id, runtime_options options)
  : world_{w},
    home_{home},
    id_{id},
    ports_{std::make_unique<all_ports>(*this)},
    env_{ports_->clock, ports_->random,     *ports_->storage, ports_->lanes,
         ports_->waits, *ports_->transport, &ports_->trace,   &ports_->devices},
    options_{std::move(options)},
    draws_{draw_stream{w.options.seed, "process"}.at(hash_text(home.host)).at(home.starts)},
    preemptions_{draws_.at(hash_text("preempt"))},
    actors_{*this, id} {
  ending.node = home.name;
  ending.start = home.starts;
}

life::~life() { tear_down(); }

node_name life::name() const { return home_.name; }

fake_table* life::gpus() const { return ports_->devices.gpus(); }

std::uint32_t life::start() const { return ending.start; }

// --- the program
// --------------------------------------------------------------------------------------------------

void life::start_main() {
  start_lane("main", [this] { main_body(); });
}

void life::main_body() {
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

std::uint64_t life::run(const ready_task& task) {
  if (task.is_lane) {
    auto& f = *static_cast<lane_fiber*>(task.what);
    run_lane(f);
    return f.number;
  }
  try {
    return actors_.run_job(task.what);
  } catch (const process_left&) { // passed through a part of CAF that catches nothing
    return 0;
  }
}

void life::run_lane(lane_fiber& f) {
  auto* outer = std::exchange(running_, &f);
  f.stack.run();
  running_ = outer;
  if (!f.stack.ended())
    return;
  if (up_ && f.stack.error()) {
    try {
      std::rethrow_exception(f.stack.error());
    } catch (const std::exception& e) {
      complain("lane " + f.stack.name() + " threw: " + e.what());
    } catch (...) {
      complain("lane " + f.stack.name() + " threw");
    }
  }
  for (auto* j : std::exchange(f.joiners, {}))
    wake(*j, true);
}

void life::finish_lane(lane_fiber& f) {
  auto at = std::find_if(ready.begin(), ready.end(), [&](const auto& t) { return t.what == &f; });
  if (at != ready.end()) {
    ready.erase(at);
    run_lane(f);
  }
  if (!f.stack.ended())
    complain("a handler waits for lane " + f.stack.name());
}

lane_fiber& life::start_lane(std::string name, std::function<void()> body) {
  lanes_.push_back(
    std::make_unique<lane_fiber>(*this, ++lane_numbers_, std::move(name), std::move(body)));
  auto& f = *lanes_.back();
  if (up_)
    ready.push_back({&f, ++world_.ready_seq, true});
  return f;
}

lane_fiber& life::running() {
  TROUPE_ASSERT(running_ != nullptr, "sim: only lanes wait, never an actor's handler");
  return *running_;
}

bool life::block(lane_fiber& f, time_point deadline) {
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
void life::end_here() {
  if (!up_ && running_)
    running_->stack.suspend();
}

void life::wake(lane_fiber& f, bool notified) {
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

void life::leave(int code) {
  if (up_) {
    ending.code = code;
    world_.crash(home_, crash_plain, exit_record::left);
  }
  if (running_ == nullptr)
    throw process_left{};
  running_->stack.suspend();
  throw forced_unwind{};
}

void life::freeze(exit_record::how_t how) {
  up_ = false;
  ending.how = how;
  ending.at = world_.since_start();
  actors_.cut();
  for (auto& f : lanes_)
    world_.waits.remove(*f);
  for (const auto& task : ready)
    if (!task.is_lane)
      actors_.give_back(task.what);
  ready.clear();
}

/// The program first: it owns the runtime, which waits for the rest. What it waits for has ended,
/// or the clock runs until its deadlines have passed.
void life::tear_down() {
  if (std::exchange(closed_, true))
    return;
  if (up_)
    freeze(exit_record::running);
  tearing_ = true;
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    auto* outer = std::exchange(running_, lanes_[i].get());
    lanes_[i]->stack.unwind();
    running_ = outer;
  }
  for (const auto& task : std::exchange(ready, {}))
    if (!task.is_lane)
      actors_.give_back(task.what);
  actors_.close();
}

// --- what the ports ask
// -------------------------------------------------------------------------------------------

time_point life::local_now() const noexcept {
  auto at = home_.clock.local(world_.now);
  if (tearing_)
    at += std::chrono::seconds{++runaway_s_};
  return at;
}

std::uint64_t life::draw(std::string_view purpose) {
  auto key = hash_text(purpose);
  auto at =
    std::find_if(purposes_.begin(), purposes_.end(), [&](const auto& p) { return p.first == key; });
  if (at == purposes_.end())
    at = purposes_.insert(purposes_.end(), {key, 0});
  return draws_.at(key).value(at->second++);
}

void life::may_be_preempted() {
  if (!running_ || !up_ || !preemptions_.chance(world_.options.preempt_per_mille))
    return;
  auto pause = std::chrono::microseconds{1 + preemptions_.below(200)};
  block(*running_, after(local_now(), pause));
}

void life::job_ready(void* job) {
  if (up_)
    ready.push_back({job, ++world_.ready_seq, false});
  else
    actors_.give_back(job);
}

void life::complain(const std::string& what) {
  if (up_)
    world_.fail("complaint", home_.host + ": " + what);
}

std::uint16_t life::bind(std::uint16_t wanted) {
  if (wanted == 0)
    wanted = home_.next_port++;
  return ports.insert(wanted).second ? wanted : 0;
}

bool life::find_machine(const std::string& host, std::uint32_t& machine) {
  for (const auto& m : world_.machines)
    if (m->host == host) {
      machine = m->index;
      return true;
    }
  return false;
}

std::uint64_t life::route_to(const life_id& peer) { return world_.net.route(*this, peer); }

void life::send(packet&& p) {
  if (!up_)
    return;
  p.from = id_;
  world_.net.send(std::move(p));
}

} // namespace troupe::sim
