#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <troupe/strategies/cluster/cluster_spec.hpp>
#include <troupe/strategies/input/distributed_dataset.hpp>
#include <troupe/strategies/input/numpy_dataset.hpp>
#include <troupe/strategies/replicas/strategy.hpp>

/// The calls of `tf.compat.v1.distribute`'s strategies by their old names, for programs that are
/// brought over. Each comment says what is used instead in new ones. The step-loop helper is
/// `strategy_extended`'s.
namespace troupe::compat_v1 {

namespace detail {
class input_feed;
}

/// Input that is pulled step by step and can begin again. A handle; one thread at a time, outside
/// replicas. New programs take a `distributed_iterator`.
class input_iterator {
public:
  explicit input_iterator(std::unique_ptr<detail::input_feed> feed);
  ~input_iterator();
  input_iterator(input_iterator&&) noexcept;
  input_iterator& operator=(input_iterator&&) noexcept;

  /// Begins the next pass over the data; nothing where none of this one was taken. An iterator is
  /// made initialized.
  void initialize();
  /// The next step's input; throws `end_of_data` at the end, again at each further call.
  distributed_batch get_next();

private:
  std::unique_ptr<detail::input_feed> feed_;
  std::uint64_t pass_ = 0;
  bool taken_ = false;
};

/// An iterator of `distribute_dataset(s, global_batches, options)`.
input_iterator make_dataset_iterator(const strategy& s, const dataset& global_batches,
                                     distribute_options options = {});

namespace detail {

using dataset_function = std::function<dataset(const input_context&)>;
/// Gives one element a call; throws `end_of_data` to end.
using generator = std::function<element()>;

input_iterator from_datasets(const strategy& s, dataset_function f, input_replication mode);
input_iterator from_generators(const strategy& s, std::function<generator(const input_context&)> f,
                               input_replication mode);

} // namespace detail

/// Calls `f(input_context)` once a worker; `invalid_argument` for another `mode`. `f` returns the
/// dataset of per-replica batches that the worker's replicas take in turn, or a callable that is
/// asked for an `element` once a device and step, in order, until it throws `end_of_data`;
/// `initialize` then calls `f` again. Anything else does not compile. With several workers,
/// callables end all when the first has ended. New programs call
/// `distribute_datasets_from_function`.
template <class F>
input_iterator make_input_fn_iterator(const strategy& s, F f,
                                      input_replication mode = input_replication::per_worker) {
  using R = std::invoke_result_t<F&, const input_context&>;
  if constexpr (std::is_convertible_v<R, dataset>) {
    return detail::from_datasets(s, std::move(f), mode);
  } else {
    static_assert(std::is_invocable_r_v<element, R&>,
                  "make_input_fn_iterator: f must return a dataset, or a callable for elements");
    return detail::from_generators(s, std::move(f), mode);
  }
}

/// `s.run(f)` in the scope, on the iterator's next input.
template <class S, class F>
requires std::is_base_of_v<strategy, S>
auto experimental_run(const S& s, F f, input_iterator& input) {
  return s.scope([&] { return s.run(std::move(f), input.get_next()); });
}
/// `s.run(f)` in the scope, without inputs.
template <class S, class F>
requires std::is_base_of_v<strategy, S>
auto experimental_run(const S& s, F f) {
  return s.scope([&] { return s.run(std::move(f)); });
}
/// `s.run(f, args...)`.
template <class S, class F, class... Args>
requires std::is_base_of_v<strategy, S>
auto experimental_run_v2(const S& s, F f, Args... args) {
  return s.run(std::move(f), std::move(args)...);
}

/// `distribute_datasets_from_function`.
distributed_dataset experimental_distribute_datasets_from_function(
  const strategy& s, std::function<dataset(const input_context&)> function,
  distribute_options options = {});

/// `make_numpy_dataset`; a list of arrays that is one array goes through `stacked` first.
dataset experimental_make_numpy_dataset(const strategy& s, const std::vector<tensor>& arrays);

/// The fields that v1 strategies set in a session's configuration. Troupe has no sessions: the
/// fields tell a program that is brought over what holds here anyway.
struct session_config {
  /// Variables of one program are not another's: so are those of every `runtime`.
  bool isolate_session_state = false;
  /// The task that brings the group together, "/job:worker/replica:0/task:0"; the workers' links
  /// find it in the cluster.
  std::string collective_leader{};
  /// Calls whose buffers lie together: `replica_context::apply` puts gradients into buckets.
  std::vector<std::string> scoped_allocator_ops{};
  /// Tasks that a process speaks with, "/job:worker/task:1".
  std::vector<std::string> device_filters{};
  cluster_spec cluster{};
  friend bool operator==(const session_config&, const session_config&) = default;
};

/// A changed copy of `config`. Mirrored, central-storage: isolated. Multi-worker: the leader is
/// that of `cluster`, or worker 0 without one; all-reduces share an allocator; the filter lets
/// through this process alone. A TPU slice: isolated, with `cluster`. Others: no change. `own` is
/// this process's place in `cluster`; without a type, this worker's number. Throws
/// `invalid_argument` for a place that is not in the cluster.
session_config update_config(const strategy& s, const session_config& config,
                             const cluster_spec& cluster = {}, const own_task& own = {});

/// Does nothing.
template <class... Args>
[[deprecated("does nothing")]] void configure(const strategy&, const Args&...) {}

/// `s.local_results(x)`.
template <class X>
auto unwrap(const strategy& s, const X& x) {
  return s.local_results(x);
}

/// Waits for all local components: those that can be waited for (`wait()`, or `fetch()` as
/// `remote_value`) are, others are there already. A single component is returned as it is; of
/// several, nothing is returned. Throws what a wait throws, once all have ended.
template <class X>
auto group(const strategy& s, const X& x) {
  auto all = s.local_results(x);
  std::exception_ptr first{};
  for (const auto& each : all) {
    try {
      if constexpr (requires { each.wait(); })
        (void)each.wait();
      else if constexpr (requires { each.fetch(); })
        (void)each.fetch();
    } catch (...) {
      if (!first)
        first = std::current_exception();
    }
  }
  if (first)
    std::rethrow_exception(first);
  using R = typename decltype(all)::value_type;
  return all.size() == 1 ? std::optional<R>{std::move(all[0])} : std::nullopt;
}

} // namespace troupe::compat_v1
