#include <doctest/doctest.h>

#include <troupe/strategies/replicas/input_context.hpp>

#include <string>
#include <vector>

#include "../../../support/failures.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

std::string batch_refusal(const input_context& x, std::int64_t global) {
  try {
    x.per_replica_batch_size(global);
  } catch (const error& why) {
    CHECK(why.code() == errc::invalid_argument);
    return why.details().text;
  }
  return "accepted";
}

constexpr auto from_dataset = input_source::dataset;
constexpr auto from_function = input_source::dataset_function;

} // namespace

TEST_CASE("SYNC-ICX-1 an input context is one pipeline of one replica unless told otherwise") {
  const input_context x;
  CHECK(x.num_input_pipelines == 1);
  CHECK(x.input_pipeline_id == 0);
  CHECK(x.num_replicas_in_sync == 1);
  CHECK(x == input_context{1, 0, 1});
}

TEST_CASE("SYNC-ICX-2 a replica's batch is the global one over the replicas, without remainder") {
  const input_context x{.num_replicas_in_sync = 6};
  CHECK(x.per_replica_batch_size(12) == 2);
  CHECK(x.per_replica_batch_size(0) == 0);
  CHECK(batch_refusal(x, 13) == "global_batch_size 13 is not divisible by num_replicas_in_sync 6");
  CHECK(batch_refusal(x, -6) == "global_batch_size is -6, must not be negative");
  CHECK(batch_refusal({1, 0, 0}, 6)
        == "global_batch_size 6 is not divisible by num_replicas_in_sync 0");
  CHECK(input_context{}.per_replica_batch_size(13) == 13);
}

TEST_CASE("SYNC-S19 pipeline 1 of 2 with 6 replicas divides 12 and refuses 13") {
  const input_context x{2, 1, 6};
  CHECK(x.per_replica_batch_size(12) == 2);
  CHECK(batch_refusal(x, 13).find("13 is not divisible by num_replicas_in_sync 6")
        != std::string::npos);
}

TEST_CASE("SYNC-ICX-3 the text names the pipeline and how many there are") {
  CHECK(to_string(input_context{3, 1, 6}) == "input pipeline 1 of 3, 6 replicas in sync");
  CHECK(to_string(input_context{}) == "input pipeline 0 of 1, 1 replicas in sync");
}

TEST_CASE("SYNC-ICX-4 a dataset function is called once per worker with ids from 0") {
  const auto x = input_contexts(3, 2, input_replication::per_worker).value_or_throw();
  CHECK(x == std::vector<input_context>{{3, 0, 6}, {3, 1, 6}, {3, 2, 6}});
  CHECK(refusal(input_contexts(0, 2, input_replication::per_worker))
        == "num_workers is 0, must be at least 1");
  CHECK(refusal(input_contexts(2, 0, input_replication::per_worker))
        == "replicas_per_worker is 0, must be at least 1");
  CHECK(refusal(input_contexts(65536, 65536, input_replication::per_replica))
        == "65536 workers with 65536 replicas have 4294967296 replicas, may have at most "
           "4294967295");
}

TEST_CASE("SYNC-OPT-3 with per_replica there is a pipeline for each replica") {
  const auto x = input_contexts(1, 2, input_replication::per_replica).value_or_throw();
  CHECK(x == std::vector<input_context>{{2, 0, 2}, {2, 1, 2}});
  CHECK(input_contexts(2, 3, input_replication::per_replica).value_or_throw().back()
        == input_context{6, 5, 6});
}

TEST_CASE("SYNC-VCX-1 a value context is replica 0 of 1; the text names both") {
  const value_context x;
  CHECK(x.replica_id_in_sync_group == 0);
  CHECK(x.num_replicas_in_sync == 1);
  CHECK(to_string(x) == "replica 0 of 1 in sync");
  CHECK(to_string(value_context{2, 5}) == "replica 2 of 5 in sync");
}

TEST_CASE("SYNC-VFF-6 value contexts have global ids") {
  CHECK(value_contexts(1, 2, 0).value_or_throw() == std::vector<value_context>{{0, 2}, {1, 2}});
  CHECK(value_contexts(3, 2, 2).value_or_throw() == std::vector<value_context>{{4, 6}, {5, 6}});
  CHECK(refusal(value_contexts(3, 2, 3)) == "worker is 3, num_workers is 3");
  CHECK(refusal(value_contexts(3, 0, 0)) == "replicas_per_worker is 0, must be at least 1");
}

TEST_CASE("SYNC-OPT-I input is per worker, on the host, prefetched one batch per replica") {
  const input_options x;
  CHECK(x.prefetches());
  CHECK(x.replication == input_replication::per_worker);
  CHECK_FALSE(x.place_dataset_on_device);
  CHECK(x.per_replica_buffer_size == 1);
  CHECK_FALSE(input_options{.per_replica_buffer_size = 0}.prefetches());
  CHECK_FALSE(input_options{.prefetch_to_device = false}.prefetches());
  CHECK_FALSE(input_options{.place_dataset_on_device = true}.prefetches());
  for (auto source : {from_dataset, from_function})
    for (bool mirrored : {false, true})
      CHECK(check_input_options(x, source, mirrored));
}

TEST_CASE("SYNC-I19 SYNC-OPT-1 a dataset on the device needs per_replica and no prefetch") {
  input_options x{.place_dataset_on_device = true};
  CHECK(refusal(check_input_options(x, from_function, true))
        == "input options: place_dataset_on_device is true with replication per_worker, needs "
           "per_replica");
  x.replication = input_replication::per_replica;
  CHECK(check_input_options(x, from_function, true));
  x.prefetch_to_device = false;
  CHECK(check_input_options(x, from_function, true));
  x.prefetch_to_device = true;
  CHECK(refusal(check_input_options(x, from_function, true))
        == "input options: place_dataset_on_device and prefetch_to_device are both true with "
           "replication per_replica; batches made on a device need no prefetch to it");
}

TEST_CASE("SYNC-I19 SYNC-OPT-2 per_replica is for a mirrored strategy's dataset functions alone") {
  const input_options x{.replication = input_replication::per_replica};
  CHECK(check_input_options(x, from_function, true));
  CHECK(refusal(check_input_options(x, from_dataset, true))
        == "input options: replication per_replica is not supported by distribute_dataset, only by "
           "distribute_datasets_from_function");
  for (auto source : {from_dataset, from_function})
    CHECK(refusal(check_input_options(x, source, false))
          == "input options: replication per_replica is not supported by this strategy, only by "
             "mirrored_strategy");
  CHECK(refusal(check_input_options({.replication = static_cast<input_replication>(5)},
                                    from_function, true))
        == "input options: replication is input_replication(5), must be per_worker or per_replica");
}
