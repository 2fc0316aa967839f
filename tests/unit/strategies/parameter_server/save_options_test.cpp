// Goal: the coordinator's save and restore refuse what a replicas' checkpoint refuses.

#include <doctest/doctest.h>

#include "cluster_support.hpp"

namespace {

using namespace troupe;
using namespace troupe::test;

} // namespace

TEST_CASE("save: an empty directory and a keep of 0 are refused by name, as of replicas") {
  small_cluster c;
  const auto nowhere = failure_of([&] { (void)c.coordinator.save(""); });
  CHECK(nowhere.code == errc::invalid_argument);
  CHECK(nowhere.text.find("directory is empty") != std::string::npos);
  const auto none = failure_of([&] { (void)c.coordinator.save("saved", {.keep = 0}); });
  CHECK(none.code == errc::invalid_argument);
  CHECK(none.text.find("keep is 0") != std::string::npos);
  CHECK(failure_of([&] { (void)c.coordinator.restore(""); }).code == errc::invalid_argument);
}
