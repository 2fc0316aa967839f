#include <troupe/data/detail/element_streams.hpp>

#include <cstring>
#include <new>

#include <troupe/core/error.hpp>

namespace troupe::detail {

// --- memory for batches -------------------------------------------------------------------------

namespace {

constexpr std::align_val_t block_alignment{64};

} // namespace

buffer_pool::~buffer_pool() {
  for (auto x : free_)
    ::operator delete(x.at, block_alignment);
}

tensor buffer_pool::make(dtype type, shape_t shape) {
  auto size_bytes = static_cast<std::size_t>(count_of(shape)) * size_of(type);
  auto rounded = size_bytes == 0 ? 64 : (size_bytes + 63) / 64 * 64;
  block x{nullptr, rounded};
  {
    std::lock_guard guard{lock_};
    if (free_.capacity() < free_len_max)
      free_.reserve(free_len_max); // giving back must not allocate
    for (auto& candidate : free_)
      if (candidate.size_bytes == rounded) {
        x = candidate;
        candidate = free_.back();
        free_.pop_back();
        break;
      }
  }
  if (!x.at)
    x.at = ::operator new(rounded, block_alignment);
  std::shared_ptr<void> owner{x.at, [pool = shared_from_this(), x](void*) { pool->give_back(x); }};
  return {type, std::move(shape), std::move(owner), static_cast<std::byte*>(x.at)};
}

void buffer_pool::give_back(block x) noexcept {
  {
    std::lock_guard guard{lock_};
    if (free_.size() < free_len_max) {
      free_.push_back(x);
      return;
    }
    std::swap(free_.front(), x); // sizes that are no longer asked for leave in the end
  }
  ::operator delete(x.at, block_alignment);
}

element map_one(const element_function& function, const element& x) {
  auto out = function(x);
  for (std::size_t i = 0; i < out.size(); ++i)
    if (!out[i].defined())
      throw_failure(errc::invalid_argument,
                    "map: part " + std::to_string(i) + " of the result has no value");
  return out;
}

// --- streams ------------------------------------------------------------------------------------

namespace {

class row_elements final : public stream<element> {
public:
  row_elements(std::shared_ptr<const row_store> store, stream_ptr<row_no> rows)
    : store_{std::move(store)}, rows_{std::move(rows)} {}
  void start(std::uint64_t pass) override { rows_->start(pass); }
  bool next(element& to) override {
    row_no at = 0;
    if (!rows_->next(at))
      return false;
    to = row_of(*store_, at);
    return true;
  }
  bool discard() override { return rows_->discard(); }
  void save(position_out& out) const override { rows_->save(out); }
  void load(position_in& in) override { rows_->load(in); }

private:
  std::shared_ptr<const row_store> store_;
  stream_ptr<row_no> rows_;
};

class map_stream final : public stream<element> {
public:
  map_stream(stream_ptr<element> input, element_function function)
    : input_{std::move(input)}, function_{std::move(function)} {}
  void start(std::uint64_t pass) override { input_->start(pass); }
  bool next(element& to) override {
    element x;
    if (!input_->next(x))
      return false;
    to = map_one(function_, x);
    return true;
  }
  bool discard() override { return input_->discard(); }
  void save(position_out& out) const override { input_->save(out); }
  void load(position_in& in) override { input_->load(in); }

private:
  stream_ptr<element> input_;
  element_function function_;
};

class zip_stream final : public stream<element> {
public:
  zip_stream(stream_ptr<element> a, stream_ptr<element> b) : a_{std::move(a)}, b_{std::move(b)} {}
  void start(std::uint64_t pass) override {
    ended_ = false;
    a_->start(pass);
    b_->start(pass);
  }
  bool next(element& to) override {
    element left;
    element right;
    if (ended_ || !a_->next(left) || !b_->next(right)) {
      ended_ = true;
      return false;
    }
    auto parts = left.parts();
    parts.insert(parts.end(), right.begin(), right.end());
    to = element{std::move(parts)};
    return true;
  }
  bool discard() override {
    ended_ = ended_ || !a_->discard() || !b_->discard();
    return !ended_;
  }
  void save(position_out& out) const override {
    out.put(ended_ ? 1 : 0);
    a_->save(out);
    b_->save(out);
  }
  void load(position_in& in) override {
    ended_ = in.take_flag("zip ended");
    a_->load(in);
    b_->load(in);
  }

private:
  stream_ptr<element> a_;
  stream_ptr<element> b_;
  bool ended_ = false;
};

/// What both kinds of batch share. Needs no state of its own: an input that ended stays at its end.
template <class Item>
class batch_base : public stream<element> {
public:
  batch_base(stream_ptr<Item> input, std::size_t size, bool drop_remainder)
    : input_{std::move(input)}, size_{size}, drop_remainder_{drop_remainder} {}
  void start(std::uint64_t pass) override { input_->start(pass); }
  bool next(element& to) override {
    picked_.clear();
    Item x{};
    while (picked_.size() < size_ && input_->next(x))
      picked_.push_back(std::move(x));
    if (picked_.empty() || (drop_remainder_ && picked_.size() < size_))
      return false;
    to = make(picked_);
    picked_.clear(); // lets go of the elements
    return true;
  }
  bool discard() override {
    std::size_t n = 0;
    while (n < size_ && input_->discard())
      ++n;
    return n > 0 && (!drop_remainder_ || n == size_);
  }
  void save(position_out& out) const override { input_->save(out); }
  void load(position_in& in) override { input_->load(in); }

protected:
  virtual element make(const std::vector<Item>& picked) = 0;
  std::shared_ptr<buffer_pool> pool_ = std::make_shared<buffer_pool>();

private:
  stream_ptr<Item> input_;
  std::size_t size_;
  bool drop_remainder_;
  std::vector<Item> picked_{};
};

shape_t stacked(std::size_t count, const shape_t& shape) {
  shape_t out;
  out.reserve(shape.size() + 1);
  out.push_back(static_cast<std::int64_t>(count));
  out.insert(out.end(), shape.begin(), shape.end());
  return out;
}

class row_batch final : public batch_base<row_no> {
public:
  row_batch(std::shared_ptr<const row_store> store, stream_ptr<row_no> rows, std::size_t size,
            bool drop_remainder)
    : batch_base{std::move(rows), size, drop_remainder},
      store_{std::move(store)},
      specs_{specs_of(*store_)} {}

protected:
  element make(const std::vector<row_no>& picked) override {
    std::vector<tensor> parts;
    parts.reserve(specs_.size());
    for (std::size_t i = 0; i < specs_.size(); ++i) {
      parts.push_back(pool_->make(specs_[i].type, stacked(picked.size(), specs_[i].shape)));
      store_->columns[i]->gather(picked, parts.back().mutable_bytes());
    }
    return element{std::move(parts)};
  }

private:
  std::shared_ptr<const row_store> store_;
  std::vector<tensor_spec> specs_;
};

void require_alike(const element& first, const element& x, std::size_t at) {
  auto name = "batch: element " + std::to_string(at);
  if (x.size() != first.size())
    throw_failure(errc::shape_mismatch, name + " has " + std::to_string(x.size())
                                          + " parts, the first one "
                                          + std::to_string(first.size()));
  for (std::size_t i = 0; i < x.size(); ++i) {
    auto part = name + ", part " + std::to_string(i) + " is ";
    if (x[i].type() != first[i].type())
      throw_failure(errc::dtype_mismatch, part + to_string(x[i].type()) + ", the first one "
                                            + to_string(first[i].type()));
    if (x[i].shape() != first[i].shape())
      throw_failure(errc::shape_mismatch, part + to_string(x[i].shape()) + ", the first one "
                                            + to_string(first[i].shape()));
  }
}

bool alike(const element& a, const element& b) {
  if (a.size() != b.size())
    return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i].type() != b[i].type() || a[i].shape() != b[i].shape())
      return false;
  return true;
}

class element_batch final : public batch_base<element> {
public:
  using batch_base::batch_base;

protected:
  element make(const std::vector<element>& picked) override {
    const auto& first = picked.front();
    for (std::size_t i = 1; i < picked.size(); ++i)
      if (!alike(first, picked[i]))
        require_alike(first, picked[i], i);
    std::vector<tensor> parts;
    for (std::size_t part = 0; part < first.size(); ++part) {
      auto shape = stacked(picked.size(), first[part].shape());
      if (!is_sane(shape, first[part].type()))
        throw_failure(errc::too_large, "batch: shape " + to_string(shape));
      auto out = pool_->make(first[part].type(), std::move(shape));
      auto row_bytes = first[part].size_bytes();
      for (std::size_t i = 0; i < picked.size() && row_bytes > 0; ++i)
        std::memcpy(out.mutable_bytes().data() + i * row_bytes, picked[i][part].bytes().data(),
                    row_bytes);
      parts.push_back(std::move(out));
    }
    return element{std::move(parts)};
  }
};

} // namespace

stream_ptr<element> make_row_elements(std::shared_ptr<const row_store> store,
                                      stream_ptr<row_no> rows) {
  return std::make_unique<row_elements>(std::move(store), std::move(rows));
}

stream_ptr<element> make_map(stream_ptr<element> input, element_function function) {
  return std::make_unique<map_stream>(std::move(input), std::move(function));
}

stream_ptr<element> make_zip(stream_ptr<element> a, stream_ptr<element> b) {
  return std::make_unique<zip_stream>(std::move(a), std::move(b));
}

stream_ptr<element> make_row_batch(std::shared_ptr<const row_store> store, stream_ptr<row_no> rows,
                                   std::size_t size, bool drop_remainder) {
  return std::make_unique<row_batch>(std::move(store), std::move(rows), size, drop_remainder);
}

stream_ptr<element> make_batch(stream_ptr<element> input, std::size_t size, bool drop_remainder) {
  return std::make_unique<element_batch>(std::move(input), size, drop_remainder);
}

} // namespace troupe::detail
