// How long checkpoints of very many small variables take: 20,000 of 16 floats with Adam, on two
// servers in processes of their own. What counts is what each variable costs beside its bytes.
#include <exception>
#include <memory>

#include <troupe/troupe.hpp>

#include "../tools/scratch_folder.hpp"
#include "detail/bench.hpp"
#include "detail/child.hpp"

namespace tr = troupe;

namespace {

constexpr std::size_t variables_full = 20'000;
constexpr std::int64_t len = 16;

/// Servers and a worker as processes of this program, the coordinator here.
class process_run {
public:
  process_run() {
    const auto address = "127.0.0.1:" + std::to_string(bench::free_port());
    for (const char* role : {"ps:0", "ps:1", "worker:0"})
      children_.push_back(bench::run_again({"--serve", role, address}));
    tr::runtime_options options{.workers = 1, .servers = 2};
    options.task = tr::task_id{.job = tr::job_kind::chief, .index = 0};
    options.coordinator_address = address;
    rt_ = std::make_unique<tr::runtime>(std::move(options));
    strategy_ = std::make_unique<tr::parameter_server_strategy>(*rt_);
    coordinator_ = std::make_unique<tr::cluster_coordinator>(*strategy_);
  }

  /// Seconds for making as many.
  double make(std::size_t n) {
    const auto begin = bench::steady::now();
    for (std::size_t i = 0; i < n; ++i)
      strategy_->create_variable({.name = "layer_" + std::to_string(i),
                                  .shape = {len},
                                  .initial = tr::constant(static_cast<float>(i)),
                                  .optimizer = tr::adam{1e-3f}});
    return bench::seconds_since(begin);
  }
  double save(const std::string& directory) {
    const auto begin = bench::steady::now();
    coordinator_->save(directory);
    return bench::seconds_since(begin);
  }
  /// A wrong restore is no measurement.
  double restore(const std::string& directory) {
    const auto last = strategy_->variables().back();
    const auto before = last.read();
    last.assign(tr::tensor::zeros(tr::dtype::f32, {len}));
    const auto begin = bench::steady::now();
    coordinator_->restore(directory);
    const double took = bench::seconds_since(begin);
    if (!(last.read() == before))
      throw std::runtime_error("the last variable was not restored");
    return took;
  }

private:
  std::vector<tool::child_process> children_{}; // end after the coordinator
  std::unique_ptr<tr::runtime> rt_{};
  std::unique_ptr<tr::parameter_server_strategy> strategy_{};
  std::unique_ptr<tr::cluster_coordinator> coordinator_{};
};

int serve(const std::string& role, const std::string& address) {
  tr::runtime_options options{.workers = 1, .servers = 2};
  options.task = bench::task_of(role);
  options.coordinator_address = address;
  return tr::runtime{options}.serve();
}

void measure(bench::report& out) {
  const std::size_t n = out.scaled(variables_full);
  const tool::scratch_folder here;
  process_run ours;
  bench::row made{.name = "create", .unit = "s"};
  bench::row saved{.name = "save", .unit = "s"};
  bench::row restored{.name = "restore", .unit = "s"};
  bench::row both{.name = "save_and_restore", .unit = "s"};
  for (auto* r : {&made, &saved, &restored, &both})
    r->params = {{"variables", std::to_string(n)}, {"len", std::to_string(len)}, {"servers", "2"}};
  made.ours = {ours.make(n)};
  for (int round = -1; round < out.rounds(); ++round) {
    const double save_s = ours.save(here.path());
    const double restore_s = ours.restore(here.path());
    if (round < 0)
      continue; // dials, and warms the allocators
    saved.ours.push_back(save_s);
    restored.ours.push_back(restore_s);
    both.ours.push_back(save_s + restore_s);
  }
  for (auto* r : {&made, &saved, &restored, &both})
    if (out.wants(r->name))
      out.add(std::move(*r));
}

} // namespace

int main(int argc, char** argv) try {
  const std::vector<std::string> args(argv + 1, argv + argc);
  if (args.size() == 3 && args[0] == "--serve")
    return serve(args[1], args[2]);
  bench::report out{"checkpoints", argc, argv};
  measure(out);
  return out.finish();
} catch (const std::exception& e) {
  std::fprintf(stderr, "checkpoints: %s\n", e.what());
  return 1;
}
