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

struct coordinator_statistics {
  std::uint64_t scheduled = 0;
  std::uint64_t finished = 0;
  std::uint64_t failed = 0;
  std::uint64_t cancelled = 0;
  std::uint64_t retried = 0; ///< closures that came back from a worker and ran again
  std::uint64_t fenced = 0;  ///< incarnations that were lost without leaving
  std::vector<server_totals> servers{};
};

struct worker_line {
  std::uint32_t worker = 0;
  std::uint32_t incarnation = 0;
  std::size_t in_flight = 0;
  bool stuck = false; ///< its step has not entered Troupe for very long
};

/// A dataset on every worker, each its own, whole (row PS-L4).
class per_worker_dataset {
public:
  per_worker_dataset(per_worker<dataset> built, std::shared_ptr<detail::coordinator_front> front)
    : built_{std::move(built)}, front_{std::move(front)} {}
  /// New iterators, at the beginning, one a worker (row PS-L7).
  per_worker<dataset_iterator> iterator() const;
  /// As an argument for a `const dataset&` parameter (row PS-L14).
  const per_worker<dataset>& build() const { return built_; }

private:
  per_worker<dataset> built_;
  std::shared_ptr<detail::coordinator_front> front_;
};

struct save_options {
  duration deadline{limits::save}; ///< until the cut is taken
  std::size_t keep = 2;            ///< checkpoints that stay in the directory; at least 1
};

/// Schedules closures on the cluster's workers. A handle; all handles of one strategy are the same
/// coordinator (row PS-A13). The program's threads; calls that wait take a deadline and default to
/// none, but raise `unavailable` after ten minutes without any live worker. Errors of closures are
/// raised once, the first one, by the next `schedule`, `join` or `done`.
class cluster_coordinator {
public:
  explicit cluster_coordinator(parameter_server_strategy& strategy);

  /// Queues a call of a TROUPE_FUNCTION, or of a captureless lambda `[](worker_context&, ...)`; any
  /// worker may run it, at least once, with effect once. Waits while the queue is full.
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

  /// Waits until everything scheduled has ended; raises the first error.
  void join();
  /// Throws `deadline` when `timeout` passes first.
  void join(duration timeout);
  /// Whether nothing is queued or running; raises the first error.
  bool done();
  /// Every error so far, raised or not, the latest 256.
  std::vector<failure> errors() const;

  /// Has every worker, also one that joins later, build the dataset with a captureless function.
  template <detail::captureless F>
  requires std::is_same_v<std::invoke_result_t<F>, dataset> per_worker_dataset
  create_per_worker_dataset(F) {
    return per_worker_dataset{make_resource<dataset>(detail::lambda_resource<F>::key()), front_};
  }
  /// A value of each worker's own, which steps take as `per_worker_value<T>&`.
  template <detail::captureless F>
  auto create_per_worker_value(F) {
    using value = per_worker_value<std::invoke_result_t<F>>;
    return make_resource<value>(detail::lambda_resource<value_maker<F>>::key());
  }

  /// A remote value's value; anything else as it is; inside vectors, arrays, maps, pairs and tuples
  /// too (row PS-D10).
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
  /// queued ones wait meanwhile. Returns the checkpoint's name. The one before stays until this one
  /// is complete.
  std::string save(const std::string& directory, const save_options& options = {});
  /// Takes values, optimizer slots and step counts from the newest good checkpoint, into any number
  /// of shards and servers. A variable that is made later gets its part when it is made (row
  /// PS-Y3). Names the refused checkpoints in the returned lines. Throws `not_found`.
  std::vector<std::string> restore(const std::string& directory);

  coordinator_statistics statistics() const;
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
  std::shared_ptr<cluster> owner() const;
  template <class T>
  per_worker<T> make_resource(const void* function) {
    auto [id, lease] = add_resource(function);
    return per_worker<T>{id, owner(), std::move(lease)};
  }
  std::shared_ptr<detail::coordinator_front> front_;
};

} // namespace troupe
