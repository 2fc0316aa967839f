#include <troupe/sim/tools/commands.hpp>

#include <cinttypes>
#include <cstdio>

#include <troupe/core/planted.hpp>
#include <troupe/sim/fault_guard.hpp>
#include <troupe/sim/lists.hpp>
#include <troupe/sim/scenarios/registry.hpp>
#include <troupe/sim/tools/failure_file.hpp>
#include <troupe/sim/tools/shrink.hpp>

namespace troupe::sim {

namespace {

void print_line(std::string_view id, std::string_view text) {
  std::printf("%-28.*s %.*s\n", static_cast<int>(id.size()), id.data(),
              static_cast<int>(text.size()), text.data());
}

// --- planted bugs

/// False when there is none of that name here.
bool wake(const std::string& bug) {
  if (bug.empty())
    return true;
#ifdef TROUPE_PLANT_BUGS
  for (const auto& b : planted_bugs())
    if (b.name == bug) {
      plant(b.which);
      return true;
    }
  std::fprintf(stderr, "troupe-sim: unknown planted bug '%s'; see troupe-sim list bugs\n",
               bug.c_str());
#else
  std::fprintf(
    stderr,
    "troupe-sim: this build does not contain the planted bug '%s'; build with ./dev planted\n",
    bug.c_str());
#endif
  return false;
}

int list_bugs() {
#ifdef TROUPE_PLANT_BUGS
  for (const auto& b : planted_bugs())
    print_line(b.name, b.text);
  return 0;
#else
  std::fputs("troupe-sim: this build contains no planted bugs; build with ./dev planted\n", stderr);
  return 2;
#endif
}

// --- one run

void print_plan(const run_spec& spec) {
  failure_file file;
  file.spec = spec;
  file.build = build_text();
  file.commit = commit_text();
  std::fputs(to_json(file).c_str(), stdout);
}

/// Marks between the lines of the trace, which has events only.
class mark_printer final : public observer {
public:
  void on_event(const observed&) override {}
  void on_mark(const node_name& node, std::string_view mark) override {
    std::printf("%14s %s mark %.*s\n", "", to_string(node).c_str(), static_cast<int>(mark.size()),
                mark.data());
  }
};

run_result run_traced(const run_spec& spec, bool trace) {
  mark_printer marks;
  return run_scenario(spec,
                      {.trace_to = trace ? stdout : nullptr, .also = trace ? &marks : nullptr});
}

void print_end(const run_result& out) {
  if (!out.ok())
    std::printf("%s\n", out.text().c_str());
  std::printf("events: %" PRIu64 "\nhash: 0x%016" PRIx64 "\n", out.rep.events, out.rep.hash);
}

int do_run(const run_command& what) {
  auto spec = draw_spec(*find_scenario(what.scenario), what.seed);
  if (what.trace)
    std::printf("%s\n", replay_command(what.scenario, what.seed).c_str());
  if (what.faults)
    print_plan(spec);
  auto out = run_traced(spec, what.trace);
  print_end(out);
  return out.ok() ? 0 : 1;
}

// --- swarm

int do_swarm(const swarm_command& what) {
  if (auto ok = check_failures_directory(what.swarm.failures); !ok) {
    std::fprintf(stderr, "troupe-sim: --failures: %s\n", ok.error().text.c_str());
    return 2;
  }
  auto told = [](const swarm_failure& failed) {
    std::printf("failed: %s seed %" PRIu64 " %s: %s\n", failed.scenario.c_str(), failed.seed,
                failed.out.rule.c_str(), failed.out.text.c_str());
    if (failed.unwritten.empty())
      std::printf("  replay: build/troupe-sim replay %s\n", failed.file.c_str());
    else
      std::printf("  %s\n  replay: %s\n", failed.unwritten.c_str(),
                  replay_command(failed.scenario, failed.seed).c_str());
    std::fflush(stdout);
  };
  auto out = run_swarm(what.swarm, told);
  print(stdout, out);
  return out.ok() ? 0 : 1;
}

// --- failures

/// Whether this program can run it; says why not.
bool usable(const std::string& path, const failure_file& file) {
  auto why = unusable(file);
  if (!why.empty())
    std::fprintf(stderr, "troupe-sim: %s: %s\n", path.c_str(), why.c_str());
  return why.empty();
}

/// The run that was recorded: its picks, whatever drew them.
run_spec recorded(const failure_file& file) {
  auto out = file.spec;
  if (!out.picks.empty())
    out.order = order_kind::replay;
  return out;
}

void compare(const failure_file& file, const run_result& out) {
  if (file.invariant.empty())
    return;
  if (out.rule() != file.invariant)
    std::printf("different result: the file records %s, this run %s\n", file.invariant.c_str(),
                out.ok() ? "passed" : out.rule().c_str());
  else if (file.hash != 0 && file.hash != out.rep.hash)
    std::printf(
      "same invariant, different hash: the code or the build has changed (recorded with %s, commit "
      "%s)\n",
      file.build.c_str(), file.commit.empty() ? "unknown" : file.commit.c_str());
  else
    std::printf("same failure as recorded\n");
}

int replay_one(const std::string& path, bool quiet) {
  auto file = read_failure(path);
  if (!file) {
    std::fprintf(stderr, "troupe-sim: %s\n", to_string(file.error()).c_str());
    return 2;
  }
  if (!usable(path, *file))
    return 2;
  std::printf("build/troupe-sim replay %s\n", path.c_str());
#ifdef TROUPE_PLANT_BUGS
  if (!wake(file->bug))
    return 2;
#else
  if (!file->bug.empty())
    std::printf("this build does not contain the planted bug %s\n", file->bug.c_str());
#endif
  std::fflush(stdout);
  auto out = run_traced(recorded(*file), !quiet);
  print_end(out);
  compare(*file, out);
  return out.ok() ? 0 : 1;
}

int do_replay(const replay_command_options& what) {
  int worst = 0;
  for (const auto& path : what.files)
    worst = std::max(worst, replay_one(path, what.quiet));
  return worst;
}

std::string beside(const std::string& path) {
  constexpr std::string_view ending = ".json";
  auto stem = path.ends_with(ending) ? path.substr(0, path.size() - ending.size()) : path;
  return stem + ".shrunk.json";
}

shrink_options options_for(const shrink_command& what, const failure_file& file) {
  const auto* s = find_scenario(file.spec.scenario);
  shrink_options out{.runs_max = what.runs_max};
  out.shape_min = s->shape_min;
  out.shape_min.closures = 1;
  if (fault_guard{s->faults, file.spec.shape}.complaints(file.spec.plan).empty())
    out.allowed = [s](const run_spec& spec) {
      return fault_guard{s->faults, spec.shape}.complaints(spec.plan).empty();
    };
  out.say = [](const std::string& line) {
    std::printf("shrink: %s\n", line.c_str());
    std::fflush(stdout);
  };
  return out;
}

/// The failure of `file` when it can be made again, by its seed or else by its picks.
std::optional<run_spec> confirm(failure_file& file, const shrinker::run_function& run) {
  auto drawn = file.spec;
  if (drawn.order != order_kind::replay)
    drawn.picks.clear();
  for (const auto& spec : {drawn, recorded(file)}) {
    auto out = run(spec);
    if (out.ok() || (!file.invariant.empty() && out.rule != file.invariant))
      continue;
    file.invariant = out.rule;
    return spec;
  }
  return std::nullopt;
}

int do_shrink(const shrink_command& what) {
  auto file = read_failure(what.file);
  if (!file)
    throw_failure(file.error());
  if (!usable(what.file, *file) || !wake(file->bug))
    return 2;
  auto run = [](const run_spec& spec) { return run_contained(spec, false, {}); };
  auto from = confirm(*file, run);
  if (!from) {
    std::fprintf(stderr, "troupe-sim: %s: no longer fails with %s\n", what.file.c_str(),
                 file->invariant.c_str());
    return 2;
  }
  shrinker small{file->invariant, run, options_for(what, *file)};
  file->spec = small.shrink(*from);
  auto last = run(file->spec);
  file->text = last.text;
  file->hash = last.hash;
  file->events = last.events;
  file->build = build_text();
  file->commit = commit_text();
  auto to = what.to.empty() ? beside(what.file) : what.to;
  if (auto ok = write_failure(to, *file); !ok)
    throw_failure(ok.error());
  std::printf("%s: %zu faults, %" PRIu64 " events, %u runs\n  replay: build/troupe-sim replay %s\n",
              file->invariant.c_str(), file->spec.plan.faults.size(), last.events, small.runs(),
              to.c_str());
  return 0;
}

// --- lists

int do_list(const list_command& what) {
  switch (what.what) {
    case list_command::scenarios:
      for (const auto* s : all_scenarios())
        print_line(s->name, s->text);
      return 0;
    case list_command::invariants:
      for (const auto& line : known_invariants())
        print_line(line.id, line.text);
      return 0;
    case list_command::marks: {
      auto out = run_swarm(what.swarm, [](const swarm_failure&) {});
      print_marks(stdout, out.marks);
      return out.ok() ? 0 : 1;
    }
    case list_command::bugs: return list_bugs();
  }
  return 2;
}

int do_usage(const usage& what) {
  std::fputs(what.text.c_str(), what.code == 0 ? stdout : stderr);
  return what.code;
}

} // namespace

int do_command(const sim_command& command) {
  if (!wake(command.bug))
    return 2;
  return std::visit(
    [](const auto& what) {
      using command_type = std::decay_t<decltype(what)>;
      if constexpr (std::is_same_v<command_type, usage>)
        return do_usage(what);
      else if constexpr (std::is_same_v<command_type, run_command>)
        return do_run(what);
      else if constexpr (std::is_same_v<command_type, swarm_command>)
        return do_swarm(what);
      else if constexpr (std::is_same_v<command_type, replay_command_options>)
        return do_replay(what);
      else if constexpr (std::is_same_v<command_type, shrink_command>)
        return do_shrink(what);
      else
        return do_list(what);
    },
    command.what);
}

} // namespace troupe::sim
