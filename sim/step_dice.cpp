#include <troupe/sim/step_dice.hpp>

#include <stdexcept>

#include <troupe/sim/draws.hpp>

namespace troupe::sim {

namespace {

constexpr std::uint64_t purpose_fate = 1;
constexpr std::uint64_t purpose_length = 2;
constexpr int killed_exit_code = 9;

} // namespace

std::uint64_t step_dice::draw(const closure_id& closure, attempt_no attempt,
                              std::uint64_t purpose) const {
  return draw_stream{seed, "step"}
    .at(value_of(closure.term))
    .at(closure.seq)
    .at(value_of(attempt))
    .value(purpose);
}

step_dice::fate step_dice::of_attempt(const closure_id& closure, attempt_no attempt) const {
  auto x = draw_stream::scaled(draw(closure, attempt, purpose_fate), 1000);
  for (auto [what, share] : {std::pair{fate::throws, throws}, std::pair{fate::hangs, hangs},
                             std::pair{fate::kills, kills}, std::pair{fate::slow, slows}}) {
    if (x < share)
      return what;
    x -= share;
  }
  return fate::well;
}

void step_dice::roll(worker_context& ctx) const {
  switch (of_attempt(ctx.closure(), ctx.attempt())) {
    case fate::well: return;
    case fate::throws:
      mark(ctx.host().env(), "sim.step_threw");
      throw std::runtime_error{"closure " + std::to_string(ctx.closure().seq) + " throws"};
    case fate::hangs:
      mark(ctx.host().env(), "sim.step_hung");
      ctx.compute(std::chrono::hours{10});
      return;
    case fate::slow:
      mark(ctx.host().env(), "sim.step_slow");
      ctx.compute(std::chrono::milliseconds{
        draw_stream::scaled(draw(ctx.closure(), ctx.attempt(), purpose_length), 2000)});
      return;
    case fate::kills:
      mark(ctx.host().env(), "sim.step_killed");
      ctx.host().env().threads.leave_now(killed_exit_code);
  }
}

} // namespace troupe::sim
