// The storage port of a simulated process: the disk as it sees it.
#include <troupe/sim/storage.hpp>

namespace troupe::sim {

namespace {

// So that a crash can fall between two of them.
constexpr duration operation_takes = std::chrono::microseconds{100};

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
  bool exists(const std::string& path) override { return disk_.tree_.exists(path); }
  result<file_kind> kind(const std::string& path) override { return disk_.tree_.kind(path); }
  result<std::unique_ptr<file_lock>> lock(const std::string& path) override;

  /// Lets it take its time; what befalls it, for faults that the caller plays out itself.
  result<std::optional<fault>> begin(operation what, const std::string& text,
                                     std::optional<std::uint64_t> generation = {}) {
    spend_(disk_.take(fault::slow) ? disk_.faults_[fault::slow].each : operation_takes);
    if (!alive_() || (generation && *generation != disk_.generation_))
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
  writer(port& from, std::string path, disk_tree::node_ptr file)
    : port_{from},
      path_{std::move(path)},
      file_{std::move(file)},
      generation_{from.disk().generation_} {}

  result<void> write(std::span<const std::byte> bytes) override {
    if (broken_)
      return *broken_;
    auto how = port_.begin(operation::write, "write " + path_, generation_);
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
    if (auto how = port_.begin(operation::other, "fsync " + path_, generation_); !how)
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
  disk_tree::node_ptr file_;
  std::uint64_t generation_;
  std::optional<failure> broken_{};
};

class sim_disk::reader final : public file_reader {
public:
  reader(port& from, std::string path, disk_tree::node_ptr file)
    : port_{from},
      path_{std::move(path)},
      file_{std::move(file)},
      generation_{from.disk().generation_} {}
  std::uint64_t size_bytes() const override { return file_->now.size(); }

  result<void> read_at(std::uint64_t offset, std::span<std::byte> to) override {
    auto how = port_.begin(operation::read, "read " + path_, generation_);
    if (!how)
      return how.error();
    if (auto ok = disk_tree::read_at(*file_, path_, offset, to); !ok || to.empty())
      return ok;
    if (*how == fault::bit_flip) {
      auto bit = port_.disk().draws_.below(to.size() * 8);
      to[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    }
    return {};
  }

private:
  port& port_;
  std::string path_;
  disk_tree::node_ptr file_;
  std::uint64_t generation_;
};

result<std::unique_ptr<file_writer>> sim_disk::port::create(const std::string& path) {
  if (auto ok = begin_plain("create " + path); !ok)
    return ok.error();
  auto file = disk_.tree_.create(path);
  if (!file)
    return file.error();
  return std::unique_ptr<file_writer>{new writer{*this, path, *file}};
}

result<std::unique_ptr<file_reader>> sim_disk::port::open(const std::string& path) {
  if (auto ok = begin_plain("open " + path); !ok)
    return ok.error();
  auto file = disk_.tree_.open(path);
  if (!file)
    return file.error();
  return std::unique_ptr<file_reader>{new reader{*this, path, *file}};
}

result<void> sim_disk::port::rename(const std::string& from, const std::string& to) {
  if (auto ok = begin_plain("rename " + from + " to " + to); !ok)
    return ok;
  return disk_.tree_.rename(from, to);
}

result<void> sim_disk::port::remove(const std::string& path) {
  if (auto ok = begin_plain("remove " + path); !ok)
    return ok;
  return disk_.tree_.remove(path);
}

result<void> sim_disk::port::make_directories(const std::string& path) {
  if (auto ok = begin_plain("make directory " + path); !ok)
    return ok;
  return disk_.tree_.make_directories(path);
}

result<void> sim_disk::port::sync_directory(const std::string& path) {
  if (auto ok = begin_plain("fsync directory " + path); !ok)
    return ok;
  return disk_.tree_.sync_directory(path);
}

result<std::vector<std::string>> sim_disk::port::list(const std::string& path) {
  if (auto ok = begin_plain("list " + path); !ok)
    return ok.error();
  return disk_.tree_.list(path);
}

/// Goes with its holder or, before, with the process.
class sim_disk::held_lock final : public file_lock {
public:
  held_lock(sim_disk& disk, std::string path, std::uint64_t number)
    : disk_{disk}, path_{std::move(path)}, number_{number} {}
  ~held_lock() override { disk_.tree_.unlock(path_, number_); }

private:
  sim_disk& disk_;
  std::string path_;
  std::uint64_t number_;
};

result<std::unique_ptr<file_lock>> sim_disk::port::lock(const std::string& path) {
  if (!alive_())
    return make_failure(errc::io_failed, "lock " + path + ": the process has ended");
  auto number = disk_.tree_.lock(path);
  if (!number)
    return number.error();
  return std::unique_ptr<file_lock>{new held_lock{disk_, path, *number}};
}

std::unique_ptr<storage_port> sim_disk::open_port(std::function<bool()> alive,
                                                  std::function<void(duration)> spend) {
  return std::make_unique<port>(*this, std::move(alive), std::move(spend));
}

} // namespace troupe::sim
