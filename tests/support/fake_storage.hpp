#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <troupe/core/environment.hpp>
#include <troupe/core/random.hpp>

/// A disk in memory that forgets, for tests of whatever writes files.
namespace troupe::testing {

/// Small seeded generator (splitmix64), so that a failing choice can be named by its seed.
class choices {
public:
  explicit choices(std::uint64_t seed) : state_{seed} {}
  std::uint64_t next() { return next_word(state_); }
  std::uint64_t below(std::uint64_t bound) { return bound == 0 ? 0 : next() % bound; }

private:
  std::uint64_t state_;
};

/// What survives a crash of the machine is exactly what POSIX promises:
/// - bytes of a file once `sync` returned; of the others some blocks, none or all (`crash` chooses
/// by its seed, with
///   blocks of 512 or 4096 bytes; a lost block within the length that survived reads as zeros);
/// - names in a directory once `sync_directory` returned; of later creations, removals and renames
/// any prefix, any
///   subset, none or all; a rename survives whole or not at all.
///
/// Every operation but `exists` and `kind` counts. `fail_at` makes the n-th fail, `crash_at` makes
/// the n-th and all later ones fail until `crash`; a failing write leaves half its bytes behind.
/// Any thread. Paths are absolute or relative alike.
class fake_storage final : public storage_port {
public:
  fake_storage() = default;

  // --- faults ---

  /// The operation with this number (from 0, counted from now) fails once with `code`.
  void fail_at(std::uint64_t operation, errc code) {
    const std::lock_guard lock{mutex_};
    operations_ = 0;
    fault_ = fault{operation, code, false};
  }
  /// The same, and everything after it fails too: the power is gone until `crash`.
  void crash_at(std::uint64_t operation) {
    const std::lock_guard lock{mutex_};
    operations_ = 0;
    fault_ = fault{operation, errc::io_failed, true};
  }
  /// From now on no faults; counts from 0.
  void heal() {
    const std::lock_guard lock{mutex_};
    operations_ = 0;
    fault_.reset();
  }
  /// Operations since the last `fail_at`, `crash_at`, `heal` or `crash`.
  std::uint64_t operations() const {
    const std::lock_guard lock{mutex_};
    return operations_;
  }
  /// The machine goes down and comes back with what survived. Open files are dead.
  void crash(std::uint64_t seed) {
    const std::lock_guard lock{mutex_};
    choices pick{seed};
    crash_directory(*root_, pick);
    ++life_;
    locks_.clear();
    operations_ = 0;
    fault_.reset();
    log_.push_back("crash " + std::to_string(seed));
  }
  /// The n-th read from now (from 0) answers with one bit flipped; the disk itself is whole.
  void flip_read(std::uint64_t read, std::uint64_t bit) {
    const std::lock_guard lock{mutex_};
    reads_ = 0;
    flip_ = {read, bit};
  }
  /// Reads since the last `flip_read`.
  std::uint64_t reads() const {
    const std::lock_guard lock{mutex_};
    return reads_;
  }

  // --- looking in from outside: no operation, no fault ---

  /// Content as a process sees it now. @pre the file is there.
  std::string content(const std::string& path) const {
    const std::lock_guard lock{mutex_};
    const auto file = find(path);
    TROUPE_ASSERT(file && !file->is_directory, "content of a file that is there");
    return file->now;
  }
  /// Replaces the content, durably.
  void set_content(const std::string& path, std::string bytes) {
    const std::lock_guard lock{mutex_};
    const auto file = find(path);
    TROUPE_ASSERT(file && !file->is_directory, "content of a file that is there");
    file->now = file->durable = std::move(bytes);
  }
  /// Puts a link there, durably: `path` stands for `target`, which may be absent. @pre the parent
  /// is there and the name is free.
  void make_link(const std::string& target, const std::string& path) {
    const std::lock_guard lock{mutex_};
    const auto parent = find(parent_of(path));
    TROUPE_ASSERT(parent && !parent->entries.contains(name_of(path)), "room for a link");
    auto link = std::make_shared<node>();
    link->target = target;
    parent->entries[name_of(path)] = parent->durable_entries[name_of(path)] = link;
  }
  /// Locks that are held.
  std::size_t locks() const {
    const std::lock_guard lock{mutex_};
    return locks_.size();
  }
  /// Paths of all files, sorted.
  std::vector<std::string> files() const {
    const std::lock_guard lock{mutex_};
    std::vector<std::string> out;
    collect(*root_, "", out);
    return out;
  }
  /// "write a/b 12", "sync a/b", "rename a b", one an operation, failed ones with " failed".
  std::vector<std::string> log() const {
    const std::lock_guard lock{mutex_};
    return log_;
  }

  // --- the port ---

  result<std::unique_ptr<file_writer>> create(const std::string& path) override {
    const std::lock_guard lock{mutex_};
    if (auto no = operate("create " + path))
      return *no;
    const auto parent = find(parent_of(path));
    if (!parent || !parent->is_directory)
      return missing("create " + path);
    auto& entry = real(parent->entries[name_of(path)]);
    if (entry && entry->is_directory)
      return make_failure(errc::io_failed, "create " + path + ": is a directory");
    if (entry) {
      entry->now.clear();
    } else {
      entry = std::make_shared<node>();
      parent->changes.push_back({"", name_of(path), entry});
    }
    return std::unique_ptr<file_writer>{new writer{*this, path, entry}};
  }

  result<std::unique_ptr<file_reader>> open(const std::string& path) override {
    const std::lock_guard lock{mutex_};
    if (auto no = operate("open " + path))
      return *no;
    const auto file = find(path);
    if (!file)
      return missing("open " + path);
    if (file->is_directory)
      return make_failure(errc::io_failed, "open " + path + ": is a directory");
    return std::unique_ptr<file_reader>{new reader{*this, path, file}};
  }

  result<void> rename(const std::string& from, const std::string& to) override {
    const std::lock_guard lock{mutex_};
    if (auto no = operate("rename " + from + " " + to))
      return *no;
    const auto parent = find(parent_of(from));
    if (!parent || parent != find(parent_of(to)) || !parent->entries.contains(name_of(from)))
      return missing("rename " + from + " to " + to);
    const auto old = parent->entries.find(name_of(to));
    if (old != parent->entries.end() && !old->second->entries.empty())
      return make_failure(errc::io_failed, "rename to " + to + ": not empty");
    const auto moved = parent->entries[name_of(from)];
    parent->entries.erase(name_of(from));
    parent->entries[name_of(to)] = moved;
    parent->changes.push_back({name_of(from), name_of(to), moved});
    return {};
  }

  result<void> remove(const std::string& path) override {
    const std::lock_guard lock{mutex_};
    if (auto no = operate("remove " + path))
      return *no;
    const auto parent = find(parent_of(path));
    const auto gone = parent ? entry_of(*parent, name_of(path)) : nullptr;
    if (!gone)
      return {};
    if (gone->is_directory && !gone->entries.empty())
      return make_failure(errc::io_failed, "remove " + path + ": not empty");
    parent->entries.erase(name_of(path));
    parent->changes.push_back({name_of(path), "", nullptr});
    return {};
  }

  result<void> make_directories(const std::string& path) override {
    const std::lock_guard lock{mutex_};
    if (auto no = operate("make_directories " + path))
      return *no;
    auto at = root_;
    for (const auto& part : parts_of(path)) {
      auto& entry = at->entries[part];
      if (!entry) {
        entry = std::make_shared<node>();
        entry->is_directory = true;
        at->changes.push_back({"", part, entry});
      }
      if (!entry->is_directory)
        return make_failure(errc::io_failed, "make_directories " + path + ": a file is in the way");
      at = entry;
    }
    return {};
  }

  result<void> sync_directory(const std::string& path) override {
    const std::lock_guard lock{mutex_};
    if (auto no = operate("sync_directory " + path))
      return *no;
    const auto at = find(path);
    if (!at || !at->is_directory)
      return missing("sync_directory " + path);
    at->durable_entries = at->entries;
    at->changes.clear();
    return {};
  }

  result<std::vector<std::string>> list(const std::string& path) override {
    const std::lock_guard lock{mutex_};
    if (auto no = operate("list " + path))
      return *no;
    const auto at = find(path);
    if (!at || !at->is_directory)
      return missing("list " + path);
    std::vector<std::string> names;
    for (const auto& [name, entry] : at->entries)
      names.push_back(name);
    return names;
  }

  bool exists(const std::string& path) override {
    const std::lock_guard lock{mutex_};
    return find(path) != nullptr;
  }

  result<file_kind> kind(const std::string& path) override {
    const std::lock_guard lock{mutex_};
    if (parts_of(path).empty())
      return file_kind::directory;
    const auto parent = find(parent_of(path));
    const auto at = parent ? entry_of(*parent, name_of(path)) : nullptr;
    if (!at)
      return file_kind::none;
    return at->is_directory     ? file_kind::directory
           : at->target.empty() ? file_kind::file
                                : file_kind::link;
  }

  /// Held until it goes or the machine crashes. No file stands for it.
  result<std::unique_ptr<file_lock>> lock(const std::string& path) override {
    const std::lock_guard lock{mutex_};
    if (auto no = operate("lock " + path))
      return *no;
    std::string whole;
    for (const auto& part : parts_of(path))
      whole += "/" + part;
    if (!locks_.emplace(whole, ++last_lock_).second)
      return make_failure(errc::try_again, "lock " + path + ": already locked");
    return std::unique_ptr<file_lock>{new held_lock{*this, whole, last_lock_}};
  }

private:
  struct node;
  using node_ptr = std::shared_ptr<node>;
  /// A change of a directory's names: creation (from empty), removal (to empty) or rename.
  struct change {
    std::string from{};
    std::string to{};
    node_ptr what{};
  };
  struct node {
    bool is_directory = false;
    std::string target{}; ///< not empty: a link
    std::string now{};
    std::string durable{};
    std::map<std::string, node_ptr> entries{};
    std::map<std::string, node_ptr> durable_entries{};
    std::vector<change> changes{}; ///< since the last sync, in order
  };
  struct fault {
    std::uint64_t operation = 0;
    errc code = errc::io_failed;
    bool lasting = false;
  };

  class held_lock final : public file_lock {
  public:
    held_lock(fake_storage& disk, std::string path, std::uint64_t number)
      : disk_{disk}, path_{std::move(path)}, number_{number} {}
    ~held_lock() override {
      const std::lock_guard lock{disk_.mutex_};
      if (const auto at = disk_.locks_.find(path_);
          at != disk_.locks_.end() && at->second == number_)
        disk_.locks_.erase(at);
    }

  private:
    fake_storage& disk_;
    std::string path_;
    std::uint64_t number_;
  };

  class writer final : public file_writer {
  public:
    writer(fake_storage& disk, std::string path, node_ptr file)
      : disk_{disk}, path_{std::move(path)}, file_{std::move(file)}, life_{disk.life_} {}
    result<void> write(std::span<const std::byte> bytes) override {
      const std::lock_guard lock{disk_.mutex_};
      const std::string_view text{reinterpret_cast<const char*>(bytes.data()), bytes.size()};
      if (auto no = disk_.operate("write " + path_ + " " + std::to_string(bytes.size()), life_)) {
        if (life_ == disk_.life_)
          file_->now += text.substr(0, text.size() / 2);
        return *no;
      }
      file_->now += text;
      return {};
    }
    result<void> sync() override {
      const std::lock_guard lock{disk_.mutex_};
      if (auto no = disk_.operate("sync " + path_, life_))
        return *no;
      file_->durable = file_->now;
      return {};
    }
    result<void> close() override {
      const std::lock_guard lock{disk_.mutex_};
      if (auto no = disk_.operate("close " + path_, life_))
        return *no;
      return {};
    }

  private:
    fake_storage& disk_;
    std::string path_;
    node_ptr file_;
    std::uint64_t life_;
  };

  class reader final : public file_reader {
  public:
    reader(fake_storage& disk, std::string path, node_ptr file)
      : disk_{disk}, path_{std::move(path)}, file_{std::move(file)}, life_{disk.life_} {}
    std::uint64_t size_bytes() const override {
      const std::lock_guard lock{disk_.mutex_};
      return file_->now.size();
    }
    result<void> read_at(std::uint64_t offset, std::span<std::byte> to) override {
      const std::lock_guard lock{disk_.mutex_};
      if (auto no = disk_.operate("read " + path_ + " " + std::to_string(to.size()), life_))
        return *no;
      const auto& have = file_->now;
      if (offset > have.size() || to.size() > have.size() - offset)
        return make_failure(errc::corrupt, "read " + path_ + ": past the end");
      if (!to.empty())
        std::memcpy(to.data(), have.data() + offset, to.size());
      if (disk_.flip_ && disk_.reads_++ == disk_.flip_->first && !to.empty()) {
        const auto bit = disk_.flip_->second % (to.size() * 8);
        to[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
      }
      return {};
    }

  private:
    fake_storage& disk_;
    std::string path_;
    node_ptr file_;
    std::uint64_t life_;
  };

  /// Counts and logs an operation; a failure when it is to fail. @pre mutex held.
  std::optional<failure> operate(std::string what, std::optional<std::uint64_t> life = {}) {
    const auto number = operations_++;
    const bool dead = life && *life != life_;
    const bool hit =
      fault_ && (number == fault_->operation || (fault_->lasting && number > fault_->operation));
    log_.push_back(what + (dead || hit ? " failed" : ""));
    if (dead)
      return make_failure(errc::io_failed, what + ": opened before the crash");
    if (hit)
      return make_failure(fault_->code, what + ": injected");
    return {};
  }

  static failure missing(const std::string& what) {
    return make_failure(errc::not_found, what + ": no such file or directory");
  }

  void crash_directory(node& at, choices& pick) {
    const auto mode = pick.below(4); // none, all, a prefix, a subset
    const auto keep = pick.below(at.changes.size() + 1);
    for (std::size_t i = 0; i < at.changes.size(); ++i) {
      const bool survives =
        mode == 1 || (mode == 2 && i < keep) || (mode == 3 && pick.below(2) == 1);
      const auto& c = at.changes[i];
      if (!survives)
        continue;
      if (!c.from.empty())
        at.durable_entries.erase(c.from);
      if (!c.to.empty())
        at.durable_entries[c.to] = c.what;
    }
    at.changes.clear();
    at.entries = at.durable_entries;
    for (auto& [name, entry] : at.entries) {
      if (entry->is_directory)
        crash_directory(*entry, pick);
      else
        crash_file(*entry, pick);
    }
  }

  static void crash_file(node& file, choices& pick) {
    const auto mode = pick.below(4); // lost, kept, cut, blocks of zeros
    const std::size_t block = pick.below(2) == 0 ? 512 : 4096;
    if (file.now != file.durable && mode != 0) {
      std::string after = file.now;
      if (mode == 2)
        after.resize(pick.below(after.size() / block + 1) * block);
      for (std::size_t at = 0; mode == 3 && at < after.size(); at += block) {
        if (pick.below(2) == 0)
          continue;
        for (std::size_t i = at; i < std::min(at + block, after.size()); ++i)
          after[i] = i < file.durable.size() ? file.durable[i] : '\0';
      }
      // Bytes that were synced never go, unless the file was truncated afterwards.
      if (file.now.compare(0, file.durable.size(), file.durable) == 0
          && after.size() < file.durable.size())
        after = file.durable;
      file.durable = std::move(after);
    }
    file.now = file.durable;
  }

  static std::vector<std::string> parts_of(const std::string& path) {
    std::vector<std::string> parts;
    for (std::size_t at = 0; at < path.size();) {
      const auto end = std::min(path.find('/', at), path.size());
      if (end > at && path.substr(at, end - at) != ".")
        parts.push_back(path.substr(at, end - at));
      at = end + 1;
    }
    return parts;
  }
  static std::string parent_of(const std::string& path) {
    auto parts = parts_of(path);
    std::string out;
    for (std::size_t i = 0; i + 1 < parts.size(); ++i)
      out += parts[i] + "/";
    return out;
  }
  static std::string name_of(const std::string& path) {
    const auto parts = parts_of(path);
    return parts.empty() ? "" : parts.back();
  }
  /// Follows links, also in the last part.
  node_ptr find(const std::string& path, int links_max = 8) const {
    auto at = root_;
    for (const auto& part : parts_of(path)) {
      const auto next = at->entries.find(part);
      if (next == at->entries.end())
        return nullptr;
      at = next->second;
      if (!at->target.empty())
        at = links_max > 0 ? find(at->target, links_max - 1) : nullptr;
      if (!at)
        return nullptr;
    }
    return at;
  }
  static node_ptr entry_of(const node& directory, const std::string& name) {
    const auto at = directory.entries.find(name);
    return at == directory.entries.end() ? nullptr : at->second;
  }
  /// The entry itself, or where a link in its place leads. @pre the target's directory is there.
  node_ptr& real(node_ptr& entry) {
    if (!entry || entry->target.empty())
      return entry;
    const auto parent = find(parent_of(entry->target));
    TROUPE_ASSERT(parent, "a link whose target's directory is there");
    return real(parent->entries[name_of(entry->target)]);
  }
  static void collect(const node& at, const std::string& prefix, std::vector<std::string>& out) {
    for (const auto& [name, entry] : at.entries) {
      if (entry->is_directory)
        collect(*entry, prefix + name + "/", out);
      else
        out.push_back(prefix + name);
    }
  }
  static node_ptr make_root() {
    auto root = std::make_shared<node>();
    root->is_directory = true;
    return root;
  }

  mutable std::mutex mutex_{};
  node_ptr root_ = make_root();
  std::uint64_t operations_ = 0;
  std::uint64_t reads_ = 0;
  std::uint64_t life_ = 0;
  std::optional<fault> fault_{};
  std::optional<std::pair<std::uint64_t, std::uint64_t>> flip_{};
  std::vector<std::string> log_{};
  std::map<std::string, std::uint64_t> locks_{};
  std::uint64_t last_lock_ = 0;
};

} // namespace troupe::testing
