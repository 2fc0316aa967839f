#include <troupe/sim/storage.hpp>

#include <algorithm>

#include <troupe/sim/detail/disk_node.hpp>

namespace troupe::sim {

sim_disk::sim_disk(std::uint64_t seed, std::string_view machine)
  : draws_{draw_stream{seed, "disk"}.at(hash_text(machine))}, root_{std::make_shared<node>()} {
  root_->is_directory = true;
}

/// Follows links, also in the last part.
sim_disk::node_ptr sim_disk::find(const std::string& path, int links_max) const {
  auto at = root_;
  for (const auto& part : path_parts(path)) {
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

sim_disk::node_ptr sim_disk::find_parent(const std::string& path) const {
  auto parts = path_parts(path);
  std::string above;
  for (std::size_t i = 0; i + 1 < parts.size(); ++i)
    above += parts[i] + "/";
  return find(above);
}

/// What the name itself stands for.
sim_disk::node_ptr sim_disk::find_entry(const std::string& path) const {
  const auto parts = path_parts(path);
  const auto parent = find_parent(path);
  if (parts.empty() || !parent)
    return parent;
  const auto at = parent->entries.find(parts.back());
  return at == parent->entries.end() ? nullptr : at->second;
}

// --- faults
// -------------------------------------------------------------------------------------------------------

void sim_disk::inject(fault what, std::uint64_t count, duration each) {
  faults_[what].count += std::max<std::uint64_t>(count, 1);
  faults_[what].each = each;
}

void sim_disk::clear_faults() { faults_.clear(); }

bool sim_disk::take(fault which) {
  auto at = faults_.find(which);
  if (at == faults_.end() || at->second.count == 0)
    return false;
  --at->second.count;
  ++hits_[which];
  return true;
}

/// What befalls an operation; nothing most of the time.
std::optional<sim_disk::fault> sim_disk::hit(operation what) {
  if (faults_.empty())
    return {};
  if (take(fault::io_error))
    return fault::io_error;
  if (what == operation::write)
    for (auto f : {fault::torn_write, fault::no_space})
      if (take(f))
        return f;
  if (what == operation::read && take(fault::bit_flip))
    return fault::bit_flip;
  return {};
}

void sim_disk::power_fail() {
  process_gone();
  fail_directory(*root_);
}

void sim_disk::fail_directory(node& at) {
  const auto mode = draws_.below(4); // none, all, a prefix, a subset
  const auto keep = draws_.below(at.changes.size() + 1);
  for (std::size_t i = 0; i < at.changes.size(); ++i) {
    const bool survives =
      mode == 1 || (mode == 2 && i < keep) || (mode == 3 && draws_.below(2) == 1);
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
      fail_directory(*entry);
    else
      fail_file(*entry);
  }
}

void sim_disk::fail_file(node& file) {
  const auto mode = draws_.below(4); // lost, kept, cut, blocks of zeros
  if (file.now != file.durable && mode != 0)
    file.durable = surviving(file, mode);
  file.now = file.durable;
}

std::string sim_disk::surviving(const node& file, std::uint64_t mode) {
  const std::size_t block = draws_.below(2) == 0 ? 512 : 4096;
  std::string after = file.now;
  if (mode == 2)
    after.resize(draws_.below(after.size() / block + 1) * block);
  for (std::size_t at = 0; mode == 3 && at < after.size(); at += block) {
    if (draws_.below(2) == 0)
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

// --- looking in
// ---------------------------------------------------------------------------------------------------

std::optional<std::string> sim_disk::content(const std::string& path) const {
  const auto file = find(path);
  return file && !file->is_directory ? std::optional{file->now} : std::nullopt;
}

std::optional<std::string> sim_disk::durable_content(const std::string& path) const {
  auto at = root_;
  for (const auto& part : path_parts(path)) {
    const auto next = at->durable_entries.find(part);
    if (next == at->durable_entries.end())
      return {};
    at = next->second;
  }
  return at->is_directory ? std::nullopt : std::optional{at->durable};
}

bool sim_disk::make_link(const std::string& target, const std::string& path) {
  const auto parts = path_parts(path);
  const auto parent = find_parent(path);
  if (!parent || parts.empty() || parent->entries.contains(parts.back()))
    return false;
  auto link = std::make_shared<node>();
  link->target = target;
  parent->entries[parts.back()] = parent->durable_entries[parts.back()] = link;
  return true;
}

bool sim_disk::set_content(const std::string& path, std::string bytes) {
  const auto file = find(path);
  if (!file || file->is_directory)
    return false;
  file->now = file->durable = std::move(bytes);
  return true;
}

std::vector<std::string> sim_disk::files() const {
  std::vector<std::string> out;
  auto collect = [&](auto& self, const node& at, const std::string& prefix) -> void {
    for (const auto& [name, entry] : at.entries)
      if (entry->is_directory)
        self(self, *entry, prefix + name + "/");
      else
        out.push_back(prefix + name);
  };
  collect(collect, *root_, "");
  return out;
}

} // namespace troupe::sim
