// Goal: what a server refused stays known, also when its channel ends at the same moment. Method: a
// link whose answers the test writes.
#include <doctest/doctest.h>

#include "parameter_fixture.hpp"

using namespace parameter_test;

namespace {

/// What the next `pump` finds on the wire.
struct script {
  bool refuse_push = false;
  bool refuse_read = false;
  bool end = false;
};

class scripted_link final : public server_link {
public:
  explicit scripted_link(std::shared_ptr<script> of) : script_{std::move(of)} {}
  bool copies() const override { return true; }
  result<void> start_reads(std::span<const read_part>) override {
    reading_ = true;
    return {};
  }
  result<void> start_gathers(std::span<gather_part>) override { return {}; }
  result<void> start_mutations(std::span<const mutation_piece>, const origin&) override {
    pushing_ = true;
    return {};
  }
  result<void> pump() override {
    if (std::exchange(script_->refuse_push, false) && std::exchange(pushing_, false))
      push_refusal_ = make_failure(errc::unknown_variable, "not here");
    if (std::exchange(script_->refuse_read, false) && std::exchange(reading_, false))
      read_refusal_ = make_failure(errc::unknown_variable, "not here");
    if (std::exchange(script_->end, false))
      return make_failure(errc::unavailable, "another incarnation");
    return {};
  }
  bool reads_pending() const override { return reading_; }
  bool pushes_pending() const override { return pushing_; }
  bool may_push(std::uint64_t) const override { return true; }
  failure take_read_failure() override { return std::exchange(read_refusal_, failure{}); }
  failure take_push_failure() override { return std::exchange(push_refusal_, failure{}); }
  void disown_reads() override { reading_ = false; }
  void disown_pushes() override { pushing_ = false; }
  channel* wire() override { return nullptr; }
  bool wants_send() const override { return false; }

private:
  std::shared_ptr<script> script_;
  bool reading_ = false;
  bool pushing_ = false;
  failure read_refusal_{};
  failure push_refusal_{};
};

struct scripted {
  scripted()
    : id{vars.add(make_variable(1, {4}, 1, 1))},
      client{w.env(), vars.catalogue(),
             [this](std::uint32_t) -> result<std::unique_ptr<server_link>> {
               return std::unique_ptr<server_link>{std::make_unique<scripted_link>(what)};
             }} {
    client.begin({term_no{1}, 1}, attempt_no{1}, worker());
  }
  world w{};
  variables vars{1, &w.tracer};
  std::shared_ptr<script> what = std::make_shared<script>();
  variable_id id;
  parameter_client client;
};

} // namespace

TEST_CASE("INV-X1 a refused push that comes with the end of its channel fails the closure") {
  scripted s;
  std::vector<mutation> ops(1);
  ops[0].variable = s.id;
  ops[0].kind = mutation_kind::assign_add;
  ops[0].values = tensor::zeros(dtype::f32, {4});
  s.client.mutate(ops).value_or_throw();
  s.what->refuse_push = s.what->end = true;
  auto done = s.client.finish(s.w.in(std::chrono::seconds{10}));
  REQUIRE_FALSE(done);
  CHECK(done.error().code == errc::unknown_variable);
  CHECK(done.error().where.task == task_id{job_kind::ps, 0});
}

TEST_CASE("INV-X1 a refused read that comes with the end of its channel gives no value") {
  scripted s;
  s.what->refuse_read = s.what->end = true;
  std::vector<variable_id> ids{s.id};
  CHECK_FALSE(s.client.read(ids));
}
