#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include <troupe/strategies/parameter_server/step_arguments.hpp>

/// Steps: functions that travel by name. A step's parameter type decides what travels and what the
/// caller may pass:
///   T, const T&            the value by cereal; also a remote_value<T>, sent once it has arrived
///   dataset_iterator&      a per_worker<dataset_iterator>: the executing worker's own
///   const dataset&         a per_worker<dataset>
///   per_worker_value<T>&   a per_worker<per_worker_value<T>>; the step has it for itself
///   variable, variable_list    by id
/// A nest of them (vectors, maps with plain keys, tuples, pairs, arrays) takes the same nest of
/// what its parts take: a std::map<std::string, float> one of remote_value<float>, a
/// std::vector<std::reference_wrapper<dataset_iterator>> one of per_worker<dataset_iterator>, a
/// std::tuple<per_worker_value<T>&, float> a tuple of a per_worker and a number.
/// Results and arguments pass through bytes in one process too, so a type that cannot travel fails
/// to compile everywhere; tensors in them are handed over.
namespace troupe {

namespace detail {

// --- running a call
// ---------------------------------------------------------------------------------------------

template <class R, class... Ps>
payload invoke_step(R (*fn)(worker_context&, Ps...), step_host& host, const payload& arguments) {
  worker_context ctx{host};
  call_reader in{arguments};
  std::tuple<typename parameter<Ps>::held...> held{
    parameter<Ps>::take(in, ctx)...}; // braces: left to right
  const auto hold = in.exclusive().empty() ? nullptr : host.hold(in.exclusive());
  plain_writer out;
  std::apply(
    [&](auto&... xs) {
      if constexpr (std::is_void_v<R>)
        fn(ctx, parameter<Ps>::pass(xs)...);
      else
        out(fn(ctx, parameter<Ps>::pass(xs)...));
    },
    held);
  return std::move(out.out);
}

template <class R, class... Ps>
function_entry step_entry(std::string name, R (*fn)(worker_context&, Ps...)) {
  return {.name = std::move(name),
          .signature = readable_name(typeid(R(Ps...))),
          .invoke = [fn](step_host& host,
                         const payload& arguments) { return invoke_step(fn, host, arguments); },
          .make = {}};
}

template <class R, class... Ps>
bool register_function(std::string name, R (*fn)(worker_context&, Ps...)) {
  function_table::global().add(step_entry(std::move(name), fn), reinterpret_cast<const void*>(fn));
  return true;
}

template <class F>
concept captureless = std::is_empty_v<F> && std::is_default_constructible_v<F>;

/// A captureless lambda is a type: its instance here exists in every process of the same binary and
/// registers itself before main. The table gives its name, found by `key`: the type's own name can
/// stand for several lambdas, in functions that only their files see.
template <class F>
struct lambda_step {
  static bool add() {
    function_table::global().add_unnamed(step_entry(typeid(F).name(), +F{}), key());
    return true;
  }
  static inline const bool registered = add();
  static const void* key() { return &registered; }
};

/// Registers a captureless lambda that builds a T on each worker, as `lambda_step` does for steps.
template <class F>
struct lambda_resource {
  using made = std::decay_t<std::invoke_result_t<F>>;
  static bool add() {
    function_table::global().add_unnamed(
      {.name = typeid(F).name(),
       .signature = readable_name(typeid(made())),
       .invoke = {},
       .make =
         [](step_host&, const payload&) {
           return resource{std::make_shared<made>(F{}()), &typeid(made)};
         }},
      key());
    return true;
  }
  static inline const bool registered = add();
  static const void* key() { return &registered; }
};

} // namespace detail

} // namespace troupe

#define TROUPE_JOIN_(a, b) a##b
#define TROUPE_JOIN(a, b) TROUPE_JOIN_(a, b)

/// Makes a function schedulable: `TROUPE_FUNCTION(train_step);` once, at namespace scope, in a
/// source file.
#define TROUPE_FUNCTION(fn)                                                         \
  [[maybe_unused]] static const bool TROUPE_JOIN(troupe_registered_, __COUNTER__) = \
    ::troupe::detail::register_function(#fn, &fn)
