#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include <troupe/core/environment.hpp>

namespace troupe::detail {

/// A file that takes its place only once it is whole: written beside it under a temporary name,
/// synced and renamed. Without `close` it goes with this. One thread at a time; movable.
class whole_file {
public:
  /// `storage` outlives it.
  static result<whole_file> create(storage_port& storage, std::string path);
  ~whole_file();
  whole_file(whole_file&&) noexcept;
  whole_file& operator=(whole_file&&) = delete;

  result<void> write(std::span<const std::byte> bytes);
  /// Puts it in place; on return it survives a crash. No call may follow.
  result<void> close();

private:
  struct state;
  explicit whole_file(std::unique_ptr<state> made);
  std::unique_ptr<state> state_;
};

} // namespace troupe::detail
