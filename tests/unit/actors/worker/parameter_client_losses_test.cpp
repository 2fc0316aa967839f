// Goal: what a server refused stays known, also when its channel ends at the same moment. Method: a
// link whose answers the test writes.
#include <doctest/doctest.h>

#include <limits>

#include "../data_plane/parameter_fixture.hpp"

using namespace parameter_test;

namespace {

/// What the next `pump` finds on the wire.
struct script {
  bool refuse_push = false;
  bool refuse_read = false;
  bool end = false;
  int moves_left = 0;               ///< looks at the wire that find another byte
  bool answers_after_moves = false; ///< then what is pending is answered
  std::uint64_t moved = 0;
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
    if (script_->moves_left > 0) {
      --script_->moves_left;
      ++script_->moved;
    } else if (script_->answers_after_moves) {
      reading_ = pushing_ = false;
    }
    return {};
  }
  bool reads_pending() const override { return reading_; }
  bool pushes_pending() const override { return pushing_; }
  bool may_push(std::uint64_t) const override { return true; }
  failure take_read_failure() override { return std::exchange(read_refusal_, failure{}); }
  failure take_push_failure() override { return std::exchange(push_refusal_, failure{}); }
  void disown_reads() override { reading_ = false; }
  void disown_pushes() override { pushing_ = false; }
  std::uint64_t moved_bytes() const override { return script_->moved; }
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
  explicit scripted(parameter_client_options options = {})
    : id{vars.add(make_variable(1, {4}, 1, 1))},
      client{w.env(), vars.catalogue(),
             [this](std::uint32_t) -> result<std::unique_ptr<server_link>> {
               return std::unique_ptr<server_link>{std::make_unique<scripted_link>(what)};
             },
             std::move(options)} {
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

TEST_CASE("a server that goes on moving bytes is waited for, however long its answer takes") {
  for (bool works : {true, false}) {
    CAPTURE(works);
    scripted s{{.reply_max = std::chrono::milliseconds{5}}};
    s.what->moves_left = works ? 20 : 0;
    s.what->answers_after_moves = works;
    std::vector<variable_id> ids{s.id};
    auto got = s.client.read(ids);
    CHECK(bool{got} == works);
    if (!works) {
      CHECK(got.error().code == errc::unavailable);
      CHECK(got.error().where.task == task_id{job_kind::ps, 0});
    }
    std::vector<mutation> ops(1);
    ops[0].variable = s.id;
    ops[0].kind = mutation_kind::assign_add;
    ops[0].values = tensor::zeros(dtype::f32, {4});
    s.what->moves_left = works ? 20 : 0;
    s.client.mutate(ops).value_or_throw();
    auto done = s.client.finish();
    CHECK(bool{done} == works);
    if (!works)
      CHECK(done.error().code == errc::deadline);
    s.client.abandon();
  }
}

TEST_CASE("a learning rate that can't be is refused before anything is sent") {
  scripted s;
  auto trained = make_variable(2, {4}, 1, 1);
  trained.optimizer.kind = optimizer_kind::sgd;
  const auto id = s.vars.add(trained);
  for (float rate : {-1.0f, std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<mutation> ops(1);
    ops[0].variable = id;
    ops[0].kind = mutation_kind::set_learning_rate;
    ops[0].values = tensor::scalar(rate);
    auto why = s.client.mutate(ops);
    REQUIRE_FALSE(why);
    CHECK(why.error().code == errc::invalid_argument);
    CHECK(why.error().text.find("finite number of at least 0") != std::string::npos);
  }
  CHECK(s.client.finish()); // nothing is under way
}
