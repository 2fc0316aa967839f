#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include <cereal/types/array.hpp>

#include <troupe/core/function_registry.hpp>
#include <troupe/core/readable_name.hpp>
#include <troupe/data/iterator.hpp>
#include <troupe/strategies/parameter_server/per_worker.hpp>
#include <troupe/strategies/parameter_server/variable.hpp>
#include <troupe/strategies/parameter_server/worker_context.hpp>
#include <troupe/strategies/runtime/remote_value.hpp>

/// How the arguments of a step travel: what function.hpp says of them. Bytes of a call:
///   call      := 0 part*                                   without remote values
///              | 1 inputs:u32 string(marked*) input*       with them (`bind_inputs`)
///   marked    := 0 part | 1 (the next input) | 2 (a nest in pieces: its size, keys and marked*)
///   part      := a value by cereal, or the id of a resource or variable
/// A nest that holds resources or variables is in pieces always, and has no mark of its own.
namespace troupe::detail {

// --- nests: vectors, maps, and what has a fixed number of parts (tuples, pairs, arrays)

enum class nest_form : std::uint8_t { leaf, list, map, fixed };

template <class X>
struct nest_of {
  static constexpr auto form = nest_form::leaf;
};
template <class T>
struct nest_of<std::vector<T>> {
  static constexpr auto form = nest_form::list;
};
template <class K, class T>
struct nest_of<std::map<K, T>> {
  static constexpr auto form = nest_form::map;
};
template <class... Ts>
struct nest_of<std::tuple<Ts...>> {
  static constexpr auto form = nest_form::fixed;
};
template <class A, class B>
struct nest_of<std::pair<A, B>> {
  static constexpr auto form = nest_form::fixed;
};
template <class T, std::size_t N>
struct nest_of<std::array<T, N>> {
  static constexpr auto form = nest_form::fixed;
};

template <class X>
inline constexpr auto form_of = nest_of<std::decay_t<X>>::form;

/// Whether Holds<leaf> is true of a leaf anywhere in X; the leaves of tuples may be references.
template <template <class> class Holds, class X>
constexpr bool any_leaf() {
  using plain = std::decay_t<X>;
  if constexpr (Holds<X>::value || form_of<X> == nest_form::leaf)
    return Holds<X>::value;
  else if constexpr (form_of<X> == nest_form::list)
    return any_leaf<Holds, typename plain::value_type>();
  else if constexpr (form_of<X> == nest_form::map)
    return any_leaf<Holds, typename plain::mapped_type>();
  else
    return []<std::size_t... Is>(std::index_sequence<Is...>) {
      return (any_leaf<Holds, std::tuple_element_t<Is, plain>>() || ...);
    }
  (std::make_index_sequence<std::tuple_size_v<plain>>{});
}

template <class A>
struct is_remote_type : std::false_type {};
template <class T>
struct is_remote_type<remote_value<T>> : std::true_type {};
template <class A>
struct is_remote : is_remote_type<std::decay_t<A>> {};
/// Whether an argument that a caller passes holds a remote value anywhere.
template <class A>
inline constexpr bool holds_remote = any_leaf<is_remote, A>();

// --- reading a call

/// Arguments of a call: in one string, or with inputs.
class call_reader {
public:
  explicit call_reader(const payload& call);

  /// The next argument, or piece of one.
  template <class T>
  T take() {
    switch (next_mark()) {
      case mark::whole: return raw<T>();
      case mark::input: {
        T out{};
        const auto& from = next_input();
        checked_reader in{from.bytes, from.tensors};
        in(out);
        return out;
      }
      case mark::pieces: break;
    }
    if constexpr (form_of<T> == nest_form::leaf)
      throw std::length_error(
        "malformed call: a value without elements was sent element by element");
    else
      return pieces<T>([this]<class X>(std::type_identity<X>) { return this->template take<X>(); });
  }
  /// The next value that has no mark.
  template <class T>
  T raw() {
    T out{};
    (*main_)(out);
    return out;
  }
  /// A nest in pieces, each made by `piece(std::type_identity<X>)` in turn.
  template <class T, class Piece>
  T pieces(Piece piece);

  /// Resources that the step is to have for itself.
  void note_exclusive(resource_id id) { exclusive_.push_back(id); }
  const std::vector<resource_id>& exclusive() const { return exclusive_; }

private:
  enum class mark : std::uint8_t { whole = 0, input = 1, pieces = 2 };
  struct input {
    std::string bytes{};
    std::span<const tensor> tensors{};
  };
  mark next_mark(); // `whole` in calls without marks
  const input& next_input();
  std::size_t next_size();

  bool has_marks_ = false;
  std::string own_bytes_{};
  std::vector<input> inputs_{};
  std::size_t next_input_ = 0;
  std::vector<resource_id> exclusive_{};
  std::unique_ptr<checked_reader> main_{};
};

template <class T, class Piece>
T call_reader::pieces(Piece piece) {
  if constexpr (form_of<T> == nest_form::list) {
    T out;
    for (auto left = next_size(); left > 0; --left)
      out.push_back(piece(std::type_identity<typename T::value_type>{}));
    return out;
  } else if constexpr (form_of<T> == nest_form::map) {
    T out;
    for (auto left = next_size(); left > 0; --left) {
      auto key = raw<typename T::key_type>();
      out.emplace(std::move(key), piece(std::type_identity<typename T::mapped_type>{}));
    }
    return out;
  } else {
    return [&]<std::size_t... Is>(std::index_sequence<Is...>) {
      return T{piece(std::type_identity<std::tuple_element_t<Is, T>>{})...}; // left to right
    }
    (std::make_index_sequence<std::tuple_size_v<T>>{});
  }
}

template <class T>
T& resource_as(worker_context& ctx, resource_id id) {
  auto& r = ctx.host().resource_of(id);
  if (!r.type || *r.type != typeid(T))
    throw_failure(errc::invalid_argument, "resource " + std::to_string(value_of(id)) + " is not a "
                                            + readable_name(typeid(T)));
  return *static_cast<T*>(r.object.get());
}

// --- what of a step's parameter is the executing worker's own

/// R, when P is a reference to such an object: `dataset_iterator&`, or a wrapper of it in a nest.
template <class P>
struct resource_behind {
  using type = void;
};
template <>
struct resource_behind<dataset_iterator&> {
  using type = dataset_iterator;
};
template <>
struct resource_behind<const dataset&> {
  using type = const dataset;
};
template <class T>
struct resource_behind<per_worker_value<T>&> {
  using type = per_worker_value<T>;
};
template <class R>
struct resource_behind<std::reference_wrapper<R>> : resource_behind<R&> {};
template <class P>
using resource_behind_t =
  typename resource_behind<std::conditional_t<std::is_reference_v<P>, P, std::decay_t<P>>>::type;

template <class P>
inline constexpr bool is_resource = !std::is_void_v<resource_behind_t<P>>;
template <class P>
inline constexpr bool is_variable =
  std::is_same_v<std::decay_t<P>, variable> || std::is_same_v<std::decay_t<P>, variable_list>;
template <class P>
struct is_component : std::bool_constant<is_resource<P> || is_variable<P>> {};
/// Whether P is a nest that holds resources or variables: such a nest always travels in pieces.
template <class P>
inline constexpr bool is_nest_of_components =
  !is_component<P>::value && form_of<P> != nest_form::leaf && any_leaf<is_component, P>();

template <class T>
struct is_per_worker_value : std::false_type {};
template <class T>
struct is_per_worker_value<per_worker_value<T>> : std::true_type {};

template <class R>
R& take_resource(call_reader& in, worker_context& ctx) {
  const auto id = in.take<resource_id>();
  if constexpr (is_per_worker_value<R>::value)
    in.note_exclusive(id);
  return resource_as<std::remove_const_t<R>>(ctx, id);
}

/// Reads the next argument for a parameter X, or for a part X of a nest.
template <class X>
decltype(auto) take_part(call_reader& in, worker_context& ctx) {
  using plain = std::decay_t<X>;
  if constexpr (is_resource<X>)
    return take_resource<resource_behind_t<X>>(in, ctx);
  else if constexpr (std::is_same_v<plain, variable>)
    return variable_in_step(ctx, in.take<variable_id>());
  else if constexpr (std::is_same_v<plain, variable_list>) {
    variable_list out;
    for (auto id : in.take<std::vector<variable_id>>())
      out.push_back(variable_in_step(ctx, id));
    return out;
  } else if constexpr (is_nest_of_components<X>)
    return in.pieces<plain>(
      [&]<class Y>(std::type_identity<Y>) -> decltype(auto) { return take_part<Y>(in, ctx); });
  else
    return in.take<plain>();
}

/// How parameter type P is held while the step runs: resources as pointers.
template <class P>
struct parameter {
  static constexpr bool by_pointer = is_resource<P> && std::is_reference_v<P>;
  using held = std::conditional_t<by_pointer, std::remove_reference_t<P>*, std::decay_t<P>>;
  static held take(call_reader& in, worker_context& ctx) {
    if constexpr (by_pointer)
      return &take_part<P>(in, ctx);
    else
      return take_part<P>(in, ctx);
  }
  static auto& pass(held& x) {
    if constexpr (by_pointer)
      return *x;
    else
      return x;
  }
};

// --- writing a call

/// A call ready to be queued.
struct call {
  function_index function{};
  std::shared_ptr<const payload> arguments{};
  std::vector<std::shared_ptr<remote_state>> inputs{};
  std::vector<std::shared_ptr<const void>> keeps{};
};

/// Writes a caller's arguments as they travel.
class call_writer {
public:
  call_writer(call& to, bool with_marks) : call_{to}, with_marks_{with_marks} {
    if (!with_marks_)
      bytes_(std::uint8_t{0});
  }

  template <class P, class A>
  void put(A&& a);
  void finish();

private:
  void mark(std::uint8_t what) {
    if (with_marks_)
      bytes_(what);
  }
  void size(std::size_t n) { bytes_(cereal::make_size_tag(static_cast<cereal::size_type>(n))); }
  template <class P, class A>
  void put_whole(A&& a);
  template <class Nest, class A>
  void put_pieces(const A& a);

  call& call_;
  const bool with_marks_;
  plain_writer bytes_{};
};

template <class P, class A>
void call_writer::put(A&& a) {
  using plain = std::decay_t<P>;
  using given = std::decay_t<A>;
  if constexpr (is_remote<given>::value) {
    static_assert(std::is_same_v<given, remote_value<plain>>,
                  "schedule: pass a remote_value<T> for a parameter of type T");
    mark(1);
    call_.inputs.push_back(a.handle().state());
  } else if constexpr (is_nest_of_components<P>) {
    put_pieces<plain>(a);
  } else if constexpr (holds_remote<given>) {
    mark(2);
    put_pieces<plain>(a);
  } else {
    mark(0);
    if constexpr (requires { a.lease(); })
      call_.keeps.push_back(a.lease());
    put_whole<P>(std::forward<A>(a));
  }
}

template <class P, class A>
void call_writer::put_whole(A&& a) {
  using plain = std::decay_t<P>;
  using given = std::decay_t<A>;
  if constexpr (is_resource<P>) {
    static_assert(std::is_same_v<given, per_worker<std::remove_const_t<resource_behind_t<P>>>>,
                  "schedule: a per-worker parameter takes a per-worker argument: data.iterator() "
                  "for dataset_iterator&, data.build() for const dataset&, "
                  "create_per_worker_value() for per_worker_value<T>&");
    bytes_(a.id());
  } else if constexpr (std::is_lvalue_reference_v<
                         P> && !std::is_const_v<std::remove_reference_t<P>>) {
    static_assert(is_resource<P>,
                  "schedule: a non-const reference parameter takes a per_worker value");
  } else if constexpr (std::is_same_v<plain, variable>) {
    bytes_(static_cast<const variable&>(a).id());
  } else if constexpr (std::is_same_v<plain, variable_list>) {
    std::vector<variable_id> ids;
    for (const variable& v : static_cast<const variable_list&>(a))
      ids.push_back(v.id());
    bytes_(ids);
  } else {
    plain value = plain(std::forward<A>(a)); // converted to the step's own type, here and once
    bytes_(value);
  }
}

template <class Nest, class A>
void call_writer::put_pieces(const A& a) {
  static_assert(
    form_of<Nest> != nest_form::leaf && form_of<Nest> == form_of<A>,
    "schedule: an argument with nested remote or per-worker values must have the structure of the "
    "parameter: vector for vector, map for map, and a tuple, pair or array with as many elements");
  if constexpr (form_of<Nest> == nest_form::list) {
    size(a.size());
    for (const auto& each : a)
      put<typename Nest::value_type>(each);
  } else if constexpr (form_of<Nest> == nest_form::map) {
    size(a.size());
    for (const auto& [key, each] : a) {
      auto own_key = typename Nest::key_type(key);
      bytes_(own_key);
      put<typename Nest::mapped_type>(each);
    }
  } else {
    static_assert(std::tuple_size_v<Nest> == std::tuple_size_v<A>,
                  "schedule: the tuple and the parameter have different numbers of elements");
    [&]<std::size_t... Is>(std::index_sequence<Is...>) {
      (put<std::tuple_element_t<Is, Nest>>(std::get<Is>(a)), ...);
    }
    (std::make_index_sequence<std::tuple_size_v<Nest>>{});
  }
}

template <class... Ps, class... As>
call encode_call(std::string_view name, As&&... as) {
  static_assert(sizeof...(Ps) == sizeof...(As),
                "schedule: wrong number of arguments for this step");
  call out{.function = function_table::global().index_of(name)};
  call_writer to{out, (holds_remote<As> || ...)};
  (to.put<Ps>(std::forward<As>(as)), ...);
  to.finish();
  return out;
}

} // namespace troupe::detail
