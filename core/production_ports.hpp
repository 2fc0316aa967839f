#pragma once

#include <memory>

#include <troupe/core/environment.hpp>

namespace troupe {

/// The machine behind the ports, all but the data transport, which lives above `core`:
///
///   auto ports = make_production_ports();
///   environment env{ports->clock(), ports->random(), ports->storage(),
///                   ports->threads(), ports->waits(), transport};
///
/// - clock: `now()` counts the nanoseconds of std::chrono::steady_clock, so that a transport can
///   hand deadlines to the system as they are.
/// - random: the kernel's generator; `purpose` makes no difference.
/// - storage: the file system (`core/detail/production_storage.hpp`).
/// - threads: an OS thread each. A body that throws ends the process, as in any thread.
/// - waits: condition variables.
///
/// Any thread. Outlives every thread and actor that uses it.
class production_ports {
public:
  virtual ~production_ports() = default;
  virtual clock_port& clock() = 0;
  virtual random_port& random() = 0;
  virtual storage_port& storage() = 0;
  virtual thread_port& threads() = 0;
  virtual wait_port& waits() = 0;
};

std::unique_ptr<production_ports> make_production_ports();

} // namespace troupe
