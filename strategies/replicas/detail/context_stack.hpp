#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <troupe/core/execution_context.hpp>

namespace troupe {
class replica_context;
} // namespace troupe

/// The stack of contexts of a thread: who runs there, as whom. An empty stack means the default
/// strategy's replica context. The frames stand on the thread's own stack, or in a scope object.
namespace troupe::detail {

class replica_engine;
struct scoped_creator; // variables/scopes.hpp

enum class context_kind : std::uint8_t {
  scope = 0,         ///< cross-replica context by `scope`
  cross_replica = 1, ///< a merge function, or a call that opens the scope by itself
  replica = 2,
  update = 3,  ///< cross-replica context, for component `update_index`
  device = 4,  ///< only the default device changes
  creator = 5, ///< only who makes variables changes
  names = 6    ///< only the names of variables change
};

struct context_frame {
  context_kind kind = context_kind::scope;
  std::shared_ptr<replica_engine> strategy{};
  replica_context* replica = nullptr;
  std::uint32_t update_index = 0;
  /// The device; the name. Of a replica and of cross-replica context: all names around it,
  /// "main/foo/", for what is outside it stands on another thread's stack.
  std::string text{};
  std::shared_ptr<const scoped_creator> creator{};
  std::optional<std::uint32_t> logical{}; ///< the logical device for variables
  context_frame* outer = nullptr;
};

inline context_frame* innermost_frame() { return context_local<context_frame>(); }

/// The innermost frame that says who runs; null: nobody, and the default strategy's replica.
inline context_frame* innermost_mode() {
  auto* at = innermost_frame();
  while (at && at->kind >= context_kind::device)
    at = at->outer;
  return at;
}

inline void push_frame(context_frame& frame) {
  frame.outer = innermost_frame();
  (void)exchange_context_local(&frame);
}

/// Takes `frame` away. @pre it is the innermost
inline void pop_frame(context_frame& frame) { (void)exchange_context_local(frame.outer); }

/// Takes a frame away wherever it stands on this thread's stack, if it does.
void drop_frame(context_frame& frame);

/// The names of this thread alone, and the frame that says what stands around it, if any.
std::pair<std::string, const context_frame*> own_names();

/// The prefix of the names of variables made here: "main/foo/".
std::string name_prefix();

/// A frame for the length of a block.
class frame_here {
public:
  explicit frame_here(context_frame frame) : frame_{std::move(frame)} { push_frame(frame_); }
  ~frame_here() { (void)exchange_context_local(frame_.outer); }
  frame_here(const frame_here&) = delete;
  frame_here& operator=(const frame_here&) = delete;
  context_frame& operator*() { return frame_; }

private:
  context_frame frame_;
};

} // namespace troupe::detail
