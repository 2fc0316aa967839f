#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <troupe/core/execution_context.hpp>
#include <troupe/core/thrown.hpp>

/// A stackful fiber that sanitizers, C++ exceptions and the thread's ambient state understand.
namespace troupe::sim {

/// The exception that ends a fiber from inside its wait: thrown there once, so that destructors
/// run. Must not be swallowed by a `catch (...)`: see `ends_the_thread`.
struct forced_unwind final : thread_unwind {};

/// A body of ordinary blocking C++ on a stack of its own. One thread. The stack is made at the
/// first `run` and goes when the body has ended.
class fiber {
public:
  /// `body` runs inside; what it throws, other than `forced_unwind`, is kept for `error`.
  fiber(std::string name, std::function<void()> body);
  fiber(const fiber&) = delete;
  fiber& operator=(const fiber&) = delete;
  /// Unwinds a body that has not ended.
  ~fiber();

  /// Runs the body, from outside, until it waits or ends. @pre not ended, not running.
  void run();
  /// Goes back to whoever called `run`, from inside. When the fiber is being unwound this throws
  /// `forced_unwind`, or returns false where that must not be: in a destructor that waits, or once
  /// it was thrown. True otherwise.
  bool suspend();
  /// Has the body end now, from outside: see `suspend`. Drops a body that never ran. Aborts, naming
  /// the fiber, when the body does not end within 100,000 waits.
  void unwind();

  bool ended() const { return ended_; }
  bool unwinding() const { return unwinding_; }
  const std::string& name() const { return name_; }
  /// The exception that the body threw.
  std::exception_ptr error() const { return error_; }
  /// The fiber that runs now on this thread; null outside.
  static fiber* current();

private:
  struct machine;
  void body_on_stack();
  bool throws_here() const;

  std::string name_;
  std::function<void()> body_;
  std::unique_ptr<machine> machine_;
  execution_context context_{};
  std::exception_ptr error_{};
  std::uint32_t waits_while_unwinding_ = 0;
  bool ended_ = false;
  bool unwinding_ = false;
  bool thrown_ = false;
};

} // namespace troupe::sim
