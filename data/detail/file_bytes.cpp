#include <troupe/data/detail/file_bytes.hpp>

#include <algorithm>
#include <cstring>
#include <string_view>

#include <troupe/core/error.hpp>

namespace troupe::detail {

result<file_bytes> read_file(storage_port& storage, const std::string& path) {
  auto file = storage.open(path);
  if (!file)
    return std::move(file.error());
  file_bytes out;
  out.size = (*file)->size_bytes();
  out.data = std::make_unique_for_overwrite<std::byte[]>(out.size);
  if (auto ok = (*file)->read_at(0, {out.data.get(), out.size}); !ok)
    return std::move(ok.error());
  return out;
}

file_cursor::file_cursor(storage_port& storage, std::string path, std::string reader, packing how,
                         std::uint64_t offset_bytes)
  : path_{std::move(path)}, file_{storage.open(path_).value_or_throw()} {
  find_packing(how, reader);
  go_to(offset_bytes);
}

void file_cursor::find_packing(packing how, const std::string& reader) {
  if (how.how == compression::detect) {
    const auto head = peek();
    how.how = how.is_plain && how.is_plain(head)
                ? compression::none
                : detected(head, head.size() == file_->size_bytes());
  }
  if (how.how == compression::none)
    return;
  block_.clear();
  inflater_.emplace(how.how, reader + " " + path_);
}

void file_cursor::go_to(std::uint64_t offset_bytes) {
  if (!inflater_ && offset_bytes <= file_->size_bytes()) {
    offset_bytes_ = offset_bytes;
    if (offset_bytes > block_.size())
      block_.clear();
    return;
  }
  while (inflater_ && offset_bytes_ < offset_bytes && !at_end())
    advance(static_cast<std::size_t>(
      std::min<std::uint64_t>(peek().size(), offset_bytes - offset_bytes_)));
  if (offset_bytes_ < offset_bytes)
    throw_failure(errc::corrupt,
                  "dataset position: byte " + std::to_string(offset_bytes) + " of " + path_
                    + ", which has "
                    + std::to_string(inflater_ ? offset_bytes_ : file_->size_bytes()));
}

std::optional<std::uint64_t> file_cursor::rest_bytes() const {
  if (inflater_)
    return std::nullopt;
  return file_->size_bytes() - offset_bytes_;
}

std::span<const std::byte> file_cursor::peek() {
  if (offset_bytes_ - block_at_ >= block_.size()) {
    if (inflater_)
      unpack();
    else
      fill_plain();
  }
  return std::span<const std::byte>{block_}.subspan(
    static_cast<std::size_t>(offset_bytes_ - block_at_));
}

void file_cursor::fill_plain() {
  block_.resize(static_cast<std::size_t>(
    std::min<std::uint64_t>(file_->size_bytes() - offset_bytes_, block_bytes_max)));
  block_at_ = offset_bytes_;
  if (!block_.empty())
    file_->read_at(block_at_, block_).value_or_throw();
}

/// Fills the block as far as bytes go.
void file_cursor::unpack() {
  block_.resize(ended_ ? 0 : block_bytes_max);
  block_at_ = offset_bytes_;
  std::size_t made = 0;
  while (made < block_.size()) {
    if (packed_used_ == packed_.size() && packed_at_ < file_->size_bytes()) {
      packed_.resize(static_cast<std::size_t>(
        std::min<std::uint64_t>(file_->size_bytes() - packed_at_, block_bytes_max)));
      packed_used_ = 0;
      file_->read_at(packed_at_, packed_).value_or_throw();
      packed_at_ += packed_.size();
    }
    const auto from = std::span<const std::byte>{packed_}.subspan(packed_used_);
    const auto done = inflater_->run(from, std::span{block_}.subspan(made)).value_or_throw();
    packed_used_ += done.taken;
    made += done.made;
    ended_ = from.empty() && done.made == 0;
    if (ended_)
      break;
  }
  if (ended_)
    inflater_->finish().value_or_throw();
  block_.resize(made);
}

std::size_t file_cursor::read(std::span<std::byte> to) {
  std::size_t done = 0;
  while (done < to.size()) {
    const auto from = peek();
    const auto n = std::min(from.size(), to.size() - done);
    if (n == 0)
      break;
    std::memcpy(to.data() + done, from.data(), n);
    done += n;
    advance(n);
  }
  return done;
}

namespace {

bool is_pattern(std::string_view name) {
  return name.find_first_of("*?") != std::string_view::npos;
}

/// `*` and `?` against all of `name`: on a mismatch the last star takes one character more.
bool matches(std::string_view pattern, std::string_view name) {
  std::size_t p = 0;
  std::size_t n = 0;
  auto star = std::string_view::npos;
  std::size_t taken = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      taken = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++taken;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

void add_matching(storage_port& storage, const std::string& pattern, std::vector<std::string>& to) {
  auto slash = pattern.rfind('/');
  auto directory = slash == std::string::npos ? "." : slash == 0 ? "/" : pattern.substr(0, slash);
  auto prefix = slash == std::string::npos ? "" : pattern.substr(0, slash + 1);
  auto last = pattern.substr(prefix.size());
  auto before = to.size();
  for (const auto& name : storage.list(directory).value_or_throw())
    if (matches(last, name))
      to.push_back(prefix + name);
  if (to.size() == before)
    throw_failure(errc::not_found, "dataset: no file matches " + pattern);
  std::sort(to.begin() + static_cast<std::ptrdiff_t>(before), to.end());
}

} // namespace

std::vector<std::string> resolve_files(storage_port& storage,
                                       const std::vector<std::string>& patterns) {
  std::vector<std::string> out;
  for (const auto& x : patterns) {
    if (x.empty())
      throw_failure(errc::invalid_argument,
                    "dataset: path " + std::to_string(&x - patterns.data()) + " is empty");
    if (is_pattern(
          std::string_view{x}.substr(x.rfind('/') == std::string::npos ? 0 : x.rfind('/'))))
      add_matching(storage, x, out);
    else
      out.push_back(x);
  }
  return out;
}

std::string joined(const std::vector<std::string>& xs) {
  std::string out;
  for (const auto& x : xs)
    out += (out.empty() ? "" : ", ") + x;
  return out;
}

} // namespace troupe::detail
