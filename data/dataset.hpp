#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <troupe/core/environment.hpp>
#include <troupe/data/compression.hpp>
#include <troupe/data/csv.hpp>
#include <troupe/data/dataset_types.hpp>
#include <troupe/data/element.hpp>

/// Datasets: which examples, in which order. A dataset is only a description; iterators read. The
/// names and meanings are those of tf.data (guide "tf.data: Build TensorFlow input pipelines").
namespace troupe {

class dataset_iterator;

namespace detail {
class dataset_node;
struct dataset_access;
} // namespace detail

/// An immutable description of a stream of elements. Cheap to copy, any thread. Nothing is read and
/// no function is called before `iterate` or `element_spec`. Errors are thrown as `troupe::error`;
/// every factory and operation throws `invalid_argument` for a count, size or step that is out of
/// its domain and for an empty function.
class dataset {
public:
  /// Maps one element to another. Must be pure: an iterator that is restored may call it again, or
  /// skip a call whose result is not needed. May be called on any thread that iterates.
  using map_function = element_function;

  /// Makes a dataset of an element, e.g. the records of the file at a path. Pure like a
  /// `map_function`; what it gives must not change between calls for equal elements.
  using expand_function = dataset_function;

  /// An empty dataset.
  dataset();

  // --- sources ----------------------------------------------------------------------------------

  /// A dataset of one element a row: row i of every tensor, without axis 0. The rows are shared,
  /// not copied. Throws `shape_mismatch` when row counts differ and `invalid_argument` for a scalar
  /// or an undefined tensor.
  static dataset from_tensors(std::vector<tensor> columns);
  /// A dataset of the i64 scalars begin, begin + step, ... before `end`; throws `invalid_argument`
  /// for step 0.
  static dataset range(std::int64_t begin, std::int64_t end, std::int64_t step = 1);
  static dataset range(std::int64_t end) { return range(0, end, 1); }
  /// A dataset of one element a row of an IDX file, plain or gzipped, read when it is first
  /// iterated. Dtype as in the file; i16 becomes i32.
  static dataset idx(std::string path);
  /// A dataset of elements {image, label} from two IDX files with as many rows.
  static dataset idx(std::string images_path, std::string labels_path);

  // Files: a path's last part may have `*` (any characters) and `?` (one), which stand for what the
  // storage lists, sorted. The elements of several files follow each other. Files are read when an
  // iterator gets there. All throw `invalid_argument` for no path or an empty one; reading throws
  // `not_found`, `io_failed` and `corrupt`, naming the file, the place in it, the field and the
  // value. Text, TFRecord and CSV files may be packed with gzip or zlib: under
  // `compression::detect` each file's first bytes tell. Packed files are unpacked as they are read,
  // piece by piece; a position in the middle of one is found by unpacking all before it again.

  /// The paths themselves, each a u8 vector (`text_of` makes text of it).
  static dataset files(std::vector<std::string> paths);
  /// Lines without their ends, each a u8 vector. UTF-16 is `corrupt`.
  static dataset text_lines(std::vector<std::string> paths,
                            compression packed = compression::detect);
  /// Records of TFRecord files, each a u8 vector; both checksums of each are verified.
  static dataset tfrecords(std::vector<std::string> paths,
                           compression packed = compression::detect);
  /// u8 vectors of `record_bytes`, after a header and before a footer in each file.
  static dataset fixed_records(std::vector<std::string> paths, std::int64_t record_bytes,
                               std::int64_t header_bytes = 0, std::int64_t footer_bytes = 0);
  /// A dataset of one scalar a column (csv.hpp). A file is read to its end, so that any row can be
  /// had at once.
  static dataset csv(std::vector<std::string> paths, csv_options options);
  /// Rows of numpy arrays (npy.hpp): one part a file, of as many rows.
  static dataset npy(std::vector<std::string> paths);
  /// Rows of the arrays `names` of a numpy archive, or of all in its order.
  static dataset npz(std::string path, std::vector<std::string> names = {});

  // --- operations -------------------------------------------------------------------------------

  /// The results of `function` for each element.
  dataset map(map_function function) const;
  /// The elements of `function`'s datasets, one dataset after the other.
  dataset flat_map(expand_function function) const;
  /// The elements of `cycle` of `function`'s datasets at a time, `block` from each in turn.
  dataset interleave(expand_function function, std::int64_t cycle, std::int64_t block = 1) const;
  /// The elements in random order, drawn from a buffer of `buffer` elements; a buffer of the
  /// dataset's size or more is a uniform permutation. Without a seed every iterator draws one from
  /// the random port, so that two workers see different orders; with one, every iterator sees the
  /// same orders. `reshuffle`: whether each pass has another order.
  dataset shuffle(std::int64_t buffer, std::optional<std::uint64_t> seed = std::nullopt,
                  bool reshuffle = true) const;
  /// `count` passes; without a count, passes forever (an empty input ends all the same).
  dataset repeat(std::optional<std::int64_t> count = std::nullopt) const;
  /// Batches of `size` elements, stacked along a new axis 0: part p is [size] + shape of p. The
  /// last batch of a pass may be smaller, or is dropped. A batch's elements must agree in types and
  /// shapes, else `next` throws `shape_mismatch` or `dtype_mismatch`. Consumers may keep a batch:
  /// its memory is used again only when nobody holds it.
  dataset batch(std::int64_t size, bool drop_remainder = false) const;
  /// Every `count`-th element, from the `index`-th on, 0 <= `index` < `count`. With `shard_hint`
  /// for both, the place where autoshard_policy::hint puts the workers' numbers; such a dataset
  /// cannot be iterated before.
  dataset shard(std::int64_t count, std::int64_t index) const;
  /// The first `count` elements of every pass.
  dataset take(std::int64_t count) const;
  /// All but the first `count` elements of every pass.
  dataset skip(std::int64_t count) const;
  /// Says that `count` elements may be made ahead. Elements and positions don't change.
  dataset prefetch(std::int64_t count) const;
  /// The elements of this dataset, then those of `next`. Both must agree in dtypes, shapes and
  /// number of parts.
  dataset concatenate(const dataset& next) const;
  /// A dataset of elements with the parts of both, as long as both last.
  static dataset zip(const dataset& a, const dataset& b);

  // --- use --------------------------------------------------------------------------------------

  /// A new iterator at the first element of pass 0. Reads the source's files: throws `not_found`,
  /// `corrupt`, `io_failed` or `mismatch` naming the file. Defined in iterator.hpp.
  dataset_iterator iterate(data_context context) const;
  /// Dtype and shape of each part of an element, -1 for an extent that may vary. Opens sources; a
  /// `map` is called once, on its input's first element (no entries when there is none). Draws
  /// nothing from the random port.
  std::vector<tensor_spec> element_spec(data_context context) const;
  /// Elements of a pass, `infinite_cardinality`, or `unknown_cardinality`. Opens sources; calls no
  /// function.
  std::int64_t cardinality(data_context context) const;
  /// The description as text, e.g. "range(0, 10, 1).shuffle(4).batch(2)".
  std::string describe() const;

private:
  friend class dataset_iterator;
  friend struct detail::dataset_access;
  friend dataset fashion_mnist(const std::string& split, std::string directory);
  explicit dataset(std::shared_ptr<const detail::dataset_node> node) : node_{std::move(node)} {}
  std::shared_ptr<const detail::dataset_node> node_;
};

/// A u8 vector as text, e.g. a path or a line; throws `dtype_mismatch`.
std::string text_of(const tensor& x);

/// The Fashion-MNIST images: elements {f32 [784] in [0, 1], i64 scalar}. `split` is "train"
/// (60,000) or "test" (10,000). `directory` holds the four gzipped IDX files. Decoded once a
/// process and shared by all iterators. Throws `invalid_argument` for another split. Source: Xiao
/// et al. 2017.
dataset fashion_mnist(const std::string& split,
                      std::string directory = "/usr/share/datasets/fashion-mnist");

} // namespace troupe
