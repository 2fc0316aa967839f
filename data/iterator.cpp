#include <troupe/data/iterator.hpp>

#include <mutex>
#include <utility>

#include <troupe/core/error.hpp>
#include <troupe/data/detail/node.hpp>

// The body of a saved position (detail/position.hpp):
//   body := seed_count seed{seed_count} pass delivered ended state
// `state` is what each stream saves, outermost first.
namespace troupe {

namespace detail {

namespace {

constexpr std::uint64_t position_magic = 0x32305f534f505254; // "TRPOS_02"

} // namespace

/// The state of an iterator.
class open_dataset {
public:
  open_dataset(node_ptr node, data_context ports)
    : node_{std::move(node)}, ports_{ports}, fingerprint_{position_hash(node_->describe())} {
    open_context opening{ports_.storage, ports_.random};
    root_ = node_->open(opening).take_elements();
    seeds_ = opening.seeds();
    root_->start(0);
  }

  bool next(element& to) {
    // threads of one worker share an iterator: each element goes to one of them
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
                    "dataset iterator: no position after an error; restore a position first");
    auto out = begin_position(position_magic, fingerprint_);
    out.put(seeds_.size());
    for (auto x : seeds_)
      out.put(x);
    out.put(pass_);
    out.put(delivered_);
    out.put(ended_ ? 1 : 0);
    root_->save(out);
    return end_position(std::move(out));
  }

  /// Builds the new state aside, so that a position that doesn't hold changes nothing.
  void restore(std::string_view bytes) {
    auto in = open_position(bytes, position_magic, fingerprint_, node_->describe());
    auto seed_count = in.take("seed count", in.rest_bytes() / sizeof(std::uint64_t));
    std::vector<std::uint64_t> seeds(seed_count);
    for (auto& x : seeds)
      x = in.take("seed", UINT64_MAX);
    auto pass = in.take("pass", UINT64_MAX);
    auto delivered = in.take("delivered", UINT64_MAX);
    auto ended = in.take_flag("ended");
    open_context opening{ports_.storage, seeds};
    auto root = node_->open(opening).take_elements();
    if (opening.seeds_used() != seeds.size())
      throw_failure(errc::corrupt, "dataset position: " + std::to_string(seeds.size()) + " seeds, "
                                     + std::to_string(opening.seeds_used())
                                     + " shuffles without a seed");
    root->start(pass);
    root->load(in);
    if (in.rest_bytes() != 0)
      throw_failure(errc::corrupt, "dataset position: " + std::to_string(in.rest_bytes())
                                     + " bytes after the end");
    root_ = std::move(root);
    seeds_ = std::move(seeds);
    pass_ = pass;
    delivered_ = delivered;
    ended_ = ended;
    broken_ = nullptr;
  }

  void start_pass(std::uint64_t pass) {
    std::lock_guard lock{mutex_};
    root_->start(pass);
    pass_ = pass;
    delivered_ = 0;
    ended_ = false;
    broken_ = nullptr;
  }

  std::uint64_t pass() const { return pass_; }
  std::uint64_t delivered() const { return delivered_; }

  std::vector<tensor_spec> spec() const {
    open_context opening{ports_.storage, std::vector<std::uint64_t>{}};
    return node_->spec(opening);
  }

private:
  node_ptr node_;
  data_context ports_;
  std::uint64_t fingerprint_;
  std::vector<std::uint64_t> seeds_{};
  stream_ptr<element> root_{};
  std::uint64_t pass_ = 0;
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
    throw_failure(errc::wrong_state, "dataset iterator: has no dataset");
  return *open_;
}

element dataset_iterator::next() {
  element out;
  if (!open().next(out))
    throw_failure(errc::end_of_data,
                  "dataset iterator: no more elements after " + std::to_string(open().delivered())
                    + "; repeat the dataset, or schedule no more steps than it has elements");
  return out;
}

std::optional<element> dataset_iterator::try_next() {
  element out;
  if (!open().next(out))
    return std::nullopt;
  return out;
}

void dataset_iterator::start_pass(std::uint64_t pass) { open().start_pass(pass); }

std::uint64_t dataset_iterator::pass() const { return open().pass(); }

std::uint64_t dataset_iterator::delivered() const { return open().delivered(); }

std::string dataset_iterator::save_position() const { return open().save(); }

void dataset_iterator::restore_position(std::string_view bytes) { open().restore(bytes); }

std::vector<tensor_spec> dataset_iterator::element_spec() const { return open().spec(); }

} // namespace troupe
