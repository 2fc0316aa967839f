#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <troupe/core/environment.hpp>
#include <troupe/core/random.hpp>
#include <troupe/sim/disk_tree.hpp>

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

/// What survives a crash of the machine is what POSIX promises (`sim::disk_tree`); `crash` chooses
/// by its seed.
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
    tree_.power_fail(pick);
    ++generation_;
    tree_.unlock_all();
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
    auto out = tree_.content(path);
    TROUPE_ASSERT(out, "content of a file that is there");
    return *std::move(out);
  }
  /// Replaces the content, durably. @pre the file is there.
  void set_content(const std::string& path, std::string bytes) {
    const std::lock_guard lock{mutex_};
    const bool is_there = tree_.set_content(path, std::move(bytes));
    TROUPE_ASSERT(is_there, "content of a file that is there");
  }
  /// Puts a link there, durably: `path` stands for `target`, which may be absent. @pre the parent
  /// is there and the name is free.
  void make_link(const std::string& target, const std::string& path) {
    const std::lock_guard lock{mutex_};
    const bool made = tree_.make_link(target, path);
    TROUPE_ASSERT(made, "room for a link");
  }
  /// Locks that are held.
  std::size_t locks() const {
    const std::lock_guard lock{mutex_};
    return tree_.locks();
  }
  /// Paths of all files, sorted.
  std::vector<std::string> files() const {
    const std::lock_guard lock{mutex_};
    return tree_.files();
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
    auto file = tree_.create(path);
    if (!file)
      return file.error();
    return std::unique_ptr<file_writer>{new writer{*this, path, *file}};
  }

  result<std::unique_ptr<file_reader>> open(const std::string& path) override {
    const std::lock_guard lock{mutex_};
    if (auto no = operate("open " + path))
      return *no;
    auto file = tree_.open(path);
    if (!file)
      return file.error();
    return std::unique_ptr<file_reader>{new reader{*this, path, *file}};
  }

  result<void> rename(const std::string& from, const std::string& to) override {
    const std::lock_guard lock{mutex_};
    if (auto no = operate("rename " + from + " " + to))
      return *no;
    return tree_.rename(from, to);
  }

  result<void> remove(const std::string& path) override {
    const std::lock_guard lock{mutex_};
    if (auto no = operate("remove " + path))
      return *no;
    return tree_.remove(path);
  }

  result<void> make_directories(const std::string& path) override {
    const std::lock_guard lock{mutex_};
    if (auto no = operate("make_directories " + path))
      return *no;
    return tree_.make_directories(path);
  }

  result<void> sync_directory(const std::string& path) override {
    const std::lock_guard lock{mutex_};
    if (auto no = operate("sync_directory " + path))
      return *no;
    return tree_.sync_directory(path);
  }

  result<std::vector<std::string>> list(const std::string& path) override {
    const std::lock_guard lock{mutex_};
    if (auto no = operate("list " + path))
      return *no;
    return tree_.list(path);
  }

  bool exists(const std::string& path) override {
    const std::lock_guard lock{mutex_};
    return tree_.exists(path);
  }

  result<file_kind> kind(const std::string& path) override {
    const std::lock_guard lock{mutex_};
    return tree_.kind(path);
  }

  /// Held until it goes or the machine crashes. No file stands for it.
  result<std::unique_ptr<file_lock>> lock(const std::string& path) override {
    const std::lock_guard lock{mutex_};
    if (auto no = operate("lock " + path))
      return *no;
    auto number = tree_.lock(path);
    if (!number)
      return number.error();
    return std::unique_ptr<file_lock>{new held_lock{*this, path, *number}};
  }

private:
  using node_ptr = sim::disk_tree::node_ptr;
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
      disk_.tree_.unlock(path_, number_);
    }

  private:
    fake_storage& disk_;
    std::string path_;
    std::uint64_t number_;
  };

  class writer final : public file_writer {
  public:
    writer(fake_storage& disk, std::string path, node_ptr file)
      : disk_{disk},
        path_{std::move(path)},
        file_{std::move(file)},
        generation_{disk.generation_} {}
    result<void> write(std::span<const std::byte> bytes) override {
      const std::lock_guard lock{disk_.mutex_};
      const std::string_view text{reinterpret_cast<const char*>(bytes.data()), bytes.size()};
      if (auto no =
            disk_.operate("write " + path_ + " " + std::to_string(bytes.size()), generation_)) {
        if (generation_ == disk_.generation_)
          file_->now += text.substr(0, text.size() / 2);
        return *no;
      }
      file_->now += text;
      return {};
    }
    result<void> sync() override {
      const std::lock_guard lock{disk_.mutex_};
      if (auto no = disk_.operate("sync " + path_, generation_))
        return *no;
      file_->durable = file_->now;
      return {};
    }
    result<void> close() override {
      const std::lock_guard lock{disk_.mutex_};
      if (auto no = disk_.operate("close " + path_, generation_))
        return *no;
      return {};
    }

  private:
    fake_storage& disk_;
    std::string path_;
    node_ptr file_;
    std::uint64_t generation_;
  };

  class reader final : public file_reader {
  public:
    reader(fake_storage& disk, std::string path, node_ptr file)
      : disk_{disk},
        path_{std::move(path)},
        file_{std::move(file)},
        generation_{disk.generation_} {}
    std::uint64_t size_bytes() const override {
      const std::lock_guard lock{disk_.mutex_};
      return file_->now.size();
    }
    result<void> read_at(std::uint64_t offset, std::span<std::byte> to) override {
      const std::lock_guard lock{disk_.mutex_};
      if (auto no = disk_.operate("read " + path_ + " " + std::to_string(to.size()), generation_))
        return *no;
      if (auto ok = sim::disk_tree::read_at(*file_, path_, offset, to); !ok)
        return ok;
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
    std::uint64_t generation_;
  };

  /// Counts and logs an operation; a failure when it is to fail. @pre mutex held.
  std::optional<failure> operate(std::string what, std::optional<std::uint64_t> generation = {}) {
    const auto number = operations_++;
    const bool dead = generation && *generation != generation_;
    const bool hit =
      fault_ && (number == fault_->operation || (fault_->lasting && number > fault_->operation));
    log_.push_back(what + (dead || hit ? " failed" : ""));
    if (dead)
      return make_failure(errc::io_failed, what + ": opened before the crash");
    if (hit)
      return make_failure(fault_->code, what + ": injected");
    return {};
  }

  mutable std::mutex mutex_{};
  sim::disk_tree tree_{};
  std::uint64_t operations_ = 0;
  std::uint64_t reads_ = 0;
  std::uint64_t generation_ = 0;
  std::optional<fault> fault_{};
  std::optional<std::pair<std::uint64_t, std::uint64_t>> flip_{};
  std::vector<std::string> log_{};
};

} // namespace troupe::testing
