#pragma once

#include <troupe/core/caf_compat.hpp>
#include <troupe/messages/messages.hpp>

/// Interfaces of all actors: who may send which message to whom. This page is the whole control
/// plane.
namespace troupe {

/// Anyone who can be a member: part of the interfaces below.
///   hello ->                membership (the member asks)
///   view_changed, probe_member, fenced_notice, end_member <- membership

/// Failure detector and author of the views. Published at the coordinator's port: every process
/// finds it first.
using membership_actor = caf::typed_actor<signature<hello_answer(hello)>,  // any process
                                          signature<void(heartbeat)>,      // members
                                          signature<void(leave)>,          // members
                                          signature<void(follow_members)>, // coordinator
                                          signature<void(fence_member)>,   // coordinator
                                          signature<void(end_cluster)>,    // coordinator
                                          signature<void(tick)>>;          // itself

/// Runs the program's closures.
using coordinator_actor =
  caf::typed_actor<signature<void(member_joined)>,               // membership
                   signature<void(member_lost)>,                 // membership
                   signature<void(lanes_seen)>,                  // membership
                   signature<void(worker_linked)>,               // its process's links
                   signature<void(link_ended)>,                  // its process's links
                   signature<void(worker_report)>,               // workers
                   signature<variable_answer(request_variable)>, // workers
                   signature<void(closures_settled)>,            // servers
                   signature<void(work_waiting)>,                // the program's threads
                   signature<void(cancel_requested)>,            // the program's threads
                   signature<void(run_call)>,                    // the program's threads
                   signature<void(tick)>>;                       // itself

/// Owns compute lanes and per-worker resources.
using worker_actor = caf::typed_actor<signature<void(view_changed)>,    // membership
                                      signature<void(probe_member)>,    // membership
                                      signature<void(fenced_notice)>,   // membership
                                      signature<void(end_member)>,      // membership
                                      signature<void(leave_cluster)>,   // its process
                                      signature<void(link_ended)>,      // its process's links
                                      signature<void(admit_worker)>,    // coordinator
                                      signature<void(run_closures)>,    // coordinator
                                      signature<void(recall_closures)>, // coordinator
                                      signature<void(cancel_closures)>, // coordinator
                                      signature<void(add_variables)>,   // coordinator
                                      signature<void(make_resources)>,  // coordinator
                                      signature<void(drop_resources)>,  // coordinator
                                      signature<void(lane_progress)>,   // its lanes
                                      signature<void(variable_wanted)>, // its lanes
                                      signature<void(device_failed)>,   // its device
                                      signature<void(tick)>>;           // itself

/// Owns the lives of a server's shards and lanes.
using parameter_server_actor =
  caf::typed_actor<signature<void(view_changed)>,              // membership
                   signature<void(probe_member)>,              // membership
                   signature<void(fenced_notice)>,             // membership
                   signature<void(end_member)>,                // membership
                   signature<void(leave_cluster)>,             // its process
                   signature<term_answer(grant_term)>,         // coordinator
                   signature<creation_answer(create_shards)>,  // coordinator
                   signature<done_answer(drop_shards)>,        // coordinator
                   signature<void(settle_closures)>,           // coordinator
                   signature<done_answer(take_cut)>,           // coordinator
                   signature<done_answer(drop_cut)>,           // coordinator
                   signature<server_statistics(query_server)>, // coordinator
                   signature<void(tick)>>;                     // itself

/// Owns one device of this process: its creation, pool, health and teardown. Lanes enqueue on the
/// device itself, without a message.
using device_actor = caf::typed_actor<signature<void(device_failed)>,         // its device
                                      signature<void(watch_device)>,          // workers, replicas
                                      signature<device_report(query_device)>, // anyone here
                                      signature<void(close_device)>,          // its process
                                      signature<void(tick)>>;                 // itself

/// Owns one replica of a synchronous strategy: watches its device. Runs are put on its lane,
/// without a message.
using replica_actor = caf::typed_actor<signature<void(device_failed)>,           // its device
                                       signature<replica_report(query_replica)>, // anyone here
                                       signature<void(close_replica)>>;          // its strategy

} // namespace troupe
