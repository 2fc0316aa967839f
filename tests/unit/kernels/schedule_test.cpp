#include <troupe/kernels/schedule.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

namespace k = troupe::kernels;
using kind = k::schedule_kind;

namespace {

constexpr std::uint64_t far = std::numeric_limits<std::uint64_t>::max();

k::schedule_spec of(kind which, float initial) {
  k::schedule_spec spec;
  spec.kind = which;
  spec.initial = initial;
  return spec;
}

std::string why_invalid(const k::schedule_spec& spec) {
  return k::invalid_schedule(spec).value_or("");
}

} // namespace

TEST_CASE("schedule: constant is the same at every step") {
  const auto spec = k::constant_schedule(0.25f);
  CHECK_FALSE(k::invalid_schedule(spec));
  for (std::uint64_t step : {std::uint64_t{0}, std::uint64_t{1}, far})
    CHECK(k::evaluate(spec, step) == 0.25f);
}

TEST_CASE("schedule: linear decay is flat, straight, flat") {
  auto spec = of(kind::linear_decay, 1.0f);
  spec.end = 0.5f;
  spec.begin_step = 10;
  spec.end_step = 20;
  CHECK_FALSE(k::invalid_schedule(spec));
  CHECK(k::evaluate(spec, 0) == 1.0f);
  CHECK(k::evaluate(spec, 10) == 1.0f);
  CHECK(k::evaluate(spec, 15) == 0.75f);
  CHECK(k::evaluate(spec, 20) == 0.5f);
  CHECK(k::evaluate(spec, far) == 0.5f);
}

TEST_CASE("schedule: exponential decay, smooth and in stairs") {
  auto spec = of(kind::exponential_decay, 8.0f);
  spec.rate = 0.25f;
  spec.decay_steps = 10;
  CHECK_FALSE(k::invalid_schedule(spec));
  CHECK(k::evaluate(spec, 0) == 8.0f);
  CHECK(k::evaluate(spec, 5) == doctest::Approx(4.0));
  CHECK(k::evaluate(spec, 10) == 2.0f);
  CHECK(k::evaluate(spec, far) == 0.0f);
  spec.staircase = true;
  CHECK(k::evaluate(spec, 9) == 8.0f);
  CHECK(k::evaluate(spec, 10) == 2.0f);
  CHECK(k::evaluate(spec, 19) == 2.0f);
  CHECK(k::evaluate(spec, 20) == 0.5f);
}

TEST_CASE("schedule: cosine decay follows the half wave down to alpha") {
  auto spec = of(kind::cosine_decay, 2.0f);
  spec.decay_steps = 1000;
  spec.alpha = 0.25f;
  CHECK_FALSE(k::invalid_schedule(spec));
  for (std::uint64_t step = 0; step <= 1000; step += 10) {
    const double wave = 0.5 * (1.0 + std::cos(3.14159265358979323846 * double(step) / 1000.0));
    CHECK(double(k::evaluate(spec, step))
          == doctest::Approx(2.0 * (0.75 * wave + 0.25)).epsilon(1e-7));
  }
  CHECK(k::evaluate(spec, 0) == 2.0f);
  CHECK(k::evaluate(spec, 1000) == 0.5f);
  CHECK(k::evaluate(spec, far) == 0.5f);
}

TEST_CASE("schedule: piecewise constant changes after each boundary") {
  auto spec = of(kind::piecewise_constant, 0.0f);
  spec.boundary_count = 2;
  spec.boundaries = {100, 200};
  spec.values = {1.0f, 0.5f, 0.1f};
  CHECK_FALSE(k::invalid_schedule(spec));
  CHECK(k::evaluate(spec, 0) == 1.0f);
  CHECK(k::evaluate(spec, 100) == 1.0f);
  CHECK(k::evaluate(spec, 101) == 0.5f);
  CHECK(k::evaluate(spec, 200) == 0.5f);
  CHECK(k::evaluate(spec, 201) == 0.1f);
  CHECK(k::evaluate(spec, far) == 0.1f);
  spec.boundary_count = 8;
  spec.boundaries = {1, 2, 3, 4, 5, 6, 7, 8};
  spec.values = {9, 8, 7, 6, 5, 4, 3, 2, 1};
  CHECK_FALSE(k::invalid_schedule(spec));
  for (std::uint64_t step = 1; step <= 9; ++step)
    CHECK(k::evaluate(spec, step) == float(10 - step));
}

TEST_CASE("schedule: inverse time, smooth and in stairs") {
  auto spec = of(kind::inverse_time, 3.0f);
  spec.rate = 0.5f;
  spec.decay_steps = 10;
  CHECK_FALSE(k::invalid_schedule(spec));
  CHECK(k::evaluate(spec, 0) == 3.0f);
  CHECK(k::evaluate(spec, 5) == doctest::Approx(2.4));
  CHECK(k::evaluate(spec, 10) == 2.0f);
  spec.staircase = true;
  CHECK(k::evaluate(spec, 9) == 3.0f);
  CHECK(k::evaluate(spec, 20) == 1.5f);
}

TEST_CASE("schedule: a bad field is named with its value") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(why_invalid(of(kind::constant, -1.0f))
        == "schedule_spec.initial is -1.000000, expected finite and at least 0");
  CHECK(why_invalid(of(kind::constant, nan)).find("initial is nan") != std::string::npos);
  CHECK(why_invalid(of(static_cast<kind>(6), 1.0f)).find("kind is 6") != std::string::npos);
  auto linear = of(kind::linear_decay, 1.0f);
  linear.begin_step = linear.end_step = 5;
  CHECK(why_invalid(linear) == "schedule_spec.end_step is 5, expected more than begin_step");
  auto exponential = of(kind::exponential_decay, 1.0f);
  exponential.decay_steps = 0;
  CHECK(why_invalid(exponential).find("decay_steps is 0") != std::string::npos);
  exponential.decay_steps = 1;
  exponential.rate = -0.5f;
  CHECK(why_invalid(exponential).find("rate is -0.5") != std::string::npos);
  auto cosine = of(kind::cosine_decay, 1.0f);
  cosine.alpha = 1.5f;
  CHECK(why_invalid(cosine).find("alpha is 1.5") != std::string::npos);
  auto pieces = of(kind::piecewise_constant, 0.0f);
  pieces.boundary_count = 9;
  CHECK(why_invalid(pieces).find("boundary_count is 9") != std::string::npos);
  pieces.boundary_count = 2;
  pieces.boundaries = {5, 5};
  CHECK(why_invalid(pieces).find("boundaries[1] is 5") != std::string::npos);
  pieces.boundaries = {5, 6};
  pieces.values[2] = nan;
  CHECK(why_invalid(pieces).find("values[2] is nan") != std::string::npos);
}

TEST_CASE("schedule: an invalid spec still evaluates to some number") {
  k::schedule_spec spec;
  spec.decay_steps = 0;
  spec.boundary_count = 255;
  for (int which = 0; which < 8; ++which) {
    spec.kind = static_cast<kind>(which);
    for (std::uint64_t step : {std::uint64_t{0}, std::uint64_t{1}, far})
      CHECK_FALSE(std::isnan(k::evaluate(spec, step)));
  }
}
