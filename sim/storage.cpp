#include <troupe/sim/storage.hpp>

#include <algorithm>

namespace troupe::sim {

sim_disk::sim_disk(std::uint64_t seed, std::string_view machine)
  : draws_{draw_stream{seed, "disk"}.at(hash_text(machine))} {}

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
  tree_.power_fail(draws_);
}

} // namespace troupe::sim
