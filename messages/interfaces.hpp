#pragma once

#include <troupe/core/caf_compat.hpp>
#include <troupe/messages/fwd.hpp>

/// Interfaces of all actors: who may send which message to whom, and why. This page is the whole
/// control plane; the messages are in the headers of their conversations (`fwd.hpp` lists them).
namespace troupe {

/// Failure detector and author of the views. Published at the coordinator's port: every process
/// finds it first.
using membership_actor = caf::typed_actor<
  // Any process: asks to be a member; answered with its incarnation and the view, or with why not.
  signature<hello_answer(hello)>,
  // A member: a sign of life, and what a worker's threads do.
  signature<void(heartbeat)>,
  // A member: goes of its own will.
  signature<void(leave)>,
  // The coordinator: wants to hear of every member, those that are there already included.
  signature<void(follow_members)>,
  // The coordinator: gives an incarnation up, which is fenced.
  signature<void(fence_member)>,
  // The coordinator: the members shall end, then the membership itself.
  signature<void(end_cluster)>,
  // Itself: looks for silent members, tries to publish again, or ends at its deadline.
  signature<void(tick)>>;

/// Whoever is a member: part of the interfaces of workers and servers.
using member_actor = caf::typed_actor<
  // Membership: the members and the fences are now these.
  signature<void(view_changed)>,
  // Membership: wants a heartbeat at once.
  signature<void(probe_member)>,
  // Membership: the incarnation is fenced; drops everything and rejoins as another.
  signature<void(fenced_notice)>,
  // Membership: the cluster has ended.
  signature<void(end_member)>,
  // Its process: leaves the cluster and ends.
  signature<void(leave_cluster)>>;

/// Runs the program's closures.
using coordinator_actor = caf::typed_actor<
  // Membership: a process is a member now.
  signature<void(member_joined)>,
  // Membership: a member has gone.
  signature<void(member_lost)>,
  // Membership: what a worker's threads do, from its heartbeat.
  signature<void(threads_seen)>,
  // Its process's links: a worker of another process can be spoken to.
  signature<void(worker_linked)>,
  // Its process's links: a worker's link has gone; all that it said has come.
  signature<void(link_ended)>,
  // A worker: attempts that ended, attempts that begin, resources that were made.
  signature<void(worker_report)>,
  // A worker: a step asks for a variable by name; answered when its shards are there.
  signature<variable_answer(request_variable)>,
  // A server: its ledgers have forgotten what that list settled.
  signature<void(closures_settled)>,
  // The program: there are closures to dispatch.
  signature<void(work_waiting)>,
  // The program: an error is being raised, so whatever runs shall end.
  signature<void(cancel_requested)>,
  // The program: a blocking call, which answers through a promise of its own.
  signature<void(run_call)>,
  // Itself: looks at what waits for a time: completion watermarks, snapshots, recalls, last words.
  signature<void(tick)>>;

/// Owns compute threads and per-worker resources.
using worker_actor = member_actor::extend<
  // Its process's links: the link to the coordinator has gone, or did not come about.
  signature<void(link_ended)>,
  // The coordinator: may begin, with these variables and resources.
  signature<void(admit_worker)>,
  // The coordinator: runs these closures, in this order.
  signature<void(run_closures)>,
  // The coordinator: gives back some that have not started.
  signature<void(recall_closures)>,
  // The coordinator: ends these, within a grace.
  signature<void(cancel_closures)>,
  // The coordinator: steps may use these variables too.
  signature<void(add_variables)>,
  // The coordinator: builds these resources before any later closure.
  signature<void(make_resources)>,
  // The coordinator: these resources are no longer wanted.
  signature<void(drop_resources)>,
  // A compute thread: the outbox has something to report.
  signature<void(thread_progress)>,
  // A compute thread: a step asks for a variable by name.
  signature<void(variable_wanted)>,
  // Its device: has failed, so the worker can go on no longer.
  signature<void(device_failed)>,
  // Itself: beats, dials, looks for hung steps, sends a report that waited.
  signature<void(tick)>>;

/// Owns a server's shards, for as long as it is a member.
using parameter_server_actor = member_actor::extend<
  // The coordinator: obeys this term from now on; answered with the highest one it has seen.
  signature<term_answer(grant_term)>,
  // The coordinator: makes its shards of these variables; answered when done, or with how far it
  // is.
  signature<creation_answer(create_shards)>,
  // The coordinator: forgets its shards of these variables.
  signature<done_answer(drop_shards)>,
  // The coordinator: these closures can't be run again; ledgers may forget them.
  signature<void(settle_closures)>,
  // The coordinator: keeps all shards as they are now, for a checkpoint to read.
  signature<done_answer(take_cut)>,
  // The coordinator: that snapshot has been read, or never will be.
  signature<done_answer(drop_cut)>,
  // The coordinator: wants totals.
  signature<server_statistics(query_server)>,
  // Itself: beats, dials, goes on making shards.
  signature<void(tick)>>;

/// Owns one device of this process: its creation, pool, health and teardown. Threads enqueue on the
/// device itself, without a message.
using device_actor = caf::typed_actor<
  // Its device: has failed for good.
  signature<void(device_failed)>,
  // A worker or replica: wants to hear when the device fails.
  signature<void(watch_device)>,
  // Anyone here: wants its memory, operations and health.
  signature<device_report(query_device)>,
  // Its process: the device is no longer needed.
  signature<void(close_device)>,
  // Itself: the device is open or closed, or it is time to look at its poller.
  signature<void(tick)>>;

/// Owns one replica of a synchronous strategy: watches its device. Runs are put on its thread,
/// without a message.
using replica_actor = caf::typed_actor<
  // Its device: has failed, so the replica is fenced.
  signature<void(device_failed)>,
  // Anyone here: wants to know whom it waits for.
  signature<replica_report(query_replica)>,
  // Its strategy: ends.
  signature<void(close_replica)>>;

} // namespace troupe
