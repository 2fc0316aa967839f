#include <troupe/transport/detail/plan_runner.hpp>

#include <array>
#include <cstring>
#include <utility>

#include <troupe/transport/detail/collective_engine.hpp>

namespace troupe::detail {

namespace {

// Bytes that are worth a call: less is left until more is there, or the block is whole.
constexpr std::size_t send_grain_bytes = std::size_t{64} << 10;
constexpr std::size_t merge_grain_bytes = std::size_t{32} << 10;
// What a call offers to a channel. Measured on loopback.
constexpr std::size_t send_bytes_max = std::size_t{1} << 20;
constexpr std::size_t send_blocks_max = 4;
constexpr std::size_t encode_len_max = std::size_t{64} << 10; // elements
constexpr std::size_t drop_bytes_max = std::size_t{16} << 10;

} // namespace

struct plan_runner::outgoing {
  std::array<block_header_image, send_blocks_max> headers;
  std::array<const_bytes, 2 * send_blocks_max> parts;
  std::size_t blocks = 0;
  std::size_t count = 0;
  std::size_t bytes = 0;

  void add(const std::byte* data, std::size_t size) {
    parts[count++] = {data, size};
    bytes += size;
  }
  bool is_full() const { return blocks == send_blocks_max || bytes >= send_bytes_max; }
};

plan_runner::plan_runner(const collective_plan& plan, const operation_data& data,
                         std::span<data_link> links, collective_counters& counters)
  : plan_{plan},
    data_{data},
    links_{links},
    counters_{counters},
    element_bytes_{troupe::size_of(data.merge.type)},
    wire_bytes_{kernels::size_of(data.merge.type, data.merge.round)},
    block_len_max_{block_bytes_max / wire_bytes_},
    left_{plan.steps.size()},
    progress_(plan.steps.size()),
    sending_(links.size()),
    receiving_(links.size()) {
  const std::size_t blocks = (plan.staged_count + block_len_max_ - 1) / block_len_max_;
  stage_len_ = std::max<std::size_t>(1, blocks) * block_len_max_;
  for (std::size_t peer = 0; peer < links.size(); ++peer)
    for (const std::uint32_t index : plan.receives[peer])
      if (is_staged(plan.steps[index]))
        links[peer].stage.at_least(std::min(stage_len_, plan.steps[index].count) * wire_bytes_);
}

result<bool> plan_runner::advance() {
  bool moved = false;
  const auto members = static_cast<std::uint32_t>(links_.size());
  for (std::uint32_t peer = 0; peer < members; ++peer) {
    if (links_[peer].data == nullptr)
      continue;
    failed_peer_ = peer;
    auto out = send(peer);
    if (!out)
      return out.error();
    auto in = receive(peer);
    if (!in)
      return in.error();
    moved = moved || *out || *in;
  }
  for (const std::uint32_t index : plan_.merges)
    moved = merge_next(index) || moved;
  return moved;
}

// --- gates and places

bool plan_runner::is_open(const plan_step& step) const {
  return std::all_of(step.gates.begin(), step.gates.end(), [this](const step_gate& gate) {
    return !gate.whole || progress_[gate.step].finished;
  });
}

std::size_t plan_runner::allowed(const plan_step& step) const {
  std::size_t out = step.count;
  for (const step_gate& gate : step.gates) {
    const progress& before = progress_[gate.step];
    if (before.finished)
      continue;
    const bool none = gate.whole || before.done <= gate.offset;
    out = std::min(out, none ? 0 : before.done - gate.offset);
  }
  return out;
}

void plan_runner::finish(std::uint32_t step) {
  progress_[step].done = plan_.steps[step].count;
  progress_[step].finished = true;
  --left_;
}

const std::byte* plan_runner::source(memory where, std::size_t element) const {
  return where == memory::input ? data_.input + element * element_bytes_ : place(where, element);
}

block_header plan_runner::header_of(const plan_step& step, std::size_t begin) const {
  block_header out;
  out.epoch = data_.epoch;
  out.operation = data_.operation;
  out.description = data_.description;
  out.segment = step.ordinal;
  out.length = static_cast<std::uint32_t>(block_len(step.count - begin) * wire_bytes_);
  out.offset = begin * wire_bytes_;
  return out;
}

bool plan_runner::needs(std::uint32_t peer) const {
  return sending_[peer].next < plan_.sends[peer].size()
         || receiving_[peer].next < plan_.receives[peer].size();
}

bool plan_runner::wants_receive(std::uint32_t peer) const {
  const cursor& at = receiving_[peer];
  if (at.next == plan_.receives[peer].size())
    return false;
  const std::uint32_t index = plan_.receives[peer][at.next];
  return at.in_block > 0 || at.drop_left > 0
         || has_room(at, index, block_len(plan_.steps[index].count - at.block_begin));
}

// --- sending

result<bool> plan_runner::send(std::uint32_t peer) {
  cursor& at = sending_[peer];
  at.is_waiting = false;
  if (at.next == plan_.sends[peer].size())
    return false;
  const std::uint32_t index = plan_.sends[peer][at.next];
  outgoing out;
  gather(peer, plan_.steps[index], at, out);
  if (out.count == 0)
    return false;
  auto taken = links_[peer].data->try_send(std::span{out.parts.data(), out.count});
  if (!taken)
    return taken.error();
  at.is_waiting = *taken < out.bytes;
  counters_.bytes_sent += *taken;
  sent(index, at, *taken);
  return *taken > 0;
}

void plan_runner::gather(std::uint32_t peer, const plan_step& step, cursor& at, outgoing& out) {
  if (!is_open(step))
    return;
  const std::size_t ready = allowed(step);
  std::size_t begin = at.block_begin;
  std::size_t skip = at.in_block;
  do {
    const std::size_t len = block_len(step.count - begin);
    const std::size_t skip_payload = skip > block_header_bytes ? skip - block_header_bytes : 0;
    std::size_t have = ready > begin ? std::min(len, ready - begin) : 0;
    if (have < len && have * wire_bytes_ < skip_payload + send_grain_bytes)
      return;
    // A piece is encoded while the peer works on the one before.
    if (wire_bytes_ != element_bytes_)
      have = std::min(have, at.encoded + (at.is_encoded_out(wire_bytes_) ? encode_len_max : 0));
    const std::size_t bytes = have * wire_bytes_;
    if (skip < block_header_bytes) {
      block_header_image& header = out.headers[out.blocks];
      header = encode(header_of(step, begin));
      out.add(header.data() + skip, block_header_bytes - skip);
    }
    if (bytes > skip_payload)
      out.add(payload(peer, step, at, begin, have) + skip_payload, bytes - skip_payload);
    ++out.blocks;
    if (have < len || wire_bytes_ != element_bytes_)
      return;
    begin += len;
    skip = 0;
  } while (begin < step.count && !out.is_full());
}

const std::byte* plan_runner::payload(std::uint32_t peer, const plan_step& step, cursor& at,
                                      std::size_t begin, std::size_t ready) {
  if (wire_bytes_ == element_bytes_)
    return source(step.where, step.begin + begin);
  std::byte* out =
    links_[peer].encoded.at_least(std::min(block_len_max_, step.count) * wire_bytes_);
  kernels::encode(data_.merge.round, source(step.where, step.begin + begin + at.encoded),
                  out + at.encoded * wire_bytes_, ready - at.encoded);
  at.encoded = ready;
  return out;
}

void plan_runner::sent(std::uint32_t index, cursor& at, std::size_t bytes) {
  const plan_step& step = plan_.steps[index];
  while (bytes > 0) {
    const std::size_t len = block_len(step.count - at.block_begin);
    const std::size_t rest = block_header_bytes + len * wire_bytes_ - at.in_block;
    if (bytes < rest) {
      at.in_block += bytes;
      return;
    }
    bytes -= rest;
    at.in_block = 0;
    at.encoded = 0;
    at.block_begin += len;
    ++counters_.blocks_sent;
    if (at.block_begin < step.count)
      continue;
    finish(index);
    at.block_begin = 0;
    ++at.next;
    return;
  }
}

// --- receiving

bool plan_runner::has_room(const cursor& at, std::uint32_t index, std::size_t len) const {
  const plan_step& step = plan_.steps[index];
  if (!is_staged(step))
    return true;
  if (at.staged != no_step && at.staged != index
      && !progress_[plan_.steps[at.staged].consumer].finished)
    return false;
  return at.block_begin + len - progress_[step.consumer].done <= stage_len_;
}

std::byte* plan_runner::target(std::uint32_t peer, const plan_step& step, std::size_t begin) const {
  return is_staged(step) ? links_[peer].stage.data() + stage_offset(begin)
                         : place(step.where, step.begin + begin);
}

result<std::size_t> plan_runner::take(data_link& from, std::span<const mutable_bytes> parts) const {
  if (from.pushed_back.empty())
    return from.data->try_receive(parts);
  std::size_t got = 0;
  for (const mutable_bytes& part : parts) {
    const std::size_t n = std::min(part.size(), from.pushed_back.size() - from.pushed_back_at);
    if (n == 0)
      continue;
    std::memcpy(part.data(), from.pushed_back.data() + from.pushed_back_at, n);
    from.pushed_back_at += n;
    got += n;
  }
  if (from.pushed_back_at == from.pushed_back.size()) {
    from.pushed_back.clear();
    from.pushed_back_at = 0;
  }
  return got;
}

result<bool> plan_runner::receive(std::uint32_t peer) {
  cursor& at = receiving_[peer];
  if (at.next == plan_.receives[peer].size())
    return false;
  if (at.drop_left > 0)
    return drop(peer);
  const std::uint32_t index = plan_.receives[peer][at.next];
  const plan_step& step = plan_.steps[index];
  const std::size_t len = block_len(step.count - at.block_begin);
  if (at.in_block == 0 && !has_room(at, index, len))
    return false;
  if (is_staged(step))
    at.staged = index;
  std::array<mutable_bytes, 2> parts{};
  std::byte* const to = target(peer, step, at.block_begin);
  if (at.in_block < block_header_bytes) {
    parts = {mutable_bytes{at.header}.subspan(at.in_block), mutable_bytes{to, len * wire_bytes_}};
  } else {
    const std::size_t payload = at.in_block - block_header_bytes;
    parts[0] = {to + payload, len * wire_bytes_ - payload};
  }
  auto got = take(links_[peer], parts);
  if (!got)
    return got.error();
  if (*got == 0)
    return false;
  if (auto ok = received(peer, *got); !ok)
    return ok.error();
  return true;
}

result<void> plan_runner::received(std::uint32_t peer, std::size_t bytes) {
  cursor& at = receiving_[peer];
  const std::uint32_t index = plan_.receives[peer][at.next];
  const plan_step& step = plan_.steps[index];
  const bool had_header = at.in_block >= block_header_bytes;
  at.in_block += bytes;
  if (at.in_block < block_header_bytes)
    return {};
  const std::size_t len = block_len(step.count - at.block_begin);
  const std::size_t payload = at.in_block - block_header_bytes;
  if (!had_header)
    if (const block_header expected = header_of(step, at.block_begin);
        at.header != encode(expected))
      return judge_header(peer, expected, target(peer, step, at.block_begin));
  progress_[index].done = at.block_begin + payload / wire_bytes_;
  if (payload < len * wire_bytes_)
    return {};
  ++counters_.blocks_received;
  at.in_block = 0;
  at.block_begin += len;
  if (at.block_begin == step.count) {
    finish(index);
    at.block_begin = 0;
    ++at.next;
  }
  return {};
}

result<void> plan_runner::judge_header(std::uint32_t peer, const block_header& expected,
                                       const std::byte* payload) {
  cursor& at = receiving_[peer];
  data_link& link = links_[peer];
  const block_judgement found = judge(at.header, expected);
  if (found.verdict != block_verdict::stale) {
    ++counters_.blocks_refused;
    return make_failure(found.verdict == block_verdict::mismatch ? errc::mismatch : errc::bad_frame,
                        "block from " + link.data->peer() + ": " + found.what);
  }
  ++counters_.blocks_stale;
  const std::size_t there = at.in_block - block_header_bytes;
  at.in_block = 0;
  at.drop_left = found.length - std::min<std::size_t>(found.length, there);
  if (there > found.length) {
    std::string again{reinterpret_cast<const char*>(payload) + found.length, there - found.length};
    again.append(link.pushed_back, link.pushed_back_at);
    link.pushed_back = std::move(again);
    link.pushed_back_at = 0;
  }
  return {};
}

result<bool> plan_runner::drop(std::uint32_t peer) {
  cursor& at = receiving_[peer];
  std::array<std::byte, drop_bytes_max> nowhere;
  const std::array<mutable_bytes, 1> parts{
    mutable_bytes{nowhere}.first(std::min(at.drop_left, nowhere.size()))};
  auto got = take(links_[peer], parts);
  if (!got)
    return got.error();
  at.drop_left -= *got;
  return *got > 0;
}

// --- merging

bool plan_runner::merge_next(std::uint32_t index) {
  progress& at = progress_[index];
  const plan_step& step = plan_.steps[index];
  if (at.finished || !is_open(step))
    return false;
  std::size_t ready = allowed(step);
  bool whole = true;
  for (const std::uint32_t from : step.sources) {
    if (from == no_step)
      continue;
    ready = std::min(ready, progress_[from].done);
    whole = whole && progress_[from].finished;
  }
  std::size_t n = std::min(ready - at.done, stage_len_ - at.done % stage_len_);
  const bool at_end = at.done + n == step.count;
  if (step.count > 0 && n == 0)
    return false;
  if (!at_end && (at.done + n) % block_len_max_ != 0 && n * element_bytes_ < merge_grain_bytes)
    return false;
  if (n > 0)
    merge(step, at.done, n);
  at.done += n;
  if (at.done == step.count && whole)
    finish(index);
  return n > 0 || at.finished;
}

void plan_runner::merge(const plan_step& step, std::size_t begin, std::size_t n) {
  const auto stored = wire_bytes_ == element_bytes_ ? kernels::encoding::plain : data_.merge.round;
  sources_.clear();
  for (const std::uint32_t from : step.sources)
    if (from == no_step)
      sources_.push_back({source(step.own, step.own_begin + begin)});
    else
      sources_.push_back(
        {links_[plan_.steps[from].peer].stage.data() + stage_offset(begin), stored});
  kernels::merge_spec spec = data_.merge;
  if (!step.finish)
    spec.divide_by = 1;
  if (step.sources.size() == 1)
    spec.round = kernels::encoding::plain;
  std::byte* const out = place(step.where, step.begin + begin);
  merge_task(spec, data_.user, sources_, {&out, 1}, n);
}

} // namespace troupe::detail
