// Goal: whatever a failure says, it says the same in another process. Method: every code with every
// retry class and job there and back, every cut and every foreign value refused.
#include <troupe/core/failure_codec.hpp>

#include <string>

#include <doctest/doctest.h>

namespace {

using namespace troupe;

bool is_code(int number) {
  return to_string(static_cast<errc>(number)) != to_string(static_cast<errc>(0xff));
}

failure sample(errc code, retry_class retry, job_kind job) {
  return {.code = code,
          .where = {.task = {.job = job, .index = 7}, .inc = {3, 99}, .epoch = epoch_no{5}},
          .retry = retry,
          .text = "x\n\0y"};
}

} // namespace

TEST_CASE("a failure loses neither code, retry class nor origin between processes") {
  int codes = 0;
  for (int number = 0; number < 256; ++number)
    for (const auto retry : {retry_class::no, retry_class::yes, retry_class::after_recovery})
      for (const auto job :
           {job_kind::chief, job_kind::worker, job_kind::ps, job_kind::evaluator}) {
        const auto why = sample(static_cast<errc>(number), retry, job);
        const auto back = decode_failure(encode_failure(why));
        REQUIRE(back.has_value() == is_code(number));
        if (!back)
          continue;
        ++codes;
        CHECK(back->code == why.code);
        CHECK(back->retry == why.retry);
        CHECK(back->where.task == why.where.task);
        CHECK(back->where.inc == why.where.inc);
        CHECK(back->where.epoch == why.where.epoch);
        CHECK(back->text == why.text);
      }
  CHECK(codes >= 40 * 12);
}

TEST_CASE("bytes that are no failure are none") {
  const auto whole = encode_failure(sample(errc::deadline, retry_class::yes, job_kind::worker));
  for (std::size_t cut = 0; cut < whole.size(); ++cut)
    CHECK_FALSE(decode_failure(whole.substr(0, cut)));
  CHECK_FALSE(decode_failure(whole + "x"));
  CHECK_FALSE(
    decode_failure(encode_failure(sample(errc::deadline, static_cast<retry_class>(3), {}))));
  CHECK_FALSE(decode_failure(encode_failure(sample(errc::deadline, {}, static_cast<job_kind>(4)))));
}
