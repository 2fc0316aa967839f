#include <troupe/transport/detail/collective_plan.hpp>

#include <algorithm>
#include <bit>
#include <utility>

namespace troupe::detail {

namespace {

/// A range of elements, and the step after which it may be sent.
struct piece {
  std::size_t begin = 0;
  std::size_t count = 0;
  std::uint32_t ready = no_step; ///< its progress lets the piece go
};

class planner {
public:
  explicit planner(const plan_task& task) : t_{task} {
    plan_.sends.resize(t_.size);
    plan_.receives.resize(t_.size);
  }

  collective_plan make() {
    switch (t_.kind) {
      case collective_kind::all_reduce: all_reduce(); break;
      case collective_kind::reduce_scatter: scatter(memory::output, 0); break;
      case collective_kind::all_gather: all_gather(); break;
      case collective_kind::broadcast: broadcast(); break;
      case collective_kind::reduce: reduce(); break;
      case collective_kind::gather: gather(); break;
      case collective_kind::barrier: barrier(); break;
    }
    return std::move(plan_);
  }

private:
  // --- steps

  std::uint32_t send(std::uint32_t to, memory from, std::size_t begin, std::size_t count,
                     std::vector<step_gate> gates = {}) {
    plan_step s;
    s.kind = step_kind::send;
    s.peer = to;
    s.where = from;
    s.begin = begin;
    s.count = count;
    s.ordinal = static_cast<std::uint32_t>(plan_.sends[to].size());
    s.gates = std::move(gates);
    plan_.sends[to].push_back(next());
    return add(std::move(s));
  }

  // Sends what `p` stands for, in the output.
  void send(std::uint32_t to, const piece& p) {
    send(to, memory::output, p.begin, p.count, {{p.ready, 0, false}});
  }

  std::uint32_t receive(std::uint32_t from, std::size_t begin, std::size_t count) {
    plan_step s;
    s.kind = step_kind::receive;
    s.peer = from;
    s.where = memory::output;
    s.begin = begin;
    s.count = count;
    s.ordinal = static_cast<std::uint32_t>(plan_.receives[from].size());
    plan_.receives[from].push_back(next());
    return add(std::move(s));
  }

  // Receives into the output; the step after which the elements stand there.
  std::uint32_t store(std::uint32_t from, std::size_t begin, std::size_t count) {
    const std::uint32_t got = receive(from, begin, count);
    return t_.encoded ? merge(memory::output, begin, count, {got}) : got;
  }

  std::uint32_t merge(memory to, std::size_t begin, std::size_t count,
                      std::vector<std::uint32_t> sources, std::vector<step_gate> gates = {}) {
    plan_step s;
    for (const step_gate& gate : gates)
      if (gate.whole)
        plan_.staged_count = std::max(plan_.staged_count, count);
    s.kind = step_kind::merge;
    s.where = to;
    s.begin = begin;
    s.count = count;
    s.own_begin = begin;
    s.gates = std::move(gates);
    s.sources = std::move(sources);
    for (const std::uint32_t source : s.sources)
      if (source != no_step)
        plan_.steps[source].consumer = next();
    plan_.merges.push_back(next());
    return add(std::move(s));
  }

  std::uint32_t add(plan_step s) {
    plan_.steps.push_back(std::move(s));
    return next() - 1;
  }
  std::uint32_t next() const { return static_cast<std::uint32_t>(plan_.steps.size()); }

  // --- places

  std::uint32_t after(std::uint32_t by) const { return (t_.rank + by) % t_.size; }
  std::uint32_t before(std::uint32_t by) const { return (t_.rank + t_.size - by) % t_.size; }
  std::size_t begin_of(std::uint32_t i) const { return segment_begin(t_.count, t_.size, i); }
  std::size_t len_of(std::uint32_t i) const { return begin_of(i + 1) - begin_of(i); }
  bool is_root() const { return t_.rank == t_.root; }

  // --- reductions

  void all_reduce() {
    switch (t_.algorithm) {
      case collective_algorithm::exchange: exchange(); break;
      case collective_algorithm::recursive_doubling: recursive_doubling(); break;
      case collective_algorithm::halving_doubling: halving_doubling(); break;
      case collective_algorithm::ring: ring(); break;
      default: direct(); break;
    }
  }

  // Receives `count` elements of everybody, and merges them with the own ones at `begin`.
  std::uint32_t merge_all(memory to, std::size_t to_begin, std::size_t begin, std::size_t count,
                          std::vector<step_gate> gates = {}) {
    std::vector<std::uint32_t> sources(t_.size, no_step);
    for (std::uint32_t d = 1; d < t_.size; ++d)
      sources[before(d)] = receive(before(d), begin, count);
    const std::uint32_t merged = merge(to, to_begin, count, std::move(sources), std::move(gates));
    plan_.steps[merged].own_begin = begin;
    plan_.steps[merged].finish = true;
    return merged;
  }

  void exchange() {
    std::vector<step_gate> sent;
    for (std::uint32_t d = 1; d < t_.size; ++d)
      sent.push_back({send(after(d), memory::input, 0, t_.count), 0, true});
    merge_all(memory::output, 0, 0, t_.count, std::move(sent));
  }

  // Everybody's segment `rank`, merged, ends in `to` at `to_begin`.
  std::uint32_t scatter(memory to, std::size_t to_begin) {
    for (std::uint32_t d = 1; d < t_.size; ++d)
      send(after(d), memory::input, begin_of(after(d)), len_of(after(d)));
    return merge_all(to, to_begin, begin_of(t_.rank), len_of(t_.rank));
  }

  void direct() {
    const std::uint32_t merged = scatter(memory::output, begin_of(t_.rank));
    for (std::uint32_t d = 1; d < t_.size; ++d)
      send(after(d), {begin_of(t_.rank), len_of(t_.rank), merged});
    for (std::uint32_t d = 1; d < t_.size; ++d)
      store(before(d), begin_of(before(d)), len_of(before(d)));
  }

  // The sources of a merge of two, the lower member first.
  std::vector<std::uint32_t> in_order(std::uint32_t peer, std::uint32_t got) const {
    return t_.rank < peer ? std::vector{no_step, got} : std::vector{got, no_step};
  }

  void recursive_doubling() {
    std::uint32_t last = no_step;
    for (std::uint32_t d = 1; d < t_.size; d *= 2) {
      const std::uint32_t peer = t_.rank ^ d;
      const memory own = last == no_step ? memory::input : memory::output;
      std::vector<step_gate> ready;
      if (last != no_step)
        ready.push_back({last, 0, true});
      const std::uint32_t sent = send(peer, own, 0, t_.count, std::move(ready));
      const std::uint32_t got = receive(peer, 0, t_.count);
      // In place, what is sent must be out before it changes.
      last = merge(memory::output, 0, t_.count, in_order(peer, got), {{sent, 0, true}});
      plan_.steps[last].own = own;
    }
    plan_.steps[last].finish = true;
  }

  void halving_doubling() {
    std::size_t low = 0;
    std::size_t high = t_.count;
    std::uint32_t last = no_step;
    std::size_t last_begin = 0;
    for (std::uint32_t d = t_.size / 2; d >= 1; d /= 2) {
      const std::uint32_t peer = t_.rank ^ d;
      const std::size_t middle = low + (high - low) / 2;
      const bool upper = (t_.rank & d) != 0;
      const std::size_t give = upper ? low : middle;
      const std::size_t keep = upper ? middle : low;
      const std::size_t give_count = upper ? middle - low : high - middle;
      const std::size_t keep_count = high - low - give_count;
      const memory own = last == no_step ? memory::input : memory::output;
      const auto behind = [&](std::size_t begin) {
        return last == no_step ? std::vector<step_gate>{}
                               : std::vector<step_gate>{{last, begin - last_begin, false}};
      };
      send(peer, own, give, give_count, behind(give));
      const std::uint32_t got = receive(peer, keep, keep_count);
      last = merge(memory::output, keep, keep_count, in_order(peer, got), behind(keep));
      plan_.steps[last].own = own;
      last_begin = keep;
      low = keep;
      high = keep + keep_count;
    }
    plan_.steps[last].finish = true;
    doubling({low, high - low, last});
  }

  void doubling(const piece& own) {
    std::vector<piece> have{own};
    for (std::uint32_t d = 1; d < t_.size; d *= 2) {
      const std::uint32_t peer = t_.rank ^ d;
      for (const piece& p : have)
        send(peer, p);
      const std::size_t known = have.size();
      for (std::size_t i = 0; i < known; ++i) {
        // Whoever it is, its piece i is what the halvings left to member rank ^ i.
        const auto [begin, count] = halves_of(peer ^ static_cast<std::uint32_t>(i));
        have.push_back({begin, count, store(peer, begin, count)});
      }
    }
  }

  // The range that is left to `member` after all halvings.
  std::pair<std::size_t, std::size_t> halves_of(std::uint32_t member) const {
    std::size_t low = 0;
    std::size_t high = t_.count;
    for (std::uint32_t d = t_.size / 2; d >= 1; d /= 2) {
      const std::size_t middle = low + (high - low) / 2;
      ((member & d) != 0 ? low : high) = middle;
    }
    return {low, high - low};
  }

  void ring() {
    piece last{begin_of(t_.rank), len_of(t_.rank), no_step};
    for (std::uint32_t s = 0; s + 1 < t_.size; ++s) {
      if (s == 0)
        send(after(1), memory::input, last.begin, last.count);
      else
        send(after(1), last);
      const std::uint32_t segment = before(s + 1);
      const std::uint32_t got = receive(before(1), begin_of(segment), len_of(segment));
      last = {begin_of(segment), len_of(segment),
              merge(memory::output, begin_of(segment), len_of(segment), {got, no_step})};
    }
    plan_.steps[last.ready].finish = true;
    for (std::uint32_t s = 0; s + 1 < t_.size; ++s) {
      send(after(1), last);
      const std::uint32_t segment = before(s);
      last = {begin_of(segment), len_of(segment),
              store(before(1), begin_of(segment), len_of(segment))};
    }
  }

  void reduce() {
    if (t_.algorithm == collective_algorithm::spread) {
      spread_reduce();
      return;
    }
    if (is_root())
      merge_all(memory::output, 0, 0, t_.count);
    else
      send(t_.root, memory::input, 0, t_.count);
  }

  void spread_reduce() {
    if (!is_root()) {
      plan_.scratch_count = len_of(t_.rank);
      const std::uint32_t merged = scatter(memory::scratch, 0);
      send(t_.root, memory::scratch, 0, len_of(t_.rank), {{merged, 0, false}});
      return;
    }
    scatter(memory::output, begin_of(t_.rank));
    for (std::uint32_t d = 1; d < t_.size; ++d)
      store(before(d), begin_of(before(d)), len_of(before(d)));
  }

  // --- copies

  std::size_t part_len(std::uint32_t i) const { return t_.parts[i + 1] - t_.parts[i]; }

  void all_gather() {
    for (std::uint32_t d = 1; d < t_.size; ++d)
      send(after(d), memory::input, 0, part_len(t_.rank));
    for (std::uint32_t d = 1; d < t_.size; ++d)
      store(before(d), t_.parts[before(d)], part_len(before(d)));
  }

  void gather() {
    if (!is_root()) {
      send(t_.root, memory::input, 0, part_len(t_.rank));
      return;
    }
    for (std::uint32_t d = 1; d < t_.size; ++d)
      store(before(d), t_.parts[before(d)], part_len(before(d)));
  }

  void broadcast() {
    if (t_.algorithm == collective_algorithm::spread) {
      spread_broadcast();
    } else if (is_root()) {
      for (std::uint32_t d = 1; d < t_.size; ++d)
        send(after(d), memory::output, 0, t_.count);
    } else {
      store(t_.root, 0, t_.count);
    }
  }

  // The root gives each member a segment to pass on, and its own segment to all.
  void spread_broadcast() {
    const std::size_t root_begin = begin_of(t_.root);
    if (is_root()) {
      for (std::uint32_t d = 1; d < t_.size; ++d)
        send(after(d), memory::output, begin_of(after(d)), len_of(after(d)));
      for (std::uint32_t d = 1; d < t_.size; ++d)
        send(after(d), memory::output, root_begin, len_of(t_.root));
      return;
    }
    const std::uint32_t mine = store(t_.root, begin_of(t_.rank), len_of(t_.rank));
    store(t_.root, root_begin, len_of(t_.root));
    for (std::uint32_t d = 1; d < t_.size; ++d)
      if (after(d) != t_.root)
        send(after(d), {begin_of(t_.rank), len_of(t_.rank), mine});
    for (std::uint32_t d = 1; d < t_.size; ++d)
      if (before(d) != t_.root)
        store(before(d), begin_of(before(d)), len_of(before(d)));
  }

  // Round k tells the member 2^k further on (dissemination; Hensgen, Finkel, Manber 1988).
  void barrier() {
    std::uint32_t last = no_step;
    for (std::uint32_t d = 1; d < t_.size; d *= 2) {
      std::vector<step_gate> heard;
      if (last != no_step)
        heard.push_back({last, 0, true});
      send(after(d), memory::input, 0, 0, std::move(heard));
      last = receive(before(d), 0, 0);
    }
  }

  const plan_task& t_;
  collective_plan plan_{};
};

} // namespace

std::size_t segment_begin(std::size_t count, std::uint32_t n, std::uint32_t i) {
  return count / n * i + count % n * i / n;
}

bool can_plan(collective_kind kind, collective_algorithm algorithm, std::uint32_t size) {
  using a = collective_algorithm;
  switch (kind) {
    case collective_kind::all_reduce:
      if (algorithm == a::recursive_doubling || algorithm == a::halving_doubling)
        return std::has_single_bit(size);
      return algorithm == a::exchange || algorithm == a::direct || algorithm == a::ring;
    case collective_kind::broadcast:
    case collective_kind::reduce: return algorithm == a::flat || algorithm == a::spread;
    case collective_kind::reduce_scatter:
    case collective_kind::all_gather:
    case collective_kind::gather:
    case collective_kind::barrier: return algorithm == a::direct;
  }
  return false;
}

collective_plan make_plan(const plan_task& task) { return planner{task}.make(); }

} // namespace troupe::detail
