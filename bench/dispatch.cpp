// How fast closures go from the program to workers and back: within one process against requests
// between bare CAF actors, over processes against bare CAF's network layer, and how long one takes
// alone. The closure does nothing, so this is all overhead. A closure has an answer, so the peers
// are requests with answers, pipelined; bare messages that nobody answers are a row of their own.
#include <exception>
#include <optional>

#include <troupe/troupe.hpp>

#include "detail/bare_caf.hpp"
#include "detail/bench.hpp"
#include "detail/child.hpp"

namespace tr = troupe;

namespace {

constexpr std::uint32_t workers = 2;
constexpr std::size_t requests_in_flight = 16;          // of bare CAF, at each worker
constexpr std::size_t process_requests_in_flight = 514; // as many as two workers take of ours

int nothing(tr::worker_context&) { return 1; }
TROUPE_FUNCTION(nothing);

// --- ours
// -----------------------------------------------------------------------------------------

/// A coordinator with its workers, here or in processes of their own.
class cluster_run {
public:
  explicit cluster_run(const tr::runtime_options& options)
    : rt_{options}, strategy_{rt_}, coordinator_{strategy_} {}

  /// Closures a second, with their results, from the first `schedule` to the end of `join`.
  double closures_per_s(std::size_t closures) {
    std::vector<tr::remote_value<int>> results;
    results.reserve(closures);
    const auto begin = bench::steady::now();
    for (std::size_t i = 0; i < closures; ++i)
      results.push_back(coordinator_.schedule(nothing));
    coordinator_.join();
    const double took = bench::seconds_since(begin);
    std::size_t sum = 0;
    for (const auto& r : results)
      sum += static_cast<std::size_t>(r.fetch());
    if (sum != closures)
      throw std::runtime_error("results are missing");
    return static_cast<double>(closures) / took;
  }

  /// Microseconds from `schedule` to the end of `fetch`, one closure at a time.
  std::vector<double> closure_us(std::size_t closures) {
    std::vector<double> out;
    out.reserve(closures);
    for (std::size_t i = 0; i < closures; ++i) {
      const auto begin = bench::steady::now();
      coordinator_.schedule(nothing).fetch();
      out.push_back(1e6 * bench::seconds_since(begin));
    }
    return out;
  }

  /// Until all workers are there: within processes the start waits for the first one only.
  void wait_for_workers() {
    while (coordinator_.workers().size() < workers)
      std::this_thread::sleep_for(std::chrono::milliseconds{10});
  }

private:
  tr::runtime rt_;
  tr::parameter_server_strategy strategy_;
  tr::cluster_coordinator coordinator_;
};

// --- rows
// -----------------------------------------------------------------------------------------

struct rate_rows {
  bench::row rate{};
  bench::row p50{};
  bench::row p99{};
};

rate_rows make_rows(const std::string& where, const std::string& peer,
                    const std::string& latency_peer) {
  rate_rows out;
  out.rate = {.name = where + "_closures_per_s",
              .unit = "1/s",
              .direction = bench::better::more,
              .peer = peer};
  out.p50 = {.name = where + "_latency_p50", .unit = "us", .peer = latency_peer};
  out.p99 = {.name = where + "_latency_p99", .unit = "us", .peer = latency_peer};
  for (auto* r : {&out.rate, &out.p50, &out.p99})
    r->params = {{"workers", std::to_string(workers)},
                 {"transport", bench::quoted(where == "process" ? "tcp" : "inproc")}};
  return out;
}

void add_latencies(rate_rows& to, const std::vector<double>& ours,
                   const std::vector<double>& peers) {
  to.p50.ours.push_back(bench::quantile(ours, 0.5));
  to.p99.ours.push_back(bench::quantile(ours, 0.99));
  to.p50.peers.push_back(bench::quantile(peers, 0.5));
  to.p99.peers.push_back(bench::quantile(peers, 0.99));
}

/// Bare CAF runs under both of its scheduler policies; its better one is the peer.
void measure_embedded(bench::report& out) {
  auto rows = make_rows("embedded", "bare_caf", "bare_caf");
  rows.rate.params.emplace_back("peer_in_flight", std::to_string(requests_in_flight * workers));
  {
    cluster_run ours{{.workers = workers, .servers = 1}};
    bench::bare_caf::host sharing{"sharing", false};
    bench::bare_caf::host stealing{"stealing", false};
    const auto two_on = [](bench::bare_caf::host& at) {
      return std::vector{at.system().spawn(bench::bare_caf::sink),
                         at.system().spawn(bench::bare_caf::sink)};
    };
    const auto sharers = two_on(sharing);
    const auto stealers = two_on(stealing);
    std::vector<double> shared;
    std::vector<double> stolen;
    for (int round = -1; round < out.rounds(); ++round) {
      const double mine = ours.closures_per_s(out.scaled(200'000));
      const double a = bench::bare_caf::requests_per_s(sharing.system(), sharers,
                                                       out.scaled(300'000), requests_in_flight);
      const double b = bench::bare_caf::requests_per_s(stealing.system(), stealers,
                                                       out.scaled(300'000), requests_in_flight);
      const auto alone = ours.closure_us(out.scaled(5'000));
      const auto peer_alone =
        bench::bare_caf::request_us(sharing.system(), sharers.front(), out.scaled(5'000));
      if (round < 0)
        continue;
      rows.rate.ours.push_back(mine);
      shared.push_back(a);
      stolen.push_back(b);
      add_latencies(rows, alone, peer_alone);
    }
    const bool sharing_wins = bench::median(shared) >= bench::median(stolen);
    rows.rate.peers = sharing_wins ? shared : stolen;
    rows.rate.params.emplace_back("peer_policy",
                                  bench::quoted(sharing_wins ? "sharing" : "stealing"));
  }
  out.add(std::move(rows.rate));
  out.add(std::move(rows.p50));
  out.add(std::move(rows.p99));
}

/// Two workers and a server as processes of their own, and a process with a bare CAF actor.
void measure_processes(bench::report& out) {
  auto rows = make_rows("process", "bare_basp", "bare_basp");
  rows.rate.params.emplace_back("peer_in_flight", std::to_string(process_requests_in_flight));
  bench::row one_way =
    make_rows("process", "basp_one_way", "").rate; // messages without answers: half the work
  one_way.name = "process_closures_vs_one_way";
  const auto address = "127.0.0.1:" + std::to_string(bench::free_port());
  const auto peer_port = bench::free_port();
  std::vector<bench::child> children;
  for (const char* role : {"worker:0", "worker:1", "ps:0"})
    children.emplace_back(std::vector<std::string>{"--serve", role, address});
  bench::child peer{{"--peer", std::to_string(peer_port)}};
  {
    tr::runtime_options options{.workers = workers, .servers = 1};
    options.task = tr::task_id{.job = tr::job_kind::chief, .index = 0};
    options.coordinator_address = address;
    options.start_workers = workers;
    cluster_run ours{options};
    ours.wait_for_workers();
    bench::bare_caf::host here{"stealing", true};
    auto remote = here.system().middleman().remote_actor("127.0.0.1", peer_port);
    for (int tries = 0; !remote && tries < 200; ++tries) {
      std::this_thread::sleep_for(std::chrono::milliseconds{20});
      remote = here.system().middleman().remote_actor("127.0.0.1", peer_port);
    }
    if (!remote)
      throw std::runtime_error("bare CAF's peer process does not answer");
    for (int round = -1; round < out.rounds(); ++round) {
      const double mine = ours.closures_per_s(out.scaled(100'000));
      const double streamed =
        bench::bare_caf::messages_per_s(here.system(), *remote, out.scaled(50'000));
      const auto alone = ours.closure_us(out.scaled(1'000));
      const double answered = bench::bare_caf::requests_per_s(
        here.system(), {*remote}, out.scaled(50'000), process_requests_in_flight);
      const auto peer_alone =
        bench::bare_caf::request_us(here.system(), *remote, out.scaled(1'000));
      if (round < 0)
        continue;
      rows.rate.ours.push_back(mine);
      rows.rate.peers.push_back(answered);
      one_way.ours.push_back(mine);
      one_way.peers.push_back(streamed);
      add_latencies(rows, alone, peer_alone);
    }
    caf::anon_send_exit(*remote, caf::exit_reason::user_shutdown);
  }
  for (auto& c : children)
    if (const int code = c.wait(); code != 0)
      rows.rate.note = "a process ended with " + std::to_string(code);
  out.add(std::move(rows.rate));
  out.add(std::move(one_way));
  out.add(std::move(rows.p50));
  out.add(std::move(rows.p99));
}

// --- roles
// ----------------------------------------------------------------------------------------

int serve(const std::string& role, const std::string& address) {
  const auto colon = role.find(':');
  tr::runtime_options options{.workers = workers, .servers = 1};
  options.task =
    tr::task_id{.job = role.substr(0, colon) == "ps" ? tr::job_kind::ps : tr::job_kind::worker,
                .index = static_cast<std::uint32_t>(std::stoul(role.substr(colon + 1)))};
  options.coordinator_address = address;
  return tr::runtime{options}.serve();
}

/// A bare CAF process with one actor, until that is told to end.
int serve_peer(std::uint16_t port) {
  bench::bare_caf::host here{"stealing", true};
  auto actor = here.system().spawn(bench::bare_caf::sink);
  if (!here.system().middleman().publish(actor, port, "127.0.0.1"))
    return 1;
  caf::scoped_actor self{here.system()};
  self->wait_for(actor);
  return 0;
}

} // namespace

int main(int argc, char** argv) try {
  const std::vector<std::string> args(argv + 1, argv + argc);
  if (args.size() == 3 && args[0] == "--serve")
    return serve(args[1], args[2]);
  if (args.size() == 2 && args[0] == "--peer")
    return serve_peer(static_cast<std::uint16_t>(std::stoul(args[1])));
  bench::report out{"dispatch", argc, argv};
  if (out.wants("embedded"))
    measure_embedded(out);
  if (out.wants("process"))
    measure_processes(out);
  return out.finish();
} catch (const std::exception& e) {
  std::fprintf(stderr, "dispatch: %s\n", e.what());
  return 1;
}
