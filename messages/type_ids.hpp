#pragma once

#include <caf/type_id.hpp>

#include <troupe/messages/messages.hpp>

/// Names of the message types on the wire. The block starts high: a host that brings its own actor
/// system has the ids from `first_custom_type_id` for itself.
#define TROUPE_MESSAGE_TYPES(apply)                                                                \
  apply(hello) apply(hello_answer) apply(heartbeat) apply(fenced_notice) apply(view_changed)       \
    apply(probe_member) apply(leave) apply(leave_cluster) apply(end_member) apply(member_joined)   \
      apply(member_lost) apply(threads_seen) apply(fence_member) apply(end_cluster)                \
        apply(follow_members) apply(tick) apply(admit_worker) apply(run_closures)                  \
          apply(recall_closures) apply(cancel_closures) apply(add_variables) apply(make_resources) \
            apply(drop_resources) apply(worker_report) apply(thread_progress)                      \
              apply(request_variable) apply(variable_answer) apply(variable_wanted)                \
                apply(grant_term) apply(term_answer) apply(create_shards) apply(drop_shards)       \
                  apply(done_answer) apply(creation_answer) apply(settle_closures)                 \
                    apply(closures_settled) apply(take_cut) apply(drop_cut) apply(query_server)    \
                      apply(server_statistics) apply(work_waiting) apply(cancel_requested)         \
                        apply(run_call) apply(worker_linked) apply(link_ended) apply(device_event) \
                          apply(device_failed) apply(watch_device) apply(query_device)             \
                            apply(device_report) apply(close_device) apply(query_replica)          \
                              apply(replica_report) apply(close_replica)

#define TROUPE_ADD_TYPE_ID(type) CAF_ADD_TYPE_ID(troupe, (troupe::type))
CAF_BEGIN_TYPE_ID_BLOCK(troupe, caf::first_custom_type_id + 10000)
TROUPE_MESSAGE_TYPES(TROUPE_ADD_TYPE_ID)
CAF_END_TYPE_ID_BLOCK(troupe)
#undef TROUPE_ADD_TYPE_ID
