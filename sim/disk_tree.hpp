#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <troupe/core/environment.hpp>
#include <troupe/core/storage_folder.hpp>

namespace troupe::sim {

/// The files of a machine, in memory: as processes see them, and what a loss of power leaves of
/// them. No faults, no time: the simulator's disk and the one of the tests add those. Only the
/// header, so that a test needs not link the simulator. One thread at a time.
///
/// What survives a loss of power is what POSIX promises:
/// - bytes of a file once it was synced; of the others some blocks, none or all, by draws (blocks
/// of
///   512 or 4096 bytes; a lost block within the length that survives reads as before or as zeros);
/// - names in a directory once it was synced; of later creations, removals and renames any prefix,
///   any subset, none or all; a rename survives whole or not at all.
///
/// Paths are absolute or relative alike. Links are followed, eight at most.
class disk_tree {
public:
  struct node;
  using node_ptr = std::shared_ptr<node>;

  /// A change of a directory's names: creation (from empty), removal (to empty) or rename.
  struct change {
    std::string from{};
    std::string to{};
    node_ptr what{};
  };
  /// A file, a directory or a link.
  struct node {
    bool is_directory = false;
    std::string target{}; ///< not empty: a link
    std::string now{};
    std::string durable{};
    std::map<std::string, node_ptr> entries{};
    std::map<std::string, node_ptr> durable_entries{};
    std::vector<change> changes{}; ///< since the last sync, in order
  };

  disk_tree() { root_->is_directory = true; }

  // -- what a process does; failures name the call and the path --

  /// Makes a file, or empties the one that is there.
  result<node_ptr> create(const std::string& path) {
    auto target = path;
    for (int links = 0; links < links_max; ++links)
      if (const auto at = find_entry(target); at && !at->target.empty())
        target = at->target;
    const auto parent = find_parent(target);
    if (!parent || !parent->is_directory)
      return missing("create " + path);
    auto& entry = parent->entries[name_of(target)];
    if (entry && entry->is_directory)
      return make_failure(errc::io_failed, "create " + path + ": is a directory");
    if (entry) {
      entry->now.clear();
    } else {
      entry = std::make_shared<node>();
      parent->changes.push_back({"", name_of(target), entry});
    }
    return entry;
  }
  result<node_ptr> open(const std::string& path) const {
    const auto file = find(path);
    if (!file)
      return missing("open " + path);
    if (file->is_directory)
      return make_failure(errc::io_failed, "open " + path + ": is a directory");
    return file;
  }
  /// `path`: of the file, for the failure.
  static result<void> read_at(const node& file, const std::string& path, std::uint64_t offset,
                              std::span<std::byte> to) {
    const auto& have = file.now;
    if (offset > have.size() || to.size() > have.size() - offset)
      return make_failure(errc::corrupt, "read " + path + ": " + std::to_string(to.size())
                                           + " bytes at " + std::to_string(offset)
                                           + " of a file of " + std::to_string(have.size())
                                           + " bytes");
    if (!to.empty())
      std::memcpy(to.data(), have.data() + offset, to.size());
    return {};
  }
  /// Within a directory.
  result<void> rename(const std::string& from, const std::string& to) {
    const auto parent = find_parent(from);
    if (!parent || !parent->entries.contains(name_of(from)))
      return missing("rename " + from + " to " + to);
    if (parent != find_parent(to))
      return make_failure(errc::io_failed, "rename " + from + " to " + to
                                             + ": the simulated disk renames within a directory");
    const auto old = parent->entries.find(name_of(to));
    if (old != parent->entries.end() && !old->second->entries.empty())
      return make_failure(errc::io_failed, "rename to " + to + ": Directory not empty");
    const auto moved = parent->entries[name_of(from)];
    parent->entries.erase(name_of(from));
    parent->entries[name_of(to)] = moved;
    parent->changes.push_back({name_of(from), name_of(to), moved});
    return {};
  }
  /// Well also when there is nothing.
  result<void> remove(const std::string& path) {
    const auto parent = find_parent(path);
    const auto gone = find_entry(path);
    if (!parent || !gone)
      return {};
    if (gone->is_directory && !gone->entries.empty())
      return make_failure(errc::io_failed, "remove " + path + ": Directory not empty");
    parent->entries.erase(name_of(path));
    parent->changes.push_back({name_of(path), "", nullptr});
    return {};
  }
  result<void> make_directories(const std::string& path) {
    auto at = root_;
    for (const auto& part : path_parts(path)) {
      auto& entry = at->entries[part];
      if (!entry) {
        entry = std::make_shared<node>();
        entry->is_directory = true;
        at->changes.push_back({"", part, entry});
      }
      if (!entry->is_directory)
        return make_failure(errc::io_failed, "make directory " + path + ": a file is in the way");
      at = entry;
    }
    return {};
  }
  result<void> sync_directory(const std::string& path) {
    const auto at = find(path);
    if (!at || !at->is_directory)
      return missing("open directory " + path);
    at->durable_entries = at->entries;
    at->changes.clear();
    return {};
  }
  result<std::vector<std::string>> list(const std::string& path) const {
    const auto at = find(path);
    if (!at || !at->is_directory)
      return missing("list " + path);
    std::vector<std::string> names;
    for (const auto& [name, entry] : at->entries)
      names.push_back(name);
    return names;
  }
  bool exists(const std::string& path) const { return find(path) != nullptr; }
  /// Of the name itself: a link is a link.
  file_kind kind(const std::string& path) const {
    const auto at = find_entry(path);
    if (!at)
      return file_kind::none;
    return at->is_directory     ? file_kind::directory
           : at->target.empty() ? file_kind::file
                                : file_kind::link;
  }
  /// Locks a path, which no file needs to be at. The number unlocks it.
  result<std::uint64_t> lock(const std::string& path) {
    if (!locks_.emplace(whole(path), ++last_lock_).second)
      return make_failure(errc::try_again, "lock " + path + ": already locked");
    return last_lock_;
  }
  /// Nothing when the lock is gone, or has gone to somebody else.
  void unlock(const std::string& path, std::uint64_t number) {
    if (const auto at = locks_.find(whole(path)); at != locks_.end() && at->second == number)
      locks_.erase(at);
  }
  void unlock_all() { locks_.clear(); }
  std::size_t locks() const { return locks_.size(); }

  // -- the machine --

  /// Cuts the power. `draws.below(n)` chooses what survives. Locks stay.
  template <class Draws>
  void power_fail(Draws& draws) {
    fail_directory(*root_, draws);
  }

  // -- looking in from outside --

  /// Content as a process sees it now; nothing when there is no such file.
  std::optional<std::string> content(const std::string& path) const {
    const auto file = find(path);
    return file && !file->is_directory ? std::optional{file->now} : std::nullopt;
  }
  /// Content that would be left if the power failed and nothing unsynced survived.
  std::optional<std::string> durable_content(const std::string& path) const {
    auto at = root_;
    for (const auto& part : path_parts(path)) {
      const auto next = at->durable_entries.find(part);
      if (next == at->durable_entries.end())
        return {};
      at = next->second;
    }
    return at->is_directory ? std::nullopt : std::optional{at->durable};
  }
  /// Replaces the content, durably. False when there is no such file.
  bool set_content(const std::string& path, std::string bytes) {
    const auto file = find(path);
    if (!file || file->is_directory)
      return false;
    file->now = file->durable = std::move(bytes);
    return true;
  }
  /// Puts a link there, durably: `path` stands for `target`, which may be absent. False when the
  /// parent is not there or the name is taken.
  bool make_link(const std::string& target, const std::string& path) {
    const auto parent = find_parent(path);
    const auto name = name_of(path);
    if (!parent || name.empty() || parent->entries.contains(name))
      return false;
    auto link = std::make_shared<node>();
    link->target = target;
    parent->entries[name] = parent->durable_entries[name] = link;
    return true;
  }
  /// Paths of all files, sorted.
  std::vector<std::string> files() const {
    std::vector<std::string> out;
    collect(*root_, "", out);
    return out;
  }

private:
  static constexpr int links_max = 8;

  static failure missing(const std::string& what) {
    return make_failure(errc::not_found, what + ": No such file or directory");
  }
  static std::string name_of(const std::string& path) {
    auto parts = path_parts(path);
    return parts.empty() ? std::string{} : parts.back();
  }
  static std::string whole(const std::string& path) {
    std::string out;
    for (const auto& part : path_parts(path))
      out += "/" + part;
    return out;
  }
  /// Follows links, also in the last part.
  node_ptr find(const std::string& path, int links_left = links_max) const {
    auto at = root_;
    for (const auto& part : path_parts(path)) {
      const auto next = at->entries.find(part);
      if (next == at->entries.end())
        return nullptr;
      at = next->second;
      if (!at->target.empty())
        at = links_left > 0 ? find(at->target, links_left - 1) : nullptr;
      if (!at)
        return nullptr;
    }
    return at;
  }
  node_ptr find_parent(const std::string& path) const {
    const auto parts = path_parts(path);
    std::string above;
    for (std::size_t i = 0; i + 1 < parts.size(); ++i)
      above += parts[i] + "/";
    return find(above);
  }
  /// What the name itself stands for.
  node_ptr find_entry(const std::string& path) const {
    const auto parts = path_parts(path);
    const auto parent = find_parent(path);
    if (parts.empty() || !parent)
      return parent;
    const auto at = parent->entries.find(parts.back());
    return at == parent->entries.end() ? nullptr : at->second;
  }
  static void collect(const node& at, const std::string& prefix, std::vector<std::string>& out) {
    for (const auto& [name, entry] : at.entries)
      if (entry->is_directory)
        collect(*entry, prefix + name + "/", out);
      else
        out.push_back(prefix + name);
  }

  template <class Draws>
  static void fail_directory(node& at, Draws& draws) {
    const auto mode = draws.below(4); // none, all, a prefix, a subset
    const auto keep = draws.below(at.changes.size() + 1);
    for (std::size_t i = 0; i < at.changes.size(); ++i) {
      const bool survives =
        mode == 1 || (mode == 2 && i < keep) || (mode == 3 && draws.below(2) == 1);
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
    for (auto& [name, entry] : at.entries)
      if (entry->is_directory)
        fail_directory(*entry, draws);
      else
        fail_file(*entry, draws);
  }
  template <class Draws>
  static void fail_file(node& file, Draws& draws) {
    const auto mode = draws.below(4); // lost, kept, cut, blocks of zeros
    if (file.now != file.durable && mode != 0)
      file.durable = surviving(file, mode, draws);
    file.now = file.durable;
  }
  template <class Draws>
  static std::string surviving(const node& file, std::uint64_t mode, Draws& draws) {
    const std::size_t block = draws.below(2) == 0 ? 512 : 4096;
    std::string after = file.now;
    if (mode == 2)
      after.resize(draws.below(after.size() / block + 1) * block);
    for (std::size_t at = 0; mode == 3 && at < after.size(); at += block) {
      if (draws.below(2) == 0)
        continue;
      for (std::size_t i = at; i < std::min(at + block, after.size()); ++i)
        after[i] = i < file.durable.size() ? file.durable[i] : '\0';
    }
    // Bytes that were synced never go, unless the file was truncated afterwards.
    if (file.now.compare(0, file.durable.size(), file.durable) == 0
        && after.size() < file.durable.size())
      return file.durable;
    return after;
  }

  node_ptr root_ = std::make_shared<node>();
  std::map<std::string, std::uint64_t> locks_{}; ///< held, by path; what tells each apart
  std::uint64_t last_lock_ = 0;
};

} // namespace troupe::sim
