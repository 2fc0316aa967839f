#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <troupe/core/production_ports.hpp>
#include <troupe/transport/asio_transport.hpp>
#include <troupe/transport/collective_group.hpp>
#include <troupe/transport/host_transport.hpp>

#include "../support/processes.hpp"

// Goal: whichever members of a group die or stop in the middle of whatever they do, the others
// learn of it in time, none takes a partial sum, the next epoch works, a process that wakes again
// changes nothing, and nothing of the epoch before is left: no memory that was shared with the
// dead, no descriptor. Method: processes over TCP, over channels in shared memory and over an area
// of shared memory, stopped at random instants.
namespace {

using namespace troupe;
using namespace troupe::testing;
using namespace std::chrono_literals;

constexpr std::uint32_t members = 4;
constexpr duration deadline_min = 400ms;
constexpr std::uint32_t ops_after = 60;

enum class state : int { starting, running, failed, left_out, done, bad };

enum class carrier : int { tcp, rings, area };

/// What this process shares with others, and all that it has open.
struct holdings {
  std::size_t mappings = 0;
  std::size_t descriptors = 0;
  static holdings now() {
    holdings out;
    std::ifstream maps{"/proc/self/maps"};
    for (std::string line; std::getline(maps, line);)
      out.mappings += line.find("memfd:troupe") != std::string::npos ? 1 : 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator{"/proc/self/fd"})
      ++out.descriptors;
    return out;
  }
  std::string text() const {
    return std::to_string(mappings) + " mappings, " + std::to_string(descriptors) + " descriptors";
  }
};

/// Memory of the test and its members.
struct page {
  struct member {
    std::atomic<bool> listens{false};
    char address[64];
    std::atomic<state> now{state::starting};
    std::atomic<std::uint32_t> ops{0}; ///< of the current epoch
    std::atomic<std::int64_t> failed_ns{0};
    std::atomic<std::int64_t> deadline_ns{0}; ///< of an operation
    std::atomic<int> code{0};
    char text[512];
  };
  member of[members];
  std::atomic<std::uint32_t> epoch{0};
  std::atomic<std::uint32_t> alive{(1u << members) - 1};
};

// --- a member

class member_process {
public:
  member_process(page& shared, std::uint32_t index, carrier by)
    : page_{shared},
      me_{shared.of[index]},
      index_{index},
      ports_{make_production_ports()},
      transport_{by == carrier::tcp ? make_asio_transport(ports_->clock())
                                    : make_host_transport(ports_->clock())},
      env_{ports_->clock(),   ports_->random(), ports_->storage(),
           ports_->threads(), ports_->waits(),  *transport_} {
    options_.listen = "127.0.0.1:0";
    options_.spin = 50us;
    if (by == carrier::rings) // else it finds out by itself
      options_.locality = group_locality{};
    expected_ = by == carrier::area ? group_class::host : group_class::network;
  }

  int run() {
    auto group = collective_group::make(env_, index_ + 1, options_).value_or_throw();
    std::snprintf(me_.address, sizeof me_.address, "%s", group->address().c_str());
    me_.listens = true;
    holdings had;
    for (std::uint32_t epoch = 1;; ++epoch) {
      if (!eventually([&] { return page_.epoch >= epoch; }, 30s))
        return end(state::bad, "no view");
      if ((page_.alive & 1u << index_) == 0)
        return end(state::left_out, "");
      if (auto formed = group->form(group_epoch{epoch}, view(), 10s); !formed)
        return end(state::bad, "form: " + to_string(formed.error()));
      if (group->size() > 1 && group->carried_by() != expected_)
        return end(state::bad, "carried by " + std::string{to_string(group->carried_by())});
      me_.ops = 0;
      me_.now = state::running;
      auto ended = work(*group, epoch == 1 ? ~0u : ops_after);
      const auto has = holdings::now();
      if (ended && (has.mappings > had.mappings || has.descriptors > had.descriptors))
        return end(state::bad, has.text() + ", of the epoch before " + had.text());
      if (ended)
        return end(state::done, "");
      had = has;
      if (ended.error().code == errc::corrupt || epoch > 1)
        return end(state::bad, to_string(ended.error()));
      me_.code = static_cast<int>(ended.error().code);
      std::snprintf(me_.text, sizeof me_.text, "%s", ended.error().text.c_str());
      me_.failed_ns = now_ns();
      me_.now = state::failed;
    }
  }

private:
  int end(state how, const std::string& why) {
    std::snprintf(me_.text, sizeof me_.text, "%s", why.c_str());
    me_.now = how;
    return 0;
  }

  std::vector<collective_member> view() const {
    std::vector<collective_member> out;
    for (std::uint32_t i = 0; i < members; ++i)
      if ((page_.alive & 1u << i) != 0)
        out.push_back({i + 1, page_.of[i].address});
    return out;
  }

  result<void> work(collective_group& group, std::uint32_t ops) {
    std::int64_t ids = 0;
    for (const collective_member& m : group.members())
      ids += static_cast<std::int64_t>(m.id);
    constexpr std::array<std::int64_t, 4> sizes{10, 5000, 100'000, 400'000};
    std::vector<tensor> xs;
    for (const std::int64_t size : sizes)
      xs.emplace_back(dtype::i64, shape_t{size});
    // Nobody is signalled yet: how long an operation takes on a machine that is as busy as this
    // one.
    collective_options options;
    options.deadline = 20s;
    const std::int64_t begin = now_ns();
    for (tensor& x : xs)
      if (auto ok = group.all_reduce(x, reduce_op::sum, options); !ok)
        return ok;
    options.deadline = std::max<duration>(deadline_min, duration{3 * (now_ns() - begin)});
    me_.deadline_ns = options.deadline.count();
    for (std::uint32_t op = 0; op < ops; ++op) {
      tensor& x = xs[op % xs.size()];
      auto to = x.mutable_as<std::int64_t>();
      for (std::size_t i = 0; i < to.size(); ++i)
        to[i] = (std::int64_t{index_} + 1) * (static_cast<std::int64_t>(i) + op);
      if (auto ok = group.all_reduce(x, reduce_op::sum, options); !ok)
        return ok;
      for (std::size_t i = 0; i < to.size(); ++i)
        if (to[i] != ids * (static_cast<std::int64_t>(i) + op))
          return make_failure(errc::corrupt, "a partial sum");
      ++me_.ops;
    }
    return {};
  }

  page& page_;
  page::member& me_;
  std::uint32_t index_;
  std::unique_ptr<production_ports> ports_;
  std::unique_ptr<data_transport> transport_;
  environment env_;
  group_options options_{};
  group_class expected_ = group_class::network;
};

// --- the test

class group_of_processes {
public:
  explicit group_of_processes(carrier by) {
    for (std::uint32_t i = 0; i < members; ++i)
      processes.push_back(std::make_unique<child_process>([&, i] {
        return member_process{*shared, i, by}.run();
      }));
  }

  template <class F>
  bool all_but(std::uint32_t victims, F holds, duration limit) {
    return eventually(
      [&] {
        for (std::uint32_t i = 0; i < members; ++i)
          if ((victims & 1u << i) == 0 && !holds(shared->of[i]))
            return false;
        return true;
      },
      limit);
  }

  std::string report() const {
    std::string out;
    for (std::uint32_t i = 0; i < members; ++i)
      out += "member " + std::to_string(i) + ": state "
             + std::to_string(static_cast<int>(shared->of[i].now.load())) + ", "
             + std::to_string(shared->of[i].ops) + " ops, " + shared->of[i].text + "\n";
    return out;
  }

  shared_memory<page> shared{};
  std::vector<std::unique_ptr<child_process>> processes{};
};

// One group; `victims` get `signal` at a random instant.
void strike(carrier by, std::uint32_t victims, int signal, std::uint64_t& random) {
  group_of_processes group{by};
  REQUIRE(group.all_but(
    0, [](const page::member& m) { return m.listens.load(); }, 20s));
  group.shared->epoch = 1;
  const std::uint32_t at_op = static_cast<std::uint32_t>(1 + next_random(random) % 12);
  REQUIRE_MESSAGE(group.all_but(
                    0, [&](const page::member& m) { return m.ops >= at_op; }, 20s),
                  group.report());
  spin_for(std::chrono::nanoseconds{next_random(random) % 4'000'000});
  const std::int64_t signalled_ns = now_ns();
  for (std::uint32_t i = 0; i < members; ++i)
    if ((victims & 1u << i) != 0)
      group.processes[i]->signal(signal);
  const bool dies = signal == SIGKILL;
  REQUIRE_MESSAGE(group.all_but(
                    victims, [](const page::member& m) { return m.now == state::failed; }, 30s),
                  group.report());
  for (std::uint32_t i = 0; i < members; ++i) {
    const page::member& m = group.shared->of[i];
    if ((victims & 1u << i) != 0)
      continue;
    // Generous, for machines with more processes than cores.
    CHECK(m.failed_ns - signalled_ns < (dies ? 0 : m.deadline_ns.load()) + 2'000'000'000);
    const auto code = static_cast<errc>(m.code.load());
    CHECK_MESSAGE((code == errc::peer_lost || (!dies && code == errc::deadline)), group.report());
  }
  group.shared->alive = ((1u << members) - 1) & ~victims;
  group.shared->epoch = 2;
  if (!dies) {
    // They wake while the others work.
    REQUIRE_MESSAGE(group.all_but(
                      victims, [](const page::member& m) { return m.now != state::failed; }, 20s),
                    group.report());
    for (std::uint32_t i = 0; i < members; ++i)
      if ((victims & 1u << i) != 0)
        group.processes[i]->signal(SIGCONT);
  }
  REQUIRE_MESSAGE(group.all_but(
                    victims, [](const page::member& m) { return m.now == state::done; }, 30s),
                  group.report());
  if (!dies)
    CHECK_MESSAGE(group.all_but(
                    ~victims, [](const page::member& m) { return m.now == state::left_out; }, 20s),
                  group.report());
}

void strike_often(carrier by, int signal, int times) {
  const auto before = shared_segments();
  std::uint64_t random = static_cast<std::uint64_t>(signal) * 1000 + static_cast<std::uint64_t>(by);
  for (int i = 0; i < times; ++i) {
    CAPTURE(i);
    const auto first = static_cast<std::uint32_t>(next_random(random) % members);
    std::uint32_t victims = 1u << first;
    if (i % 5 == 4) // two at once
      victims |= 1u << (first + 1 + next_random(random) % (members - 1)) % members;
    strike(by, victims, signal, random);
  }
  CHECK(shared_segments() == before);
}

} // namespace

TEST_CASE("collectives over TCP: members killed at 60 random instants") {
  strike_often(carrier::tcp, SIGKILL, 60);
}

TEST_CASE("collectives over TCP: members stopped at 40 random instants, and woken") {
  strike_often(carrier::tcp, SIGSTOP, 40);
}

TEST_CASE("collectives over channels in memory: members killed at 60 random instants") {
  strike_often(carrier::rings, SIGKILL, 60);
}

TEST_CASE("collectives over channels in memory: members stopped at 40 random instants, and woken") {
  strike_often(carrier::rings, SIGSTOP, 40);
}

TEST_CASE("collectives over shared memory: members killed at 60 random instants") {
  strike_often(carrier::area, SIGKILL, 60);
}

TEST_CASE("collectives over shared memory: members stopped at 40 random instants, and woken") {
  strike_often(carrier::area, SIGSTOP, 40);
}
