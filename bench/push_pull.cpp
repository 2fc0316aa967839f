// How fast tensors go between parameter servers and workers: one server, two workers that pull and
// push at the same time, over each way that Troupe has; beside it what bare sockets and bare copies
// reach. Everything is the production path: closures on workers, the parameter client, the
// server's thread, the optimizer's update. A pull or a push is whole: staged, checked, applied.
#include <array>
#include <atomic>
#include <exception>
#include <map>
#include <random>
#include <set>

#include <sys/mman.h>

#include <troupe/troupe.hpp>

#include "detail/bench.hpp"
#include "detail/child.hpp"
#include "detail/push_pull_limits.hpp"

namespace tr = troupe;

namespace {

constexpr std::uint32_t clients = 2;
constexpr std::int64_t table_rows = 1 << 20; // of 64 floats: 256 MiB
constexpr std::int64_t row_len = 64;
constexpr std::int64_t block_rows = 4096; // 1 MiB
constexpr std::int64_t blocks = 16;
constexpr std::size_t rows_asked = 10'000;
constexpr std::size_t id_sets = 16;

enum class traffic : std::int64_t {
  pull_dense = 0,        // 16 variables of 1 MiB in one read
  pull_large = 1,        // one variable of 64 MiB
  push_dense = 2,        // gradients of the 16
  push_large = 3,        // of the 64 MiB
  pull_sparse = 4,       // 10,000 ascending rows of 1 M
  pull_sparse_mixed = 5, // the same in random order
  push_sparse = 6
};

bool is_sparse(traffic what) { return what >= traffic::pull_sparse; }

// --- a meeting of the two workers
// -----------------------------------------------------------------------------------------

/// Memory that all processes of a run share: who is ready for which round.
struct meeting {
  static constexpr std::size_t rounds_max = 4096;
  std::array<std::atomic<std::uint32_t>, rounds_max> arrived{};

  static meeting*& place() {
    static meeting* at = nullptr;
    return at;
  }
  static int make() {
    const int fd = ::memfd_create("push-pull", MFD_CLOEXEC); // handed down to the children
    if (fd < 0 || ::ftruncate(fd, sizeof(meeting)) != 0)
      throw std::runtime_error("no memory to share with the workers");
    open(fd);
    return fd;
  }
  static void open(int fd) {
    void* at = ::mmap(nullptr, sizeof(meeting), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
      throw std::runtime_error("no memory to share with the workers");
    place() = static_cast<meeting*>(at);
  }
  /// Waits for the other one; false when it does not come.
  bool wait(std::int64_t round, tr::worker_context& ctx) {
    auto& here = arrived.at(static_cast<std::size_t>(round));
    ++here;
    const auto begin = bench::steady::now();
    while (here.load() < clients) {
      if (ctx.cancelled() || bench::seconds_since(begin) > 10)
        return false;
      std::this_thread::yield();
    }
    return true;
  }
};

// --- the step
// -----------------------------------------------------------------------------------------

std::vector<std::int64_t> random_rows(std::uint64_t seed, bool ascending) {
  std::mt19937_64 random{seed};
  std::set<std::int64_t> rows;
  while (rows.size() < rows_asked)
    rows.insert(static_cast<std::int64_t>(random() % table_rows));
  std::vector<std::int64_t> out(rows.begin(), rows.end());
  if (!ascending)
    std::shuffle(out.begin(), out.end(), random);
  return out;
}

/// What a worker has at hand before the clock starts.
struct materials {
  std::vector<tr::tensor> ascending{};
  std::vector<tr::tensor> mixed{};
  std::vector<tr::tensor> dense{};
  tr::tensor large = tr::tensor::zeros(tr::dtype::f32, {64 * block_rows, row_len});
  tr::tensor rows = tr::tensor::zeros(tr::dtype::f32, {rows_asked, row_len});

  explicit materials(std::uint32_t worker) {
    const auto as_tensor = [](const std::vector<std::int64_t>& x) {
      return tr::tensor::of<std::int64_t>({static_cast<std::int64_t>(x.size())}, x);
    };
    for (std::uint64_t i = 0; i < id_sets; ++i) {
      ascending.push_back(as_tensor(random_rows(100 * worker + i, true)));
      mixed.push_back(as_tensor(random_rows(100 * worker + i, false)));
      dense.push_back(tr::tensor::zeros(tr::dtype::f32, {block_rows, row_len}));
    }
  }
  static const materials& of(std::uint32_t worker) { // embedded both workers are in one process
    static const std::array<materials, clients> all{materials{0}, materials{1}};
    return all.at(worker);
  }
};

void check_rows(const tr::tensor& got, const tr::tensor& rows) {
  // Row r of the table is 1 at every place; gradients are 0, so it stays.
  const auto values = got.as<float>();
  if (got.shape() != tr::shape_t{rows.size(), row_len} || values.front() != 1.0f
      || values.back() != 1.0f)
    throw std::runtime_error("other rows than asked for");
}

/// Does `times` transfers of one kind together with the other worker; the seconds it took, -1 when
/// the other did not come. The first one is for warming up.
double traffic_step(tr::worker_context& ctx, std::int64_t kind, std::int64_t times,
                    std::int64_t round, const tr::variable_list& v) {
  const auto what = static_cast<traffic>(kind);
  const materials& have = materials::of(ctx.worker().index);
  const auto once = [&](std::int64_t i) {
    const auto set = static_cast<std::size_t>(i) % id_sets;
    switch (what) {
      case traffic::pull_dense:
      case traffic::pull_large:
        for (const auto& value : ctx.read(v))
          if (value.blocks.front().values.as<float>().back() != 1.0f)
            throw std::runtime_error("another value than the servers have");
        break;
      case traffic::push_dense: ctx.apply(v, have.dense); break;
      case traffic::push_large: ctx.apply(v[0], have.large); break;
      case traffic::pull_sparse:
        check_rows(v[0].gather(have.ascending[set]), have.ascending[set]);
        break;
      case traffic::pull_sparse_mixed:
        check_rows(v[0].gather(have.mixed[set]), have.mixed[set]);
        break;
      case traffic::push_sparse:
        ctx.apply(v[0], tr::sparse_gradient{have.ascending[set], have.rows});
        break;
    }
  };
  once(0);
  if (what == traffic::push_dense || what == traffic::push_large || what == traffic::push_sparse)
    ctx.read(v[1]); // comes behind the push: what was sent before the clock starts is done
  if (!meeting::place()->wait(round, ctx))
    return -1;
  const auto begin = bench::steady::now();
  for (std::int64_t i = 0; i < times; ++i)
    once(i);
  if (what == traffic::push_dense || what == traffic::push_large || what == traffic::push_sparse)
    ctx.read(v[1]);
  return bench::seconds_since(begin);
}
TROUPE_FUNCTION(traffic_step);

// --- ours
// -----------------------------------------------------------------------------------------

/// A coordinator with one server and two workers, here or in processes of their own.
class cluster_run {
public:
  explicit cluster_run(const tr::runtime_options& options)
    : rt_{options}, strategy_{rt_}, coordinator_{strategy_} {
    strategy_.scope([&] {
      const auto make = [](const std::string& name, std::int64_t rows) {
        return tr::create_variable({.name = name,
                                    .shape = {rows, row_len},
                                    .initial = tr::constant(1.0),
                                    .optimizer = tr::sgd{0.5f}});
      };
      for (std::int64_t i = 0; i < blocks; ++i)
        dense_.push_back(make("dense" + std::to_string(i), block_rows));
      large_ = {make("large", 64 * block_rows), make("tiny", 1)};
      table_ = {make("table", table_rows), make("small", 1)};
    });
    while (coordinator_.workers().size() < clients)
      std::this_thread::sleep_for(std::chrono::milliseconds{10});
  }

  /// Transfers of both workers in a second.
  double per_s(traffic what, std::int64_t times) {
    const auto& of = is_sparse(what)                                              ? table_
                     : what == traffic::pull_large || what == traffic::push_large ? large_
                                                                                  : dense_;
    for (int tries = 0; tries < 5; ++tries) {
      const std::int64_t round = next_round++;
      std::vector<tr::remote_value<double>> took;
      for (std::uint32_t i = 0; i < clients; ++i)
        took.push_back(
          coordinator_.schedule(traffic_step, static_cast<std::int64_t>(what), times, round, of));
      coordinator_.join();
      const double a = took[0].fetch();
      const double b = took[1].fetch();
      if (a > 0 && b > 0)
        return static_cast<double>(clients) * static_cast<double>(times) / std::max(a, b);
    }
    throw std::runtime_error("the two workers never worked at the same time");
  }

private:
  static inline std::int64_t next_round = 0;
  tr::runtime rt_;
  tr::parameter_server_strategy strategy_;
  tr::cluster_coordinator coordinator_;
  tr::variable_list dense_{};
  tr::variable_list large_{};
  tr::variable_list table_{};
};

tr::runtime_options options_for(const std::string& way) {
  tr::runtime_options out{.workers = clients, .servers = 1};
  out.shared_memory = way != "tcp";
  return out;
}

/// Server and workers as processes of this program, the coordinator here.
class process_run {
public:
  process_run(const std::string& way, int page) {
    const auto address = "127.0.0.1:" + std::to_string(bench::free_port());
    for (const char* role : {"ps:0", "worker:0", "worker:1"})
      children_.push_back(bench::run_again({"--serve", role, address, way}, {page}));
    auto options = options_for(way);
    options.task = tr::task_id{.job = tr::job_kind::chief, .index = 0};
    options.coordinator_address = address;
    options.start_workers = clients;
    ours_ = std::make_unique<cluster_run>(options);
  }
  cluster_run& operator*() { return *ours_; }

private:
  std::vector<tool::child_process> children_{}; // end after the coordinator
  std::unique_ptr<cluster_run> ours_{};
};

int serve(const std::string& role, const std::string& address, const std::string& way) {
  meeting::open(tool::handed_down(0));
  auto options = options_for(way);
  options.task = bench::task_of(role);
  options.coordinator_address = address;
  if (options.task->job == tr::job_kind::worker)
    materials::of(0); // before the clock of the first round
  return tr::runtime{options}.serve();
}

// --- rows
// -----------------------------------------------------------------------------------------

struct kind_of_row {
  traffic what{};
  const char* name = "";
  double bytes = 0; ///< of one transfer; 0: counted in rows
  std::size_t times = 0;
  double aim_tcp = 0; ///< GB/s or M rows/s; 0: none
  double aim_shm = 0;
};

constexpr double mib = 1 << 20;
// The aims: 1.8 times over TCP, 5 times over shared memory, what ps-lite did on another machine.
const std::array<kind_of_row, 7> kinds{
  {{traffic::pull_dense, "pull_dense", 16 * mib, 20, 2.61, 7.25},
   {traffic::push_dense, "push_dense", 16 * mib, 20, 2.65, 7.35},
   {traffic::pull_large, "pull_dense_large", 64 * mib, 5},
   {traffic::push_large, "push_dense_large", 64 * mib, 5},
   {traffic::pull_sparse, "pull_sparse", 0, 100, 9.0, 25},
   {traffic::pull_sparse_mixed, "pull_sparse_mixed", 0, 100},
   {traffic::push_sparse, "push_sparse", 0, 100, 7.7, 21.5}}};

bool is_push(traffic what) {
  return what == traffic::push_dense || what == traffic::push_large || what == traffic::push_sparse;
}

/// A pull within a process copies nothing: there is no limit to hold it against.
bool by_pointer(traffic what, const std::string& way) {
  return way == "inproc" && (what == traffic::pull_dense || what == traffic::pull_large);
}

double limit_of(bench::traffic_limits& limits, const kind_of_row& kind, const std::string& way,
                bool quick) {
  static const auto rows = random_rows(1, true);
  const std::size_t chunks = quick ? 50 : 400;
  if (way == "tcp") {
    const double bytes = limits.raw_tcp(chunks, is_push(kind.what));
    return kind.bytes > 0 ? bytes / 1e9 : bytes / bench::traffic_limits::row_bytes / 1e6;
  }
  return kind.bytes > 0 ? limits.memory_copy(chunks) / 1e9
                        : limits.gather(rows, quick ? 5 : 40) / 1e6;
}

void measure(bench::report& out, const std::vector<std::string>& ways,
             std::map<std::string, cluster_run*> clusters) {
  bench::traffic_limits limits;
  for (const auto& kind : kinds) {
    std::vector<bench::row> rows;
    for (const auto& way : ways) {
      bench::row r{.name = std::string{kind.name} + "_" + way,
                   .unit = kind.bytes > 0 ? "GB/s" : "M rows/s",
                   .direction = bench::better::more,
                   .peer = way == "tcp"     ? "limit_raw_tcp"
                           : kind.bytes > 0 ? "limit_memcpy"
                                            : "limit_gather"};
      r.params = {{"transport", bench::quoted(way)},
                  {"clients", std::to_string(clients)},
                  {"servers", "1"},
                  {kind.bytes > 0 ? "bytes" : "rows",
                   bench::number(kind.bytes > 0 ? kind.bytes : rows_asked, 9)}};
      r.aim_value = way == "tcp" ? kind.aim_tcp : way == "shm" ? kind.aim_shm : 0;
      if (out.wants(r.name))
        rows.push_back(std::move(r));
    }
    std::vector<std::function<double()>> contenders;
    std::vector<std::string> asked;
    for (const auto& r : rows)
      asked.push_back(r.name.substr(std::string{kind.name}.size() + 1));
    for (const auto& way : asked) {
      contenders.emplace_back([&, way] {
        const double per_s =
          clusters.at(way)->per_s(kind.what, static_cast<std::int64_t>(out.scaled(kind.times)));
        return per_s * (kind.bytes > 0 ? kind.bytes / 1e9 : rows_asked / 1e6);
      });
      contenders.emplace_back([&, way] { return limit_of(limits, kind, way, out.quick()); });
    }
    const auto samples = out.interleave(contenders);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      rows[i].ours = samples[2 * i];
      if (!by_pointer(kind.what, asked[i]))
        rows[i].peers = samples[2 * i + 1];
      out.add(std::move(rows[i]));
    }
  }
}

} // namespace

int main(int argc, char** argv) try {
  const std::vector<std::string> args(argv + 1, argv + argc);
  if (args.size() == 4 && args[0] == "--serve")
    return serve(args[1], args[2], args[3]);
  bench::report out{"push_pull", argc, argv};
  const int page = meeting::make();
  process_run over_tcp{"tcp", page};
  process_run over_memory{"shm", page};
  cluster_run embedded{options_for("inproc")};
  measure(out, {"tcp", "shm", "inproc"},
          {{"tcp", &*over_tcp}, {"shm", &*over_memory}, {"inproc", &embedded}});
  return out.finish();
} catch (const std::exception& e) {
  std::fprintf(stderr, "push_pull: %s\n", e.what());
  return 1;
}
