#include <troupe/sim/fiber.hpp>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <utility>
#include <vector>

#include <cxxabi.h>

#include <boost/context/fiber.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>

#if defined(__SANITIZE_ADDRESS__)
#define TROUPE_SIM_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TROUPE_SIM_ASAN 1
#endif
#endif
#if defined(TROUPE_SIM_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace troupe::sim {

namespace {

#if defined(TROUPE_SIM_ASAN)
constexpr std::size_t stack_bytes = std::size_t{2} << 20;
void switch_to(void** save, const void* bottom, std::size_t size) {
  __sanitizer_start_switch_fiber(save, bottom, size);
}
void switched(void* saved, const void** bottom, std::size_t* size) {
  __sanitizer_finish_switch_fiber(saved, bottom, size);
}
void stack_gone(void* at, std::size_t size) { __asan_unpoison_memory_region(at, size); }
#else
constexpr std::size_t stack_bytes = std::size_t{512} << 10;
void switch_to(void**, const void*, std::size_t) {}
void switched(void*, const void**, std::size_t*) {}
void stack_gone(void*, std::size_t) {}
#endif

// The C++ runtime keeps the caught and in-flight exceptions per thread; a fiber that waits inside a
// catch block would leave its own to whoever runs next.
class exception_state {
public:
  exception_state() : mine_{std::exchange(now(), globals{nullptr, 0})} {}
  ~exception_state() { now() = mine_; }
  exception_state(const exception_state&) = delete;
  exception_state& operator=(const exception_state&) = delete;

private:
  struct globals { // the Itanium ABI's __cxa_eh_globals
    void* caught;
    unsigned uncaught;
  };
  static globals& now() { return *reinterpret_cast<globals*>(abi::__cxa_get_globals()); }
  globals mine_;
};

using boost::context::stack_context;

// Stacks that bodies have left, with their guard pages: making one costs two system calls.
class stack_pool {
public:
  ~stack_pool() {
    for (auto& s : free_)
      maker_.deallocate(s);
  }
  stack_context take() {
    if (free_.empty())
      return maker_.allocate();
    auto out = free_.back();
    free_.pop_back();
    return out;
  }
  void give(stack_context s) {
    constexpr std::size_t kept_max = 256;
    auto page = boost::context::stack_traits::page_size(); // the first page is the guard
    stack_gone(static_cast<char*>(s.sp) - s.size + page, s.size - page);
    if (free_.size() < kept_max)
      free_.push_back(s);
    else
      maker_.deallocate(s);
  }
  static stack_pool& of_thread() {
    static thread_local stack_pool pool;
    return pool;
  }

private:
  boost::context::protected_fixedsize_stack maker_{stack_bytes};
  std::vector<stack_context> free_{};
};

struct pooled_stack {
  using traits_type = boost::context::stack_traits;
  stack_context allocate() { return stack_pool::of_thread().take(); }
  void deallocate(stack_context& s) noexcept { stack_pool::of_thread().give(s); }
};

fiber*& running() {
  static thread_local fiber* it = nullptr;
  return it;
}

} // namespace

struct fiber::machine {
  boost::context::fiber inner{}, outer{};
  void* outside_fake = nullptr;
  void* inside_fake = nullptr;
  const void* outside_bottom = nullptr;
  std::size_t outside_size = 0;
  const void* bottom = nullptr;
  std::size_t size = 0;
};

fiber::fiber(std::string name, std::function<void()> body)
  : name_{std::move(name)}, body_{std::move(body)} {}

fiber::~fiber() { unwind(); }

fiber* fiber::current() { return running(); }

// On the fiber's own stack.
void fiber::body_on_stack() {
  try {
    body_();
  } catch (const forced_unwind&) {
  } catch (...) {
    error_ = std::current_exception();
  }
  body_ = nullptr; // what it captured is released before anybody sees the end
}

void fiber::run() {
  if (!machine_) {
    machine_ = std::make_unique<machine>();
    auto stack = stack_pool::of_thread().take();
    machine_->bottom = static_cast<char*>(stack.sp) - stack.size;
    machine_->size = stack.size;
    machine_->inner = boost::context::fiber{
      std::allocator_arg, boost::context::preallocated{stack.sp, stack.size, stack}, pooled_stack{},
      [this](boost::context::fiber&& outside) {
        switched(nullptr, &machine_->outside_bottom, &machine_->outside_size);
        machine_->outer = std::move(outside);
        body_on_stack();
        ended_ = true;
        // null: this stack is about to go
        switch_to(nullptr, machine_->outside_bottom, machine_->outside_size);
        return std::move(machine_->outer);
      }};
  }
  exception_state saved;
  auto* outside_fiber = std::exchange(running(), this);
  auto* outside_context = exchange_context(&context_);
  switch_to(&machine_->outside_fake, machine_->bottom, machine_->size);
  machine_->inner = std::move(machine_->inner).resume();
  switched(machine_->outside_fake, nullptr, nullptr);
  exchange_context(outside_context);
  running() = outside_fiber;
  if (ended_)
    machine_.reset();
}

bool fiber::suspend() {
  if (!unwinding_) {
    exception_state saved;
    switch_to(&machine_->inside_fake, machine_->outside_bottom, machine_->outside_size);
    machine_->outer = std::move(machine_->outer).resume();
    switched(machine_->inside_fake, &machine_->outside_bottom, &machine_->outside_size);
  }
  if (!unwinding_)
    return true;
  if (throws_here()) {
    thrown_ = true;
    throw forced_unwind{};
  }
  if (++waits_while_unwinding_ > 100'000) {
    std::fprintf(stderr, "fiber %s does not end: does a catch (...) swallow its unwinding?\n",
                 name_.c_str());
    std::abort();
  }
  return false;
}

bool fiber::throws_here() const {
  return !thrown_ && context_.destructors == 0 && std::uncaught_exceptions() == 0;
}

void fiber::unwind() {
  if (ended_)
    return;
  unwinding_ = true;
  if (machine_) {
    run(); // its waits no longer come back here, so it ends
  } else {
    body_ = nullptr;
    ended_ = true;
  }
}

} // namespace troupe::sim
