// The stream of blocks that a member of a collective operation receives, through the machine that
// carries the operation out.
#include <array>

#include <troupe/kernels/casts.hpp>
#include <troupe/transport/detail/collective_plan.hpp>
#include <troupe/transport/detail/plan_runner.hpp>

#include "frame_decoders.hpp"

namespace fuzz {

namespace {

using namespace troupe;
using namespace troupe::detail;
using transport_test::scripted_channel;

constexpr std::array all_algorithms{collective_algorithm::exchange,
                                    collective_algorithm::direct,
                                    collective_algorithm::recursive_doubling,
                                    collective_algorithm::halving_doubling,
                                    collective_algorithm::ring,
                                    collective_algorithm::flat,
                                    collective_algorithm::spread};
constexpr std::size_t kinds = 6; // a barrier has no data

/// One member of two, its memory exactly as large as the operation needs.
class member {
public:
  member(const plan_task& task, bool encoded) : plan_{make_plan(task)}, links_(task.size) {
    const auto part =
      task.parts.empty() ? task.count : task.parts[task.rank + 1] - task.parts[task.rank];
    input_.assign(part, 1.5f);
    output_.assign(task.count, 2.5f);
    scratch_.assign(plan_.scratch_count, 0.0f);
    const bool in_place = task.kind == collective_kind::broadcast;
    data_.input = reinterpret_cast<const std::byte*>(in_place ? output_.data() : input_.data());
    data_.output = reinterpret_cast<std::byte*>(output_.data());
    data_.scratch = reinterpret_cast<std::byte*>(scratch_.data());
    data_.merge.round = encoded ? kernels::encoding::bf16 : kernels::encoding::plain;
    data_.epoch = 5;
    data_.operation = 9;
    data_.description = 77;
    links_[1 - task.rank].data = &wire;
  }

  /// False when the operation has failed.
  bool advance() {
    if (!runner_)
      runner_.emplace(plan_, data_, links_, counters);
    auto moved = runner_->advance();
    if (!moved)
      require(moved.error().code == errc::bad_frame || moved.error().code == errc::mismatch
                || moved.error().code == errc::connection_lost,
              "an operation ends for what is wrong with its blocks");
    return moved && (*moved || !wire_is_empty());
  }
  bool done() const { return runner_ && runner_->done(); }
  std::size_t blocks_expected() const {
    std::size_t out = 0; // all are shorter than a block may be
    for (const auto& from : plan_.receives)
      out += from.size();
    return out;
  }

  scripted_channel wire{};
  collective_counters counters{};

private:
  bool wire_is_empty() const { return wire.read_at == wire.incoming.size() && !wire.ends; }

  collective_plan plan_;
  std::vector<data_link> links_;
  std::vector<float> input_{};
  std::vector<float> output_{};
  std::vector<float> scratch_{};
  operation_data data_{};
  std::optional<plan_runner> runner_{};
};

/// An operation by three bytes.
struct operation {
  plan_task task{};
  bool encoded = false;
  bool possible = false;
};

operation operation_of(std::uint8_t what, std::uint8_t how, std::uint8_t count) {
  operation out;
  out.task.kind = static_cast<collective_kind>(what % kinds);
  out.task.algorithm = all_algorithms[how % all_algorithms.size()];
  out.task.size = 2;
  out.task.root = what / kinds % 2;
  out.task.count = count;
  if (out.task.kind == collective_kind::all_gather || out.task.kind == collective_kind::gather)
    out.task.parts = {0, out.task.count / 3, out.task.count};
  const bool merges = out.task.kind == collective_kind::all_reduce
                      || out.task.kind == collective_kind::reduce
                      || out.task.kind == collective_kind::reduce_scatter;
  out.encoded = merges && how >= 0x80;
  out.task.encoded = out.encoded;
  out.possible = can_plan(out.task.kind, out.task.algorithm, out.task.size);
  return out;
}

/// What, how, how many, whose memory (bit 0), a seed for the pieces; then the stream.
bool decode_blocks(std::string_view input) {
  pieces in{input};
  const auto what = in.byte();
  const auto how = in.byte();
  auto op = operation_of(what, how, in.byte());
  op.task.rank = in.byte() % 2;
  const auto seed = in.byte();
  if (!op.possible)
    return false;
  member us{op.task, op.encoded};
  us.wire.incoming = in.rest();
  us.wire.ends = true;
  us.wire.chunk = cuts_of(seed);
  while (!us.done() && us.advance()) {
  }
  require(us.counters.blocks_received <= us.blocks_expected(), "more blocks than there are steps");
  if (us.done())
    require(us.counters.blocks_received == us.blocks_expected() && us.counters.blocks_refused == 0,
            "an operation is done with all of its blocks");
  return us.done();
}

void hand_over(member& from, member& to) {
  to.wire.incoming += from.wire.outgoing;
  from.wire.outgoing.clear();
}

/// What member 1 hears from member 0, or the other way.
std::string heard(const operation& op, std::uint32_t rank) {
  auto ours = op.task;
  ours.rank = rank;
  auto theirs = op.task;
  theirs.rank = 1 - rank;
  member us{ours, op.encoded};
  member them{theirs, op.encoded};
  for (int i = 0; i < 100 && !(us.done() && them.done()); ++i) {
    us.advance();
    hand_over(us, them);
    them.advance();
    hand_over(them, us);
  }
  require(us.done() && them.done(), "two members that hear each other are done");
  return us.wire.incoming;
}

std::vector<std::string> block_seeds() {
  std::vector<std::string> out;
  for (std::uint8_t what = 0; what < 2 * kinds; ++what)
    for (std::uint8_t how = 0; how < all_algorithms.size(); ++how)
      for (const std::uint8_t extra : {0x00, 0x80}) {
        const auto code = static_cast<std::uint8_t>(extra == 0 ? how : 0x80 + how + 5);
        const std::uint8_t count = 7;
        const auto op = operation_of(what, code, count);
        if (!op.possible || (extra != 0 && !op.encoded))
          continue;
        for (std::uint8_t rank = 0; rank < 2; ++rank)
          out.push_back(std::string{static_cast<char>(what), static_cast<char>(code),
                                    static_cast<char>(count), static_cast<char>(rank), '\3'}
                        + heard(op, rank));
      }
  return out;
}

} // namespace

void add_blocks(std::vector<decoder>& to) { to.push_back({"blocks", decode_blocks, block_seeds}); }

} // namespace fuzz
