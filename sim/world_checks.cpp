// What a world built by hand checks by itself, and how it is run again.
#include <troupe/sim/detail/core.hpp>
#include <troupe/sim/replay.hpp>

namespace troupe::sim {

world_options obey_environment(world_options options) {
  if (!options.from_environment)
    return options;
  options.seed = seed_or(options.seed);
  if (!options.trace_to && trace_is_wanted())
    options.trace_to = stdout;
  return options;
}

void world::core::begin_checks() {
  if (options.checks == world_checks::none)
    return;
  auto sink = [this](std::string rule, std::string text) {
    if (!checks_over)
      fail(std::move(rule), std::move(text));
  };
  panel.emplace(sink,
                checker_options{.queue_len_max = settings.queue_len_max,
                                .threads = settings.threads_per_worker,
                                .infrastructure_errors = options.checks == world_checks::beyond});
  observers.push_back(&*panel);
}

void world::core::end_checks(outcome how) {
  if (panel && violations.empty()) {
    if (how == outcome::ended) {
      judge_programs();
      if (violations.empty()) // what a program that broke off left open follows from it
        panel->at_end();
    } else if (auto waiting = panel->waiting(); !waiting.empty()) {
      fail(std::string{to_string(how)}, waiting);
    }
  }
  checks_over = true; // the end of the world itself is nobody's business
}

/// What a program threw, nobody else has seen.
void world::core::judge_programs() {
  for (const auto& e : exits) {
    const bool of_chief = e.node == chief;
    if (e.how == exit_record::threw && (of_chief || options.checks == world_checks::all))
      fail("program", to_string(e.node) + "'s program threw " + e.text);
    else if (e.how == exit_record::returned && of_chief && e.code != 0)
      fail("program", "the coordinator's program ended with " + std::to_string(e.code));
  }
}

} // namespace troupe::sim
