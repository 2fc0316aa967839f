#include <troupe/data/autoshard.hpp>

#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/data/detail/counts.hpp>
#include <troupe/data/detail/dataset_access.hpp>
#include <troupe/data/detail/operations.hpp>
#include <troupe/data/detail/readers.hpp>

namespace troupe {

using namespace detail;

namespace {

struct group {
  std::uint64_t workers = 1;
  std::uint64_t index = 0;
};

/// The node on changed inputs.
template <class Change>
result<node_ptr> rebuilt(const node_ptr& x, Change change) {
  std::vector<node_ptr> inputs;
  for (const auto& input : x->inputs()) {
    auto changed = change(input);
    if (!changed)
      return std::move(changed.error());
    inputs.push_back(std::move(*changed));
  }
  return x->with_inputs(std::move(inputs));
}

/// Whether every source below is a list of files.
bool lists_files(const node_ptr& x) {
  if (x->kind() == node_kind::files)
    return true;
  auto inputs = x->inputs();
  for (const auto& input : inputs)
    if (!lists_files(input))
      return false;
  return !inputs.empty();
}

/// FILE. Source of the places: TensorFlow, core/grappler/optimizers/data/auto_shard.cc.
class file_sharder {
public:
  file_sharder(group among, storage_port& storage) : among_{among}, storage_{storage} {}

  /// A failure is that it cannot be done; what the storage says is thrown.
  result<node_ptr> run(const node_ptr& x) const {
    if (x->kind() == node_kind::reader)
      return own_files(static_cast<const reader_node&>(*x));
    if (x->kind() == node_kind::expand && lists_files(x->inputs()[0])) {
      auto own = own_paths(x->inputs()[0]);
      return own ? result<node_ptr>{x->with_inputs({std::move(*own)})} : std::move(own);
    }
    if (x->inputs().empty())
      return make_failure(errc::not_found, "autoshard: no file reader in " + x->describe());
    return rebuilt(x, [this](const node_ptr& input) { return run(input); });
  }

private:
  failure too_few(std::int64_t files, const dataset_node& in) const {
    return make_failure(errc::invalid_argument, "autoshard: " + std::to_string(files)
                                                  + " files for " + std::to_string(among_.workers)
                                                  + " workers in " + in.describe()
                                                  + ": fewer than one per worker");
  }

  result<node_ptr> own_files(const reader_node& x) const {
    auto all = resolve_files(storage_, x.patterns());
    if (all.size() < among_.workers)
      return too_few(static_cast<std::int64_t>(all.size()), x);
    std::vector<std::string> own;
    for (auto i = among_.index; i < all.size(); i += among_.workers)
      own.push_back(std::move(all[i]));
    return x.on_files(std::move(own));
  }

  /// A shuffle goes after the shard: every worker must deal the same list.
  result<node_ptr> own_paths(const node_ptr& list) const {
    std::vector<node_ptr> shuffles; // outermost first
    auto plain = without_shuffles(list, shuffles);
    auto count = plain->count(storage_);
    if (is_known(count) && static_cast<std::uint64_t>(count) < among_.workers)
      return too_few(count, *list);
    auto out = make_full_shard_node(std::move(plain), among_.workers, among_.index);
    for (auto x = shuffles.rbegin(); x != shuffles.rend(); ++x)
      out = (*x)->with_inputs({std::move(out)});
    return out;
  }

  static node_ptr without_shuffles(const node_ptr& x, std::vector<node_ptr>& found) {
    if (x->kind() == node_kind::shuffle) {
      found.push_back(x);
      return without_shuffles(x->inputs()[0], found);
    }
    std::vector<node_ptr> inputs;
    for (const auto& input : x->inputs())
      inputs.push_back(without_shuffles(input, found));
    return inputs.empty() ? x : x->with_inputs(std::move(inputs));
  }

  group among_;
  storage_port& storage_;
};

node_ptr shard_by_element(const node_ptr& x, group among) {
  if (x->kind() == node_kind::prefetch)
    return x->with_inputs({shard_by_element(x->inputs()[0], among)});
  return make_shard_node(x, among.workers, among.index);
}

node_ptr fill_hints(const node_ptr& x, group among, int& filled) {
  std::vector<node_ptr> inputs;
  for (const auto& input : x->inputs())
    inputs.push_back(fill_hints(input, among, filled));
  if (x->kind() == node_kind::shard_hint) {
    ++filled;
    return make_full_shard_node(std::move(inputs[0]), among.workers, among.index);
  }
  return inputs.empty() ? x : x->with_inputs(std::move(inputs));
}

group checked_group(std::int64_t workers, std::int64_t index) {
  if (workers < 1)
    throw_failure(errc::invalid_argument,
                  "autoshard: workers is " + std::to_string(workers) + ", below 1");
  if (index < 0 || index >= workers)
    throw_failure(errc::invalid_argument, "autoshard: index is " + std::to_string(index)
                                            + ", expected 0 to " + std::to_string(workers - 1));
  return {static_cast<std::uint64_t>(workers), static_cast<std::uint64_t>(index)};
}

} // namespace

std::string to_string(autoshard_policy x) {
  switch (x) {
    case autoshard_policy::off: return "off";
    case autoshard_policy::automatic: return "automatic";
    case autoshard_policy::file: return "file";
    case autoshard_policy::data: return "data";
    case autoshard_policy::hint: return "hint";
  }
  return "autoshard_policy(" + std::to_string(static_cast<int>(x)) + ")";
}

autosharded autoshard(const dataset& data, std::int64_t workers, std::int64_t index,
                      autoshard_policy policy, data_context context) {
  auto among = checked_group(workers, index);
  const auto& node = dataset_access::node(data);
  autosharded out{data, policy, {}};
  switch (policy) {
    case autoshard_policy::off: return out;
    case autoshard_policy::file:
    case autoshard_policy::automatic: {
      auto own = file_sharder{among, context.storage}.run(node);
      if (own) {
        out.policy = autoshard_policy::file;
        out.share = dataset_access::make(std::move(*own));
        return out;
      }
      if (policy == autoshard_policy::file)
        throw_failure(std::move(own.error()));
      out.note =
        own.error().text + "; every worker reads the whole input and keeps its own elements";
      break;
    }
    case autoshard_policy::data: break;
    case autoshard_policy::hint: {
      int filled = 0;
      out.share = dataset_access::make(fill_hints(node, among, filled));
      if (filled == 0)
        throw_failure(errc::invalid_argument,
                      "autoshard: policy is hint, but the dataset has no "
                      "shard(shard_hint, shard_hint) in "
                        + node->describe());
      return out;
    }
    default: throw_failure(errc::invalid_argument, "autoshard: policy is " + to_string(policy));
  }
  out.policy = autoshard_policy::data;
  out.share = dataset_access::make(shard_by_element(node, among));
  return out;
}

} // namespace troupe
