#include <troupe/data/iterator.hpp>

#include <mutex>
#include <utility>

#include <troupe/core/error.hpp>
#include <troupe/data/detail/node.hpp>

// Grammar of a saved position (little-endian u64 each):
//   position := magic fingerprint seed_count seed{seed_count} delivered ended state checksum
// `fingerprint` is of the description, `state` what each stream saves, outermost first, and
// `checksum` of all before.
namespace troupe {

namespace detail {

namespace {

constexpr std::uint64_t position_magic = 0x31305f534f505254; // "TRPOS_01"
constexpr std::size_t checksum_bytes = sizeof(std::uint64_t);

/// FNV-1a, finished with a mix. Source: Fowler, Noll, Vo.
std::uint64_t hash_of(std::string_view bytes) {
  std::uint64_t h = 0xcbf29ce484222325;
  for (unsigned char c : bytes)
    h = (h ^ c) * 0x100000001b3;
  return mix_bits(h);
}

} // namespace

/// The state of an iterator.
class open_dataset {
public:
  open_dataset(node_ptr node, data_context ports)
    : node_{std::move(node)}, ports_{ports}, fingerprint_{hash_of(node_->describe())} {
    open_context opening{ports_.storage, ports_.random};
    root_ = node_->open(opening).take_elements();
    seeds_ = opening.seeds();
    root_->start(0);
  }

  bool next(element& to) {
    // lanes of one worker share an iterator: each element goes to one of them
    std::lock_guard lock{mutex_};
    if (broken_)
      std::rethrow_exception(broken_);
    if (ended_)
      return false;
    try {
      ended_ = !root_->next(to);
    } catch (...) {
      broken_ = std::current_exception();
      throw;
    }
    delivered_ += ended_ ? 0 : 1;
    return !ended_;
  }

  std::string save() const {
    if (broken_)
      throw_failure(errc::wrong_state,
                    "dataset iterator: no position after an error; restore one first");
    position_out out;
    out.put(position_magic);
    out.put(fingerprint_);
    out.put(seeds_.size());
    for (auto x : seeds_)
      out.put(x);
    out.put(delivered_);
    out.put(ended_ ? 1 : 0);
    root_->save(out);
    out.put(hash_of(out.bytes()));
    return out.bytes();
  }

  /// Builds the new state aside, so that a position that doesn't hold changes nothing.
  void restore(std::string_view bytes) {
    auto in = check_frame(bytes);
    auto seed_count = in.take("seed count", in.rest_bytes() / sizeof(std::uint64_t));
    std::vector<std::uint64_t> seeds(seed_count);
    for (auto& x : seeds)
      x = in.take("seed", UINT64_MAX);
    auto delivered = in.take("delivered", UINT64_MAX);
    auto ended = in.take_flag("ended");
    open_context opening{ports_.storage, seeds};
    auto root = node_->open(opening).take_elements();
    if (opening.seeds_used() != seeds.size())
      throw_failure(errc::corrupt, "dataset position: " + std::to_string(seeds.size()) + " seeds, "
                                     + std::to_string(opening.seeds_used())
                                     + " shuffles without one");
    root->start(0);
    root->load(in);
    if (in.rest_bytes() != 0)
      throw_failure(errc::corrupt, "dataset position: " + std::to_string(in.rest_bytes())
                                     + " bytes after the end");
    root_ = std::move(root);
    seeds_ = std::move(seeds);
    delivered_ = delivered;
    ended_ = ended;
    broken_ = nullptr;
  }

  std::uint64_t delivered() const { return delivered_; }

  std::vector<tensor_spec> spec() const {
    open_context opening{ports_.storage, std::vector<std::uint64_t>{}};
    return node_->spec(opening);
  }

private:
  /// The numbers between fingerprint and checksum.
  position_in check_frame(std::string_view bytes) const {
    position_in head{bytes};
    if (auto magic = head.take("magic", UINT64_MAX); magic != position_magic)
      throw_failure(errc::corrupt, "dataset position: magic is " + std::to_string(magic));
    auto fingerprint = head.take("fingerprint", UINT64_MAX);
    if (head.rest_bytes() < checksum_bytes)
      throw_failure(errc::corrupt, "dataset position: ends before checksum, at "
                                     + std::to_string(bytes.size()) + " bytes");
    auto body = bytes.substr(0, bytes.size() - checksum_bytes);
    position_in tail{bytes.substr(body.size())};
    if (tail.take("checksum", UINT64_MAX) != hash_of(body))
      throw_failure(errc::corrupt, "dataset position: checksum of " + std::to_string(bytes.size())
                                     + " bytes does not hold");
    if (fingerprint != fingerprint_)
      throw_failure(errc::mismatch, "dataset position: is not of " + node_->describe());
    return position_in{body.substr(2 * sizeof(std::uint64_t))};
  }

  node_ptr node_;
  data_context ports_;
  std::uint64_t fingerprint_;
  std::vector<std::uint64_t> seeds_{};
  stream_ptr<element> root_{};
  std::uint64_t delivered_ = 0;
  bool ended_ = false;
  std::mutex mutex_{};
  std::exception_ptr broken_{}; // what an earlier call threw
};

} // namespace detail

dataset_iterator::dataset_iterator() = default;
dataset_iterator::~dataset_iterator() = default;
dataset_iterator::dataset_iterator(dataset_iterator&&) noexcept = default;
dataset_iterator& dataset_iterator::operator=(dataset_iterator&&) noexcept = default;
dataset_iterator::dataset_iterator(std::unique_ptr<detail::open_dataset> open)
  : open_{std::move(open)} {}

dataset_iterator dataset::iterate(data_context context) const {
  return dataset_iterator{std::make_unique<detail::open_dataset>(node_, context)};
}

detail::open_dataset& dataset_iterator::open() const {
  if (!open_)
    throw_failure(errc::wrong_state, "dataset iterator: belongs to no dataset");
  return *open_;
}

element dataset_iterator::next() {
  element out;
  if (!open().next(out))
    throw_failure(errc::end_of_data,
                  "dataset iterator: no more elements after " + std::to_string(open().delivered())
                    + "; repeat the dataset, or schedule as many steps as it has");
  return out;
}

std::optional<element> dataset_iterator::try_next() {
  element out;
  if (!open().next(out))
    return std::nullopt;
  return out;
}

std::uint64_t dataset_iterator::delivered() const { return open().delivered(); }

std::string dataset_iterator::save_position() const { return open().save(); }

void dataset_iterator::restore_position(std::string_view bytes) { open().restore(bytes); }

std::vector<tensor_spec> dataset_iterator::element_spec() const { return open().spec(); }

} // namespace troupe
