// How fast closures go from the program to workers and back: within one process against requests
// between bare CAF actors, over processes against bare CAF's network layer, and how long one takes
// alone. The closure does nothing, so this is all overhead. A closure has an answer, so the peers
// are requests with answers, pipelined; bare messages that nobody answers are a row of their own,
// and so is a bare echo over Asio. `--only process_alone` leaves the peers out, for profiles.
#include <chrono>
#include <exception>
#include <optional>

#include <troupe/troupe.hpp>

#include "detail/asio_echo.hpp"
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
  rows.rate.aim = 0.25;
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

/// Bare CAF over processes under one scheduler policy: a system here, one in a process of its own.
class basp_peer {
public:
  basp_peer(std::string policy, std::size_t threads)
    : policy_{std::move(policy)},
      threads_{threads},
      port_{bench::free_port()},
      process_{
        bench::run_again({"--peer", std::to_string(port_), policy_, std::to_string(threads)})},
      here_{policy_, true, threads} {
    auto found = here_.system().middleman().remote_actor("127.0.0.1", port_);
    for (int tries = 0; !found && tries < 200; ++tries) {
      std::this_thread::sleep_for(std::chrono::milliseconds{20});
      found = here_.system().middleman().remote_actor("127.0.0.1", port_);
    }
    if (!found)
      throw std::runtime_error("bare CAF's peer process does not answer");
    remote_ = *found;
  }
  ~basp_peer() { caf::anon_send_exit(remote_, caf::exit_reason::user_shutdown); }

  void measure(const bench::report& out, bool counts) {
    namespace caf_bench = bench::bare_caf;
    auto& system = here_.system();
    const double s = caf_bench::messages_per_s(system, remote_, out.scaled(50'000));
    const double r =
      caf_bench::requests_per_s(system, {remote_}, out.scaled(50'000), process_requests_in_flight);
    const auto alone = caf_bench::request_us(system, remote_, out.scaled(1'000));
    if (!counts)
      return;
    one_way.push_back(s);
    answered.push_back(r);
    p50.push_back(bench::quantile(alone, 0.5));
    p99.push_back(bench::quantile(alone, 0.99));
  }
  std::string name() const { return policy_ + ", " + std::to_string(threads_); }

  std::vector<double> one_way{};
  std::vector<double> answered{};
  std::vector<double> p50{};
  std::vector<double> p99{};

private:
  std::string policy_;
  std::size_t threads_;
  std::uint16_t port_;
  tool::child_process process_;
  bench::bare_caf::host here_;
  caf::actor remote_{};
};

using basp_peers = std::vector<std::unique_ptr<basp_peer>>;

/// Gives the row the best of its peer's policies.
void add_best(bench::report& out, bench::row row, const basp_peers& peers,
              std::vector<double> basp_peer::*of) {
  const basp_peer* best = nullptr;
  for (const auto& p : peers) {
    const bool more = row.direction == bench::better::more;
    if (!best || more == (bench::median((*p).*of) > bench::median(best->*of)))
      best = p.get();
  }
  if (best) {
    row.peers = best->*of;
    row.params.emplace_back("peer_policy", bench::quoted(best->name()));
  }
  out.add(std::move(row));
}

/// What each policy reached by itself, as rows without a peer.
void add_policies(bench::report& out, const basp_peers& peers) {
  for (const auto& p : peers) {
    bench::row r{.name = "basp_" + p->name(), .unit = "1/s", .direction = bench::better::more};
    std::erase(r.name, ' ');
    std::replace(r.name.begin(), r.name.end(), ',', '_');
    const auto add = [&](const char* what, const char* unit, const std::vector<double>& samples) {
      auto one = r;
      one.name += what;
      one.unit = unit;
      one.direction = std::string{unit} == "us" ? bench::better::less : bench::better::more;
      one.ours = samples;
      out.add(std::move(one));
    };
    add("_requests", "1/s", p->answered);
    add("_one_way", "1/s", p->one_way);
    add("_p50", "us", p->p50);
    add("_p99", "us", p->p99);
  }
}

/// Two workers and a server as processes of their own; with `compare` also processes with a bare
/// CAF actor, under each scheduler policy, and one that echoes over Asio.
void measure_processes(bench::report& out, bool compare) {
  auto rows = make_rows("process", "bare_basp", "bare_basp");
  rows.rate.aim = 3;
  rows.p50.aim_value = 30;
  rows.rate.params.emplace_back("peer_in_flight", std::to_string(process_requests_in_flight));
  bench::row one_way =
    make_rows("process", "basp_one_way", "").rate; // messages without answers: half the work
  one_way.name = "process_closures_vs_one_way";
  auto echo = make_rows("process", "", "asio_echo");
  const auto address = "127.0.0.1:" + std::to_string(bench::free_port());
  const auto echo_port = bench::free_port();
  std::vector<tool::child_process> children;
  for (const char* role : {"worker:0", "worker:1", "ps:0"})
    children.push_back(bench::run_again({"--serve", role, address}));
  basp_peers peers;
  {
    tr::runtime_options options{.workers = workers, .servers = 1};
    options.task = tr::task_id{.job = tr::job_kind::chief, .index = 0};
    options.coordinator_address = address;
    options.start_workers = workers;
    cluster_run ours{options};
    ours.wait_for_workers();
    std::optional<bench::asio_echo::client> bare;
    if (compare) {
      children.push_back(bench::run_again({"--echo", std::to_string(echo_port)}));
      bare.emplace(echo_port);
      for (const char* policy : {"stealing", "sharing"})
        for (std::size_t threads : {1, 2})
          peers.push_back(std::make_unique<basp_peer>(policy, threads));
    }
    for (int round = -1; round < out.rounds(); ++round) {
      const double mine = ours.closures_per_s(out.scaled(100'000));
      const auto alone = ours.closure_us(out.scaled(1'000));
      const auto echoed = bare ? bare->round_trip_us(out.scaled(2'000)) : std::vector<double>{};
      for (auto& p : peers)
        p->measure(out, round >= 0);
      if (round < 0)
        continue;
      rows.rate.ours.push_back(mine);
      one_way.ours.push_back(mine);
      add_latencies(echo, alone, echoed);
    }
  }
  for (auto& c : children)
    if (const auto end = c.wait_or_kill(std::chrono::seconds{30}); !end.ok())
      rows.rate.note = "a process " + to_string(end);
  rows.p50.ours = echo.p50.ours;
  rows.p99.ours = echo.p99.ours;
  echo.p50.name = "process_latency_p50_vs_echo";
  echo.p99.name = "process_latency_p99_vs_echo";
  add_best(out, std::move(rows.rate), peers, &basp_peer::answered);
  if (compare)
    add_best(out, std::move(one_way), peers, &basp_peer::one_way);
  add_best(out, std::move(rows.p50), peers, &basp_peer::p50);
  add_best(out, std::move(rows.p99), peers, &basp_peer::p99);
  if (!compare)
    return;
  out.add(std::move(echo.p50));
  out.add(std::move(echo.p99));
  add_policies(out, peers);
}

// --- roles
// ----------------------------------------------------------------------------------------

int serve(const std::string& role, const std::string& address) {
  tr::runtime_options options{.workers = workers, .servers = 1};
  options.task = bench::task_of(role);
  options.coordinator_address = address;
  return tr::runtime{options}.serve();
}

/// A bare CAF process with one actor, until that is told to end.
int serve_peer(std::uint16_t port, const std::string& policy, std::size_t threads) {
  bench::bare_caf::host here{policy, true, threads};
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
  if (args.size() == 4 && args[0] == "--peer")
    return serve_peer(static_cast<std::uint16_t>(std::stoul(args[1])), args[2],
                      std::stoul(args[3]));
  if (args.size() == 2 && args[0] == "--echo")
    return bench::asio_echo::serve(static_cast<std::uint16_t>(std::stoul(args[1])));
  bench::report out{"dispatch", argc, argv};
  if (out.wants("embedded"))
    measure_embedded(out);
  if (out.wants("process_alone"))
    measure_processes(out, out.wants("process"));
  return out.finish();
} catch (const std::exception& e) {
  std::fprintf(stderr, "dispatch: %s\n", e.what());
  return 1;
}
