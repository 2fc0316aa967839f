// The main of every doctest program. Beside doctest's own report it writes the counts "passed
// failed skipped" to the file that TROUPE_TEST_COUNTS names, so that ./dev test can sum them over
// all runners.

#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <mutex>

namespace {

struct counts_writer : doctest::IReporter {
  explicit counts_writer(const doctest::ContextOptions&) {}

  void test_run_end(const doctest::TestRunStats& stats) override {
    const char* path = std::getenv("TROUPE_TEST_COUNTS");
    if (path == nullptr)
      return;
    const unsigned run = stats.numTestCasesPassingFilters;
    const unsigned failed = stats.numTestCasesFailed;
    std::ofstream{path} << run - failed << ' ' << failed << ' ' << stats.numTestCases - run << '\n';
  }

  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_case_start(const doctest::TestCaseData&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}
};

} // namespace

DOCTEST_REGISTER_LISTENER("counts", 1, counts_writer);

// A process test starts itself again as a worker or server: such a program defines this, and the
// variable names the role.
extern "C" __attribute__((weak)) int troupe_test_role(const char* role);

int main(int argc, char** argv) {
  const char* role = std::getenv("TROUPE_TEST_ROLE");
  if (role != nullptr && troupe_test_role != nullptr)
    return troupe_test_role(role);
  doctest::Context context{argc, argv};
  return context.run();
}
