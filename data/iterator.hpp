#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/data/dataset.hpp>

namespace troupe {

namespace detail {
class open_dataset;
}

/// A place in a dataset. One thread at a time; movable.
class dataset_iterator {
public:
  /// An iterator of no dataset: every call throws `wrong_state`.
  dataset_iterator();
  ~dataset_iterator();
  dataset_iterator(dataset_iterator&&) noexcept;
  dataset_iterator& operator=(dataset_iterator&&) noexcept;

  /// The next element; throws `end_of_data` when there is none, again at every further call.
  /// Exceptions of a map function are passed on; after one the iterator is broken and throws the
  /// same until a position is restored, since going on could skip elements silently.
  element next();
  /// The next element, or nothing at the end; throws like `next` for everything else.
  std::optional<element> try_next();
  /// Goes to the first element of pass `pass`; a new iterator stands in pass 0. Shuffles that
  /// reshuffle have another order in each pass, and the same whenever it is begun again.
  void start_pass(std::uint64_t pass);
  /// The number of the current pass, from 0.
  std::uint64_t pass() const;
  /// Elements of this pass handed out so far.
  std::uint64_t delivered() const;

  /// The iterator's position as opaque bytes, including the pass, seeds and shuffle buffers, in a
  /// few hundred bytes.
  std::string save_position() const;
  /// Goes to a position saved from an iterator of an equal description; the elements that follow
  /// are those that followed there. Costs a replay of the shuffles' draws, and map calls only for
  /// what lies in a shuffle's buffer. Throws `corrupt` for bytes that don't hold together and
  /// `mismatch` for another description; the iterator then stays as it was.
  void restore_position(std::string_view bytes);

  /// The dataset's `element_spec`.
  std::vector<tensor_spec> element_spec() const;

private:
  friend class dataset;
  explicit dataset_iterator(std::unique_ptr<detail::open_dataset> open);
  detail::open_dataset& open() const;
  std::unique_ptr<detail::open_dataset> open_;
};

} // namespace troupe
