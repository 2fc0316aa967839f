#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <troupe/actors/coordinator/closure.hpp>
#include <troupe/core/limits.hpp>
#include <troupe/strategies/parameter_server/function.hpp>
#include <troupe/strategies/parameter_server/parameter_server_strategy.hpp>
#include <troupe/strategies/parameter_server/save_options.hpp>
#include <troupe/strategies/runtime/remote_value.hpp>

namespace troupe {

namespace detail {
class coordinator_front;
}

/// Totals of a server since it started.
struct server_totals {
  std::uint32_t server = 0;
  std::uint64_t shards = 0;
  std::uint64_t bytes = 0;
  std::uint64_t pushes_applied = 0;
  std::uint64_t duplicates = 0;
  std::uint64_t refused = 0;
};

/// Counts of closures since the coordinator started, and of each server.
struct coordinator_statistics {
  std::uint64_t scheduled = 0;
  std::uint64_t finished = 0;
  std::uint64_t failed = 0;
  std::uint64_t cancelled = 0;
  std::uint64_t retried = 0; ///< closures that came back from a worker and ran again
  std::uint64_t fenced = 0;  ///< incarnations that were lost without leaving
  std::vector<server_totals> servers{};
};

/// A live worker as the coordinator sees it.
struct worker_line {
  std::uint32_t worker = 0;
  std::uint32_t incarnation = 0;
  std::size_t in_flight = 0;
  bool stuck = false; ///< its step has not entered Troupe for very long
};

/// A dataset on every worker. Each worker holds the whole dataset: nothing is divided between
/// workers.
class per_worker_dataset {
public:
  per_worker_dataset(per_worker<dataset> built, std::shared_ptr<detail::coordinator_front> front)
    : built_{std::move(built)}, front_{std::move(front)} {}
  /// Makes an iterator on every worker, at the first element. An iterator that is built again after
  /// its worker was lost begins at the first element too. Throws as `create_per_worker_dataset`.
  per_worker<dataset_iterator> iterator() const;
  /// The datasets as an argument of `schedule`, for a `const dataset&` parameter of the step.
  const per_worker<dataset>& build() const { return built_; }

private:
  per_worker<dataset> built_;
  std::shared_ptr<detail::coordinator_front> front_;
};

/// Schedules closures on the cluster's workers. A handle; all handles of one strategy are the same
/// coordinator. Any of the program's threads, not inside a step.
///
/// Calls that wait take a deadline and default to none, but throw `unavailable` after
/// `runtime_options::no_worker_ms_max` (ten minutes) without any live worker, and when the runtime
/// has ended. Errors of closures are raised once, the first one, by the next `schedule`, `join` or
/// `done`: that call cancels what is queued or running, waits until nothing runs, and throws; after
/// that the coordinator can be used again.
class cluster_coordinator {
public:
  /// The coordinator of `strategy`.
  explicit cluster_coordinator(parameter_server_strategy& strategy);

  /// Queues a call of a TROUPE_FUNCTION, or of a captureless lambda `[](worker_context&, ...)`. Any
  /// worker may run it, at least once, with effect once. function.hpp lists what a parameter type
  /// takes. Waits while the queue is full, and while another thread is inside `join`.
  ///
  /// Throws the first error of earlier closures, and then does not queue the call; `not_registered`
  /// for a function without TROUPE_FUNCTION; `out_of_range` for `closure_options::worker` that no
  /// worker has; `invalid_argument` for a priority outside -3 to 3; `unavailable`.
  template <class R, class... Ps, class... As>
  remote_value<R> schedule(R (*fn)(worker_context&, Ps...), As&&... as) {
    return schedule(closure_options{}, fn, std::forward<As>(as)...);
  }
  template <class R, class... Ps, class... As>
  remote_value<R> schedule(const closure_options& options, R (*fn)(worker_context&, Ps...),
                           As&&... as) {
    auto call = detail::encode_call<Ps...>(
      name_of(reinterpret_cast<const void*>(fn), typeid(R(worker_context&, Ps...))),
      std::forward<As>(as)...);
    return remote_value<R>{put(std::move(call), options)};
  }
  template <detail::captureless F, class... As>
  auto schedule(F f, As&&... as) {
    return schedule(closure_options{}, f, std::forward<As>(as)...);
  }
  template <detail::captureless F, class... As>
  auto schedule(const closure_options& options, F, As&&... as) {
    return schedule_lambda(options, +F{}, detail::lambda_step<F>::key(), std::forward<As>(as)...);
  }

  /// Waits until every closure has ended. Throws the first error of a closure since the last throw;
  /// `unavailable`. Datasets and other per-worker resources are not waited for.
  void join();
  /// `join` that throws `deadline` when `timeout` passes first. Closures go on then.
  void join(duration timeout);
  /// Whether nothing is queued or running. Returns at once, unless a closure failed: then the call
  /// throws the first error as `join` does, once the running closures have ended.
  bool done();
  /// The latest 256 errors, oldest first, raised or not; also of datasets and other per-worker
  /// resources, which are never raised by themselves. Never waits.
  std::vector<failure> errors() const;

  /// Has every worker, also one that joins later, build the dataset with a captureless function. A
  /// failure on a worker stands in `errors()`; a closure that takes the dataset fails as
  /// `input_failed`. Throws `not_registered`, `unavailable`, `deadline`.
  template <detail::captureless F>
  requires std::is_same_v<std::invoke_result_t<F>, dataset> per_worker_dataset
  create_per_worker_dataset(F) {
    return per_worker_dataset{make_resource<dataset>(detail::lambda_resource<F>::key()), front_};
  }
  /// Has every worker, also one that joins later, build a value of its own, which steps take as
  /// `per_worker_value<T>&`. Throws as `create_per_worker_dataset`.
  template <detail::captureless F>
  auto create_per_worker_value(F) {
    using value = per_worker_value<std::invoke_result_t<F>>;
    return make_resource<value>(detail::lambda_resource<value_maker<F>>::key());
  }

  /// The values of the remote values in `x`: waits for each. Other values are returned as they are;
  /// vectors, arrays, maps, pairs and tuples keep their form. Throws as `remote_value::fetch`.
  template <class T>
  T fetch(const remote_value<T>& x) {
    return x.fetch();
  }
  template <class T>
  auto fetch(const std::vector<T>& xs) {
    std::vector<decltype(fetch(xs.front()))> out;
    out.reserve(xs.size());
    for (const auto& x : xs)
      out.push_back(fetch(x));
    return out;
  }
  template <class T, std::size_t N>
  auto fetch(const std::array<T, N>& xs) {
    return std::apply(
      [this](const auto&... each) {
        return std::array<decltype(this->fetch(std::declval<const T&>())), N>{this->fetch(each)...};
      },
      xs);
  }
  template <class K, class T>
  auto fetch(const std::map<K, T>& xs) {
    std::map<K, decltype(fetch(xs.begin()->second))> out;
    for (const auto& [key, each] : xs)
      out.emplace(key, fetch(each));
    return out;
  }
  template <class... Ts>
  auto fetch(const std::tuple<Ts...>& xs) {
    return std::apply([this](const auto&... ys) { return std::make_tuple(this->fetch(ys)...); },
                      xs);
  }
  template <class A, class B>
  auto fetch(const std::pair<A, B>& x) {
    return std::make_pair(fetch(x.first), fetch(x.second));
  }
  template <class T>
  T fetch(const T& x) {
    return x;
  }

  /// Writes a consistent checkpoint of all variables into `directory`: running closures end first,
  /// queued ones wait meanwhile. Returns the checkpoint's path. The one before stays until this one
  /// is complete. Throws `invalid_argument` for an empty directory or `keep` 0; `deadline` when
  /// `options.deadline` passes before the snapshot is taken, or a running closure shows no progress
  /// for `runtime_options::quiesce_ms_max`; `unavailable` naming a server that is lost;
  /// `io_failed`, `no_space` naming the path.
  std::string save(const std::string& directory, const save_options& options = {});
  /// Takes values, optimizer slots and step counts from the newest whole checkpoint of `directory`,
  /// into any number of shards and servers. A variable that is made later gets its part when it is
  /// made. Returns a line "path: reason" for each newer checkpoint that is damaged. Throws
  /// `invalid_argument` for an empty directory; `not_found` without any checkpoint; `corrupt` when
  /// none is whole; `mismatch` naming a variable that is missing there, or of another shape, dtype
  /// or optimizer, before any variable has changed.
  std::vector<std::string> restore(const std::string& directory);

  /// Counts of closures and totals of the servers. Asks the servers. Throws `deadline`,
  /// `unavailable`.
  coordinator_statistics statistics() const;
  /// The live workers. Throws `deadline`, `unavailable`.
  std::vector<worker_line> workers() const;

private:
  friend class per_worker_dataset;
  template <class F>
  struct value_maker {
    per_worker_value<std::invoke_result_t<F>> operator()() const { return {F{}()}; }
  };
  template <class R, class... Ps, class... As>
  remote_value<R> schedule_lambda(const closure_options& options, R (*)(worker_context&, Ps...),
                                  const void* key, As&&... as) {
    auto name = name_of(key, typeid(R(worker_context&, Ps...)));
    return remote_value<R>{put(detail::encode_call<Ps...>(name, std::forward<As>(as)...), options)};
  }
  /// @param type of the function, for the error of one that is not registered
  static std::string_view name_of(const void* address, const std::type_info& type);
  remote_handle put(detail::call call, const closure_options& options);
  std::pair<resource_id, std::shared_ptr<resource_lease>> add_resource(const void* function);
  std::shared_ptr<coordinator_client> owner() const;
  template <class T>
  per_worker<T> make_resource(const void* function) {
    auto [id, lease] = add_resource(function);
    return per_worker<T>{id, owner(), std::move(lease)};
  }
  std::shared_ptr<detail::coordinator_front> front_;
};

} // namespace troupe
