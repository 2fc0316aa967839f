#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include <troupe/core/function_registry.hpp>
#include <troupe/core/readable_name.hpp>
#include <troupe/data/iterator.hpp>
#include <troupe/strategies/per_worker.hpp>
#include <troupe/strategies/remote_value.hpp>
#include <troupe/strategies/variable.hpp>
#include <troupe/strategies/worker_context.hpp>

/// Steps: functions that travel by name. A step's parameter type decides what travels and what the
/// caller may pass:
///   T, const T&            the value by cereal; also a remote_value<T>, sent once it has arrived
///   dataset_iterator&      a per_worker<dataset_iterator>: the executing worker's own
///   const dataset&         a per_worker<dataset>
///   per_worker_value<T>&   a per_worker<per_worker_value<T>>
///   variable, variable_list    by id
/// Results and arguments pass through bytes in one process too, so a type that cannot travel fails
/// to compile everywhere; tensors in them are handed over.
namespace troupe {

namespace detail {

// --- reading a call
// ---------------------------------------------------------------------------------------------

/// Arguments of a call: in one string, or with inputs (`bind_inputs` in actors/closure.hpp has the
/// grammar).
class call_reader {
public:
  explicit call_reader(const payload& call);
  /// The next argument.
  template <class T>
  T take() {
    T out{};
    if (auto* from = next_source()) {
      checked_reader in{from->bytes, from->tensors};
      in(out);
    } else {
      (*main_)(out);
    }
    return out;
  }

private:
  struct input {
    std::string bytes{};
    std::span<const tensor> tensors{};
  };
  const input* next_source(); // null: the main string
  bool has_inputs_ = false;
  std::string own_bytes_{};
  std::vector<input> inputs_{};
  std::size_t next_input_ = 0;
  std::unique_ptr<checked_reader> main_{};
};

template <class T>
T& resource_as(worker_context& ctx, resource_id id) {
  auto& r = ctx.host().resource_of(id);
  if (!r.type || *r.type != typeid(T))
    throw_failure(errc::invalid_argument, "resource " + std::to_string(value_of(id)) + " is not a "
                                            + readable_name(typeid(T)));
  return *static_cast<T*>(r.object.get());
}

/// How parameter type P is held while the step runs.
template <class P>
struct parameter {
  using held = std::decay_t<P>;
  static held take(call_reader& in, worker_context&) { return in.take<held>(); }
  static held& pass(held& x) { return x; }
};
template <class T>
struct resource_parameter {
  using held = T*;
  static held take(call_reader& in, worker_context& ctx) {
    return &resource_as<T>(ctx, in.take<resource_id>());
  }
  static T& pass(held x) { return *x; }
};
template <>
struct parameter<dataset_iterator&> : resource_parameter<dataset_iterator> {};
template <>
struct parameter<const dataset&> : resource_parameter<dataset> {};
template <class T>
struct parameter<per_worker_value<T>&> : resource_parameter<per_worker_value<T>> {};
template <>
struct parameter<variable> {
  using held = variable;
  static held take(call_reader& in, worker_context& ctx) {
    return variable::on_worker(ctx, in.take<variable_id>());
  }
  static held& pass(held& x) { return x; }
};
template <>
struct parameter<const variable&> : parameter<variable> {};
template <>
struct parameter<variable_list> {
  using held = variable_list;
  static held take(call_reader& in, worker_context& ctx) {
    held out;
    for (auto id : in.take<std::vector<variable_id>>())
      out.push_back(variable::on_worker(ctx, id));
    return out;
  }
  static held& pass(held& x) { return x; }
};
template <>
struct parameter<const variable_list&> : parameter<variable_list> {};

// --- writing a call
// ---------------------------------------------------------------------------------------------

template <class A>
struct is_remote : std::false_type {};
template <class T>
struct is_remote<remote_value<T>> : std::true_type {};

/// What P's caller passed, as it travels.
template <class P, class A>
void put_argument(plain_writer& out, A&& a) {
  using plain = std::decay_t<P>;
  if constexpr (std::is_same_v<P, dataset_iterator&>) {
    static_assert(
      std::is_same_v<std::decay_t<A>, per_worker<dataset_iterator>>,
      "schedule: a dataset_iterator& parameter takes a per-worker iterator (data.iterator())");
    out(a.id());
  } else if constexpr (std::is_same_v<P, const dataset&>) {
    static_assert(std::is_same_v<std::decay_t<A>, per_worker<dataset>>,
                  "schedule: a const dataset& parameter takes a per-worker dataset");
    out(a.id());
  } else if constexpr (requires { typename parameter<P>::held; }
                       && std::is_lvalue_reference_v<
                         P> && !std::is_const_v<std::remove_reference_t<P>>) {
    static_assert(
      std::is_same_v<std::decay_t<A>, per_worker<plain>>,
      "schedule: a reference parameter that a step may change takes a per_worker value");
    out(a.id());
  } else if constexpr (std::is_same_v<plain, variable>) {
    out(static_cast<const variable&>(a).id());
  } else if constexpr (std::is_same_v<plain, variable_list>) {
    std::vector<variable_id> ids;
    for (const variable& v : static_cast<const variable_list&>(a))
      ids.push_back(v.id());
    out(ids);
  } else {
    plain value = plain(std::forward<A>(a)); // converted to the step's own type, here and once
    out(value);
  }
}

/// A call ready to be queued.
struct call {
  function_index function{};
  std::shared_ptr<const payload> arguments{};
  std::vector<std::shared_ptr<remote_state>> inputs{};
  std::vector<std::shared_ptr<const void>> keeps{};
};

template <class... Ps, class... As>
call encode_call(std::string_view name, As&&... as) {
  static_assert(sizeof...(Ps) == sizeof...(As),
                "schedule: wrong number of arguments for this step");
  call out{.function = function_table::global().index_of(name)};
  plain_writer bytes;
  constexpr bool with_inputs = (is_remote<std::decay_t<As>>::value || ...);
  if constexpr (!with_inputs)
    bytes(std::uint8_t{0});
  auto put = [&]<class P>(std::type_identity<P>, auto&& a) {
    using given = std::decay_t<decltype(a)>;
    if constexpr (is_remote<given>::value) {
      static_assert(std::is_same_v<given, remote_value<std::decay_t<P>>>,
                    "schedule: a remote_value<T> goes where the step takes a T");
      bytes(std::uint8_t{1});
      out.inputs.push_back(a.handle().state());
    } else {
      if constexpr (with_inputs)
        bytes(std::uint8_t{0});
      if constexpr (requires { a.lease(); })
        out.keeps.push_back(a.lease());
      put_argument<P>(bytes, std::forward<decltype(a)>(a));
    }
  };
  (void)put; // unused where the step takes nothing
  (put(std::type_identity<Ps>{}, std::forward<As>(as)), ...);
  out.arguments = std::make_shared<const payload>(std::move(bytes.out));
  return out;
}

// --- running a call
// ---------------------------------------------------------------------------------------------

template <class R, class... Ps>
payload invoke_step(R (*fn)(worker_context&, Ps...), step_host& host, const payload& arguments) {
  worker_context ctx{host};
  call_reader in{arguments};
  std::tuple<typename parameter<Ps>::held...> held{
    parameter<Ps>::take(in, ctx)...}; // braces: left to right
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

/// The same for a function that builds a T on each worker.
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
