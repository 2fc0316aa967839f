#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <troupe/core/error.hpp>

/// Values with one component a replica.
namespace troupe {

/// A value with one component for each local replica, in replica order. Mirrored: the components
/// are promised to be equal. As an argument of `strategy::run` each replica gets its own component.
/// A plain value; the components may share memory. A replica that had no data in a step has no
/// result: its component is empty, and reductions pass it over.
template <class T>
class per_replica {
public:
  using value_type = T;
  /// References to components must be real ones, which those of a vector of bool are not.
  using storage = std::conditional_t<std::is_same_v<T, bool>, std::deque<bool>, std::vector<T>>;

  per_replica() = default;
  explicit per_replica(std::vector<T> components, bool mirrored = false) : mirrored_{mirrored} {
    if constexpr (std::is_same_v<T, bool>)
      components_.assign(components.begin(), components.end());
    else
      components_ = std::move(components);
  }

  std::size_t size() const { return components_.size(); }
  bool is_mirrored() const { return mirrored_; }
  /// Whether replica `i` had no data, so that its component means nothing.
  bool is_absent(std::size_t i) const { return i < absent_.size() && absent_[i]; }
  /// Whether each replica had no data; empty: all had.
  const std::vector<bool>& absent() const { return absent_; }
  void set_absent(std::vector<bool> absent) { absent_ = std::move(absent); }
  /// The component of local replica `i`; throws `out_of_range`. A temporary gives its components by
  /// value, here and below.
  const T& operator[](std::size_t i) const& {
    check(i);
    return components_[i];
  }
  T& operator[](std::size_t i) & {
    check(i);
    return components_[i];
  }
  T operator[](std::size_t i) && {
    check(i);
    return std::move(components_[i]);
  }
  /// The components, in replica order.
  const storage& local_results() const& { return components_; }
  storage local_results() && { return std::move(components_); }
  auto begin() const { return components_.begin(); }
  auto end() const { return components_.end(); }

  /// The one value that all components are; throws `mismatch` when they differ.
  T as_single() && { return std::as_const(*this).as_single(); }
  const T& as_single() const& {
    check(0);
    for (std::size_t i = 1; i < components_.size(); ++i)
      if (!(components_[i] == components_[0]))
        throw_failure(errc::mismatch, "per_replica: component " + std::to_string(i)
                                        + " differs from component 0, so there is no single value");
    return components_[0];
  }

private:
  void check(std::size_t i) const {
    if (i >= components_.size())
      throw_failure(errc::out_of_range, "per_replica: component " + std::to_string(i) + " of "
                                          + std::to_string(components_.size()));
  }
  storage components_{};
  std::vector<bool> absent_{};
  bool mirrored_ = false;
};

template <class T>
bool operator==(const per_replica<T>& a, const per_replica<T>& b) {
  return a.is_mirrored() == b.is_mirrored() && a.local_results() == b.local_results();
}

/// A mirrored value: components that are equal by promise.
template <class T>
per_replica<T> mirrored(std::vector<T> components) {
  return per_replica<T>{std::move(components), true};
}

// --- nests: tuples, pairs, vectors, arrays and maps, with distributed values anywhere inside

template <class T>
struct is_per_replica : std::false_type {};
template <class T>
struct is_per_replica<per_replica<T>> : std::true_type {};

namespace detail {

/// A nest's two directions. `select`: replica i's view of an x. `regroup`: the replicas' xs as one
/// nest.
template <class X>
struct nest {
  static const X& select(const X& x, std::size_t) { return x; }
  using regrouped = per_replica<X>;
  static regrouped regroup(std::vector<X> xs) { return regrouped{std::move(xs)}; }
};

template <class T>
struct nest<per_replica<T>> {
  static const T& select(const per_replica<T>& x, std::size_t i) { return x[i]; }
  using regrouped = per_replica<per_replica<T>>;
  static regrouped regroup(std::vector<per_replica<T>> xs) { return regrouped{std::move(xs)}; }
};

/// Marks the absent components of the distributed values in a nest; nothing else keeps that.
template <class X>
void note_absent(X&, const std::vector<bool>&) {}
template <class T>
void note_absent(per_replica<T>& x, const std::vector<bool>& absent) {
  x.set_absent(absent);
}
template <class... Ts>
void note_absent(std::tuple<Ts...>& xs, const std::vector<bool>& absent);
template <class A, class B>
void note_absent(std::pair<A, B>& x, const std::vector<bool>& absent);
template <class T, std::size_t N>
void note_absent(std::array<T, N>& xs, const std::vector<bool>& absent);
template <class T>
void note_absent(std::vector<T>& xs, const std::vector<bool>& absent);
template <class K, class T>
void note_absent(std::map<K, T>& xs, const std::vector<bool>& absent);

template <class... Ts>
void note_absent(std::tuple<Ts...>& xs, const std::vector<bool>& absent) {
  std::apply([&](Ts&... each) { (note_absent(each, absent), ...); }, xs);
}
template <class A, class B>
void note_absent(std::pair<A, B>& x, const std::vector<bool>& absent) {
  note_absent(x.first, absent);
  note_absent(x.second, absent);
}
template <class T, std::size_t N>
void note_absent(std::array<T, N>& xs, const std::vector<bool>& absent) {
  for (auto& each : xs)
    note_absent(each, absent);
}
template <class T>
void note_absent(std::vector<T>& xs, const std::vector<bool>& absent) {
  for (auto& each : xs)
    note_absent(each, absent);
}
template <class K, class T>
void note_absent(std::map<K, T>& xs, const std::vector<bool>& absent) {
  for (auto& [key, each] : xs)
    note_absent(each, absent);
}

template <class X>
using selected_t = std::decay_t<decltype(nest<X>::select(std::declval<const X&>(), 0))>;
template <class X>
using regrouped_t = typename nest<X>::regrouped;

/// Throws `mismatch`: lists of replicas differ in length, or maps in their keys.
[[noreturn]] void nests_differ(const std::string& what, std::size_t replica, std::size_t size,
                               std::size_t first);

template <class... Ts>
struct nest<std::tuple<Ts...>> {
  static std::tuple<selected_t<Ts>...> select(const std::tuple<Ts...>& x, std::size_t i) {
    return std::apply(
      [i](const Ts&... each) {
        return std::tuple<selected_t<Ts>...>{nest<Ts>::select(each, i)...};
      },
      x);
  }
  using regrouped = std::tuple<regrouped_t<Ts>...>;
  static regrouped regroup(std::vector<std::tuple<Ts...>> xs) {
    return columns(xs, std::index_sequence_for<Ts...>{});
  }

private:
  template <std::size_t... Is>
  static regrouped columns(std::vector<std::tuple<Ts...>>& xs, std::index_sequence<Is...>) {
    return regrouped{nest<Ts>::regroup(column<Is>(xs))...};
  }
  template <std::size_t I>
  static auto column(std::vector<std::tuple<Ts...>>& xs) {
    std::vector<std::tuple_element_t<I, std::tuple<Ts...>>> out;
    for (auto& x : xs)
      out.push_back(std::move(std::get<I>(x)));
    return out;
  }
};

template <class A, class B>
struct nest<std::pair<A, B>> {
  static std::pair<selected_t<A>, selected_t<B>> select(const std::pair<A, B>& x, std::size_t i) {
    return {nest<A>::select(x.first, i), nest<B>::select(x.second, i)};
  }
  using regrouped = std::pair<regrouped_t<A>, regrouped_t<B>>;
  static regrouped regroup(std::vector<std::pair<A, B>> xs) {
    std::vector<A> as;
    std::vector<B> bs;
    for (auto& x : xs) {
      as.push_back(std::move(x.first));
      bs.push_back(std::move(x.second));
    }
    return {nest<A>::regroup(std::move(as)), nest<B>::regroup(std::move(bs))};
  }
};

template <class T>
struct nest<std::vector<T>> {
  static std::vector<selected_t<T>> select(const std::vector<T>& x, std::size_t i) {
    std::vector<selected_t<T>> out;
    for (const auto& each : x)
      out.push_back(nest<T>::select(each, i));
    return out;
  }
  using regrouped = std::vector<regrouped_t<T>>;
  static regrouped regroup(std::vector<std::vector<T>> xs) {
    regrouped out;
    for (std::size_t r = 0; r < xs.size(); ++r)
      if (xs[r].size() != xs[0].size())
        nests_differ("a list", r, xs[r].size(), xs[0].size());
    for (std::size_t k = 0; !xs.empty() && k < xs[0].size(); ++k) {
      std::vector<T> column;
      for (auto& x : xs)
        column.push_back(std::move(x[k]));
      out.push_back(nest<T>::regroup(std::move(column)));
    }
    return out;
  }
};

template <class T, std::size_t N>
struct nest<std::array<T, N>> {
  static std::array<selected_t<T>, N> select(const std::array<T, N>& x, std::size_t i) {
    return pick(x, i, std::make_index_sequence<N>{});
  }
  using regrouped = std::array<regrouped_t<T>, N>;
  static regrouped regroup(std::vector<std::array<T, N>> xs) {
    return columns(xs, std::make_index_sequence<N>{});
  }

private:
  template <std::size_t... Is>
  static std::array<selected_t<T>, N> pick(const std::array<T, N>& x, std::size_t i,
                                           std::index_sequence<Is...>) {
    return {nest<T>::select(x[Is], i)...};
  }
  template <std::size_t... Is>
  static regrouped columns(std::vector<std::array<T, N>>& xs, std::index_sequence<Is...>) {
    return {nest<T>::regroup(column(xs, Is))...};
  }
  static std::vector<T> column(std::vector<std::array<T, N>>& xs, std::size_t k) {
    std::vector<T> out;
    for (auto& x : xs)
      out.push_back(std::move(x[k]));
    return out;
  }
};

template <class K, class T>
struct nest<std::map<K, T>> {
  static std::map<K, selected_t<T>> select(const std::map<K, T>& x, std::size_t i) {
    std::map<K, selected_t<T>> out;
    for (const auto& [key, each] : x)
      out.emplace(key, nest<T>::select(each, i));
    return out;
  }
  using regrouped = std::map<K, regrouped_t<T>>;
  static regrouped regroup(std::vector<std::map<K, T>> xs) {
    regrouped out;
    for (std::size_t r = 1; r < xs.size(); ++r)
      if (!same_keys(xs[r], xs[0]))
        nests_differ("a map (or its keys)", r, xs[r].size(), xs[0].size());
    for (const auto& [key, first] : xs.empty() ? std::map<K, T>{} : xs[0]) {
      std::vector<T> column;
      for (auto& x : xs)
        column.push_back(std::move(x.at(key)));
      out.emplace(key, nest<T>::regroup(std::move(column)));
    }
    return out;
  }

private:
  static bool same_keys(const std::map<K, T>& a, const std::map<K, T>& b) {
    return a.size() == b.size()
           && std::equal(a.begin(), a.end(), b.begin(),
                         [](const auto& x, const auto& y) { return x.first == y.first; });
  }
};

} // namespace detail

/// Replica `i`'s view of a nest: its own component of each distributed value, all else as it is.
/// Throws `out_of_range`.
template <class X>
detail::selected_t<X> select_replica(std::size_t i, const X& x) {
  return detail::nest<X>::select(x, i);
}

/// The replicas' nests as one nest of distributed values: tuples, pairs, arrays, and vectors of the
/// same length and maps with the same keys, element by element; else `mismatch`.
template <class X>
detail::regrouped_t<X> regroup(std::vector<X> xs) {
  return detail::nest<X>::regroup(std::move(xs));
}
/// The nest of distributed values instead of the distributed nest.
template <class X>
detail::regrouped_t<X> regroup(const per_replica<X>& x) {
  auto out = detail::nest<X>::regroup({x.begin(), x.end()});
  detail::note_absent(out, x.absent());
  return out;
}

} // namespace troupe
