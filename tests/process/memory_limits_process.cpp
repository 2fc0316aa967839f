// Processes that run out of memory: the call that asked for too much fails, by name; the process
// lives, what was half made goes, and the next call is well.
#include <doctest/doctest.h>

#include <fstream>

#include <sys/resource.h>

#include "../support/sanitized.hpp"
#include "../support/thrown.hpp"
#include "counting_cluster.hpp"

namespace {

/// Under a sanitizer the same calls are made without a limit, and must succeed.
constexpr bool is_limited = !troupe::testing::is_sanitized;

constexpr rlim_t mib = rlim_t{1} << 20;

/// What a process has mapped.
rlim_t mapped_bytes(pid_t pid) {
  std::ifstream file{"/proc/" + std::to_string(pid) + "/statm"};
  rlim_t pages = 0;
  file >> pages;
  return pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
}

/// Lets a process have `more` bytes than it has now, until the object goes.
class memory_limit {
public:
  memory_limit(pid_t pid, rlim_t more) : pid_{pid} {
    if (!is_limited)
      return;
    rlimit wanted{};
    REQUIRE(prlimit(pid_, RLIMIT_AS, nullptr, &before_) == 0);
    wanted = {.rlim_cur = mapped_bytes(pid_) + more, .rlim_max = before_.rlim_max};
    REQUIRE(prlimit(pid_, RLIMIT_AS, &wanted, nullptr) == 0);
  }
  ~memory_limit() {
    if (is_limited)
      prlimit(pid_, RLIMIT_AS, &before_, nullptr);
  }
  memory_limit(const memory_limit&) = delete;
  memory_limit& operator=(const memory_limit&) = delete;

private:
  pid_t pid_;
  rlimit before_{};
};

/// What `f` throws when memory is limited; it must say so.
template <class F>
std::string no_memory(F f) {
  if (!is_limited) {
    CHECK_NOTHROW(f());
    return {};
  }
  try {
    f();
    FAIL("there was memory");
  } catch (const tr::error& e) {
    CHECK(e.code() == tr::errc::out_of_memory);
    return e.what();
  }
  return {};
}

tr::tensor result_of(tr::worker_context&, std::int64_t n) {
  return tr::tensor::zeros(tr::dtype::f32, {n});
}
TROUPE_FUNCTION(result_of);

std::int64_t size_of_step(tr::worker_context&, const tr::tensor& x) { return x.size(); }
TROUPE_FUNCTION(size_of_step);

void push_step(tr::worker_context& ctx, const tr::variable& v) {
  ctx.apply(v, tr::tensor::zeros(v.type(), v.shape()));
}
TROUPE_FUNCTION(push_step);

std::uint64_t bytes_on_servers(const fixture& f) {
  std::uint64_t out = 0;
  for (const auto& s : f.coordinator.statistics().servers)
    out += s.bytes;
  return out;
}

constexpr std::int64_t many = 96 << 20 >> 2; // 96 MiB of f32

} // namespace

TEST_CASE("a step's result that the coordinator has no memory for fails that closure alone") {
  fixture f{1};
  {
    memory_limit limit{getpid(), 64 * mib};
    auto large = f.coordinator.schedule(result_of, many);
    const auto text = no_memory([&] { f.coordinator.join(std::chrono::seconds{60}); });
    CHECK(says(text, "coordinator"));
    CHECK(f.coordinator.schedule(result_of, std::int64_t{8}).fetch().size() == 8);
  }
  CHECK(f.coordinator.schedule(result_of, many).fetch().size() == many);
  CHECK(f.coordinator.statistics().fenced == 0); // nobody was lost for it
}

TEST_CASE("arguments that a worker has no memory for fail that closure, and the worker lives") {
  fixture f{1};
  const auto x = tr::tensor::zeros(tr::dtype::f32, {many});
  {
    memory_limit limit{f.cluster.worker(0).pid(), 64 * mib};
    f.coordinator.schedule(size_of_step, x);
    const auto text = no_memory([&] { f.coordinator.join(std::chrono::seconds{60}); });
    CHECK(says(text, "worker:0"));
    CHECK(f.coordinator.schedule(size_of_step, tr::tensor::scalar(1.0f)).fetch() == 1);
  }
  CHECK(f.coordinator.schedule(size_of_step, x).fetch() == many);
  CHECK(f.coordinator.statistics().fenced == 0);
}

TEST_CASE("a result that a worker has no memory for fails that closure, and the worker lives") {
  fixture f{1};
  {
    memory_limit limit{f.cluster.worker(0).pid(), 128 * mib}; // for the tensor, not its copy
    auto large = f.coordinator.schedule(result_of, many);
    (void)no_memory([&] { f.coordinator.join(std::chrono::seconds{60}); });
    CHECK(f.coordinator.schedule(result_of, std::int64_t{8}).fetch().size() == 8);
  }
  CHECK(f.coordinator.statistics().fenced == 0);
}

TEST_CASE("a variable that one server has no memory for is nowhere, and the server lives") {
  fixture f{1, 2};
  const auto before = bytes_on_servers(f);
  tr::parameter_server_strategy cut{f.cluster.rt(),
                                    {.partitioner = tr::fixed_shards_partitioner{2}}};
  const tr::variable_options large{
    .name = "large", .shape = {2 * many}, .optimizer = tr::adam{1e-3f}};
  {
    memory_limit limit{f.cluster.server(1).pid(), 100 * mib};
    const auto text = no_memory([&] { cut.create_variable(large); });
    CHECK(says(text, "ps:1"));
    CHECK(says(text, "'large'"));
    if (is_limited) // its shards on the other server go as well
      CHECK(eventually([&] { return bytes_on_servers(f) == before; }));
    auto small = cut.create_variable({.name = "small", .shape = {4}});
    CHECK(small.read() == tr::tensor::zeros(tr::dtype::f32, {4}));
  }
  if (is_limited)
    CHECK(cut.create_variable(large).shape() == tr::shape_t{2 * many}); // the name is free
}

TEST_CASE("a push that a server has no memory for fails its closure, and the server lives") {
  fixture f{1};
  auto v = f.strategy.create_variable({.name = "v", .shape = {many}, .optimizer = tr::sgd{1.0f}});
  {
    memory_limit limit{f.cluster.server(0).pid(), 48 * mib};
    f.coordinator.schedule(push_step, v);
    const auto text = no_memory([&] { f.coordinator.join(std::chrono::seconds{60}); });
    CHECK(says(text, "ps:0"));
    const auto own = no_memory([&] { v.assign(tr::tensor::zeros(tr::dtype::f32, {many})); });
    CHECK(says(own, "ps:0"));
    f.coordinator.schedule(count_step, f.counter);
    f.coordinator.join(std::chrono::seconds{60});
    CHECK(f.count() == 1);
  }
  f.coordinator.schedule(push_step, v);
  f.coordinator.join(std::chrono::seconds{60});
  CHECK(f.coordinator.statistics().fenced == 0);
}
