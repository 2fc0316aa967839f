// The disk as a process sees it: the second half of storage.cpp.
#include <algorithm>
#include <cstring>

#include <troupe/sim/detail/disk_node.hpp>

namespace troupe::sim {

namespace {

// So that a crash can fall between two of them.
constexpr duration operation_takes = std::chrono::microseconds{100};

failure missing(const std::string& what) {
  return make_failure(errc::not_found, what + ": No such file or directory");
}

std::string name_of(const std::string& path) {
  auto parts = path_parts(path);
  return parts.empty() ? std::string{} : parts.back();
}

} // namespace

/// What the files of one process share.
class sim_disk::port final : public storage_port {
public:
  port(sim_disk& disk, std::function<bool()> alive, std::function<void(duration)> spend)
    : disk_{disk}, alive_{std::move(alive)}, spend_{std::move(spend)} {}

  result<std::unique_ptr<file_writer>> create(const std::string& path) override;
  result<std::unique_ptr<file_reader>> open(const std::string& path) override;
  result<void> rename(const std::string& from, const std::string& to) override;
  result<void> remove(const std::string& path) override;
  result<void> make_directories(const std::string& path) override;
  result<void> sync_directory(const std::string& path) override;
  result<std::vector<std::string>> list(const std::string& path) override;
  bool exists(const std::string& path) override { return disk_.find(path) != nullptr; }
  result<file_kind> kind(const std::string& path) override;
  result<std::unique_ptr<file_lock>> lock(const std::string& path) override;

  /// Lets it take its time; what befalls it, for faults that the caller plays out itself.
  result<std::optional<fault>> begin(operation what, const std::string& text,
                                     std::optional<std::uint64_t> life = {}) {
    spend_(disk_.take(fault::slow) ? disk_.faults_[fault::slow].each : operation_takes);
    if (!alive_() || (life && *life != disk_.life_))
      return make_failure(errc::io_failed, text + ": the process has ended");
    auto how = disk_.hit(what);
    if (how == fault::io_error)
      return make_failure(errc::io_failed, text + ": Input/output error");
    return how;
  }
  result<void> begin_plain(const std::string& text) {
    auto how = begin(operation::other, text);
    return how ? result<void>{} : result<void>{how.error()};
  }
  sim_disk& disk() { return disk_; }

private:
  sim_disk& disk_;
  std::function<bool()> alive_;
  std::function<void(duration)> spend_;
};

class sim_disk::writer final : public file_writer {
public:
  writer(port& from, std::string path, node_ptr file)
    : port_{from}, path_{std::move(path)}, file_{std::move(file)}, life_{from.disk().life_} {}

  result<void> write(std::span<const std::byte> bytes) override {
    if (broken_)
      return *broken_;
    auto how = port_.begin(operation::write, "write " + path_, life_);
    if (!how)
      return broken(std::move(how.error()));
    const std::string_view text{reinterpret_cast<const char*>(bytes.data()), bytes.size()};
    if (!*how) {
      file_->now += text;
      return {};
    }
    file_->now += text.substr(0, text.size() / 2);
    return broken(*how == fault::no_space
                    ? make_failure(errc::no_space, "write " + path_ + ": No space left on device")
                    : make_failure(errc::io_failed, "write " + path_ + ": Input/output error"));
  }
  result<void> sync() override {
    if (broken_)
      return *broken_;
    if (auto how = port_.begin(operation::other, "fsync " + path_, life_); !how)
      return broken(std::move(how.error()));
    file_->durable = file_->now;
    return {};
  }
  result<void> close() override { return broken_ ? result<void>{*broken_} : result<void>{}; }

private:
  failure broken(failure why) {
    broken_ = why;
    return why;
  }
  port& port_;
  std::string path_;
  node_ptr file_;
  std::uint64_t life_;
  std::optional<failure> broken_{};
};

class sim_disk::reader final : public file_reader {
public:
  reader(port& from, std::string path, node_ptr file)
    : port_{from}, path_{std::move(path)}, file_{std::move(file)}, life_{from.disk().life_} {}
  std::uint64_t size_bytes() const override { return file_->now.size(); }

  result<void> read_at(std::uint64_t offset, std::span<std::byte> to) override {
    auto how = port_.begin(operation::read, "read " + path_, life_);
    if (!how)
      return how.error();
    const auto& have = file_->now;
    if (offset > have.size() || to.size() > have.size() - offset)
      return make_failure(errc::corrupt, "read " + path_ + ": " + std::to_string(to.size())
                                           + " bytes at " + std::to_string(offset)
                                           + " of a file of " + std::to_string(have.size())
                                           + " bytes");
    if (to.empty())
      return {};
    std::memcpy(to.data(), have.data() + offset, to.size());
    if (*how == fault::bit_flip) {
      auto bit = port_.disk().draws_.below(to.size() * 8);
      to[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    }
    return {};
  }

private:
  port& port_;
  std::string path_;
  node_ptr file_;
  std::uint64_t life_;
};

result<std::unique_ptr<file_writer>> sim_disk::port::create(const std::string& path) {
  if (auto ok = begin_plain("create " + path); !ok)
    return ok.error();
  auto target = path;
  for (int links = 0; links < 8; ++links)
    if (const auto at = disk_.find_entry(target); at && !at->target.empty())
      target = at->target;
  const auto parent = disk_.find_parent(target);
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
  return std::unique_ptr<file_writer>{new writer{*this, path, entry}};
}

result<std::unique_ptr<file_reader>> sim_disk::port::open(const std::string& path) {
  if (auto ok = begin_plain("open " + path); !ok)
    return ok.error();
  const auto file = disk_.find(path);
  if (!file)
    return missing("open " + path);
  if (file->is_directory)
    return make_failure(errc::io_failed, "open " + path + ": is a directory");
  return std::unique_ptr<file_reader>{new reader{*this, path, file}};
}

result<void> sim_disk::port::rename(const std::string& from, const std::string& to) {
  if (auto ok = begin_plain("rename " + from + " to " + to); !ok)
    return ok;
  const auto parent = disk_.find_parent(from);
  if (!parent || !parent->entries.contains(name_of(from)))
    return missing("rename " + from + " to " + to);
  if (parent != disk_.find_parent(to))
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

result<void> sim_disk::port::remove(const std::string& path) {
  if (auto ok = begin_plain("remove " + path); !ok)
    return ok;
  const auto parent = disk_.find_parent(path);
  const auto gone = disk_.find_entry(path);
  if (!parent || !gone)
    return {};
  if (gone->is_directory && !gone->entries.empty())
    return make_failure(errc::io_failed, "remove " + path + ": Directory not empty");
  parent->entries.erase(name_of(path));
  parent->changes.push_back({name_of(path), "", nullptr});
  return {};
}

result<void> sim_disk::port::make_directories(const std::string& path) {
  if (auto ok = begin_plain("make directory " + path); !ok)
    return ok;
  auto at = disk_.root_;
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

result<void> sim_disk::port::sync_directory(const std::string& path) {
  if (auto ok = begin_plain("fsync directory " + path); !ok)
    return ok;
  const auto at = disk_.find(path);
  if (!at || !at->is_directory)
    return missing("open directory " + path);
  at->durable_entries = at->entries;
  at->changes.clear();
  return {};
}

result<std::vector<std::string>> sim_disk::port::list(const std::string& path) {
  if (auto ok = begin_plain("list " + path); !ok)
    return ok.error();
  const auto at = disk_.find(path);
  if (!at || !at->is_directory)
    return missing("list " + path);
  std::vector<std::string> names;
  for (const auto& [name, entry] : at->entries)
    names.push_back(name);
  return names;
}

result<file_kind> sim_disk::port::kind(const std::string& path) {
  const auto at = disk_.find_entry(path);
  if (!at)
    return file_kind::none;
  return at->is_directory     ? file_kind::directory
         : at->target.empty() ? file_kind::file
                              : file_kind::link;
}

/// Goes with its holder or, before, with the process.
class sim_disk::held_lock final : public file_lock {
public:
  held_lock(sim_disk& disk, std::string path, std::uint64_t number)
    : disk_{disk}, path_{std::move(path)}, number_{number} {}
  ~held_lock() override {
    if (auto at = disk_.locks_.find(path_); at != disk_.locks_.end() && at->second == number_)
      disk_.locks_.erase(at);
  }

private:
  sim_disk& disk_;
  std::string path_;
  std::uint64_t number_;
};

result<std::unique_ptr<file_lock>> sim_disk::port::lock(const std::string& path) {
  if (!alive_())
    return make_failure(errc::io_failed, "lock " + path + ": the process has ended");
  std::string whole;
  for (const auto& part : path_parts(path))
    whole += "/" + part;
  if (!disk_.locks_.emplace(whole, ++disk_.last_lock_).second)
    return make_failure(errc::try_again, "lock " + path + ": already locked");
  return std::unique_ptr<file_lock>{new held_lock{disk_, whole, disk_.last_lock_}};
}

std::unique_ptr<storage_port> sim_disk::open_port(std::function<bool()> alive,
                                                  std::function<void(duration)> spend) {
  return std::make_unique<port>(*this, std::move(alive), std::move(spend));
}

} // namespace troupe::sim
