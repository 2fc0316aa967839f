#include <doctest/doctest.h>

#include <troupe/strategies/optimizer/learning_rate.hpp>

#include <limits>
#include <string>
#include <type_traits>

#include "../../../support/failures.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

std::string refusal(const learning_rate_schedule& x) {
  auto fine = validate(x.spec());
  REQUIRE_FALSE(fine);
  CHECK(fine.error().code == errc::invalid_argument);
  return fine.error().text;
}

constexpr auto not_a_number = std::numeric_limits<float>::quiet_NaN();
constexpr auto inf = std::numeric_limits<float>::infinity();

} // namespace

TEST_CASE("learning rate: a number is a constant schedule") {
  learning_rate_schedule from_float = 0.5f;
  CHECK(from_float.spec().kind == schedule_kind::constant);
  CHECK(from_float.spec().initial == 0.5f);
  CHECK(learning_rate_schedule{1e-3}.spec().initial == 1e-3f);
  CHECK(learning_rate_schedule{1}.spec().initial == 1.0f);
  CHECK(validate(from_float.spec()));
  static_assert(!std::is_convertible_v<bool, learning_rate_schedule>);
  static_assert(!std::is_convertible_v<const char*, learning_rate_schedule>);
}

TEST_CASE("learning rate: every schedule fills the fields that the servers read") {
  auto line = learning_rate_schedule{linear_decay{0.1f, 0.01f, 100, 200}}.spec();
  CHECK(line.kind == schedule_kind::linear_decay);
  CHECK(line.initial == 0.1f);
  CHECK(line.end == 0.01f);
  CHECK(line.begin_step == 100);
  CHECK(line.end_step == 200);
  auto cosine = learning_rate_schedule{cosine_decay{.initial = 0.2f, .end_step = 7}}.spec();
  CHECK(cosine.kind == schedule_kind::cosine_decay);
  CHECK(cosine.end_step == 7);
  auto decay = learning_rate_schedule{exponential_decay{0.3f, 0.5f, 10, true}}.spec();
  CHECK(decay.kind == schedule_kind::exponential_decay);
  CHECK(decay.rate == 0.5f);
  CHECK(decay.end_step == 10);
  CHECK(decay.staircase);
  auto pieces = learning_rate_schedule{piecewise_constant{{5, 9}, {3, 2, 1}}}.spec();
  CHECK(pieces.kind == schedule_kind::piecewise_constant);
  CHECK(pieces.boundaries == std::vector<std::uint64_t>{5, 9});
  CHECK(pieces.values == std::vector<float>{3, 2, 1});
  auto inverse = learning_rate_schedule{inverse_time_decay{0.4f, 2.0f, 20}}.spec();
  CHECK(inverse.kind == schedule_kind::inverse_time);
  CHECK(inverse.rate == 2.0f);
  CHECK(inverse.end_step == 20);
  for (const auto& spec : {line, cosine, decay, pieces, inverse})
    CHECK(validate(spec));
}

TEST_CASE("learning rate: rates that are negative or not finite are refused by field and value") {
  CHECK(says(refusal(-0.5f), "initial is -0.5"));
  CHECK(says(refusal(not_a_number), "initial is nan"));
  CHECK(says(refusal(inf), "initial is inf"));
  CHECK(says(refusal(linear_decay{.end = -1.0f}), "end is -1"));
  CHECK(says(refusal(cosine_decay{.initial = -1.0f}), "initial is -1"));
  CHECK(says(refusal(exponential_decay{.rate = -1.0f}), "rate is -1"));
  CHECK(says(refusal(inverse_time_decay{.rate = inf}), "rate is inf"));
  CHECK(says(refusal(piecewise_constant{{1}, {1, not_a_number}}), "values[1] is nan"));
}

TEST_CASE("learning rate: steps that don't ascend are refused by field and value") {
  CHECK(says(refusal(linear_decay{.begin_step = 5, .end_step = 5}), "end_step is 5"));
  CHECK(says(refusal(cosine_decay{.end_step = 0}), "end_step is 0"));
  CHECK(says(refusal(exponential_decay{.decay_steps = 0}), "decay_steps is 0"));
  CHECK(says(refusal(inverse_time_decay{.decay_steps = 0}), "decay_steps is 0"));
  CHECK(says(refusal(piecewise_constant{{5, 5}, {1, 2, 3}}), "boundaries[1] is 5"));
  CHECK(says(refusal(piecewise_constant{{5}, {1}}), "values.size() is 1"));
  CHECK(says(refusal(piecewise_constant{{1, 2, 3, 4, 5, 6, 7, 8, 9}, std::vector<float>(10, 1.0f)}),
             "boundaries.size() is 9"));
  schedule_spec strange;
  strange.kind = static_cast<schedule_kind>(99);
  CHECK(says(refusal(strange), "kind is 99"));
}
