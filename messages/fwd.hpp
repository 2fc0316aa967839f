#pragma once

/// The messages by name: enough for interfaces, and for headers that take a message by reference or
/// return one. Each stands in the header of its conversation.
namespace troupe {

// membership.hpp
struct member;
struct fence;
struct view;
struct hello;
struct hello_answer;
struct thread_status;
struct heartbeat;
struct fenced_notice;
struct view_changed;
struct probe_member;
struct leave;
struct leave_cluster;
struct end_member;
struct member_joined;
struct member_lost;
struct threads_seen;
struct follow_members;
struct fence_member;
struct end_cluster;

// links.hpp
struct worker_linked;
struct link_ended;

// admission.hpp
struct admit_worker;

// terms.hpp
struct grant_term;
struct term_answer;

// closures.hpp
struct closure_order;
struct run_closures;
struct recall_closures;
struct cancel_closures;
struct attempt_ended;
struct attempt_begun;
struct worker_report;
struct thread_progress;

// resources.hpp
struct resource_order;
struct make_resources;
struct drop_resources;
struct resource_made;

// variables.hpp
struct add_variables;
struct request_variable;
struct variable_answer;
struct variable_wanted;
struct create_shards;
struct creation_answer;
struct drop_shards;

// settlement.hpp
struct settle_closures;
struct closures_settled;

// snapshots.hpp
struct take_cut;
struct drop_cut;

// server_statistics.hpp
struct query_server;
struct server_statistics;

// devices.hpp
struct device_event;
struct device_failed;
struct device_watcher;
struct watch_device;
struct query_device;
struct device_report;
struct close_device;

// replicas.hpp
struct query_replica;
struct replica_report;
struct close_replica;

// program.hpp
struct work_waiting;
struct cancel_requested;
struct run_call;
class coordinator_call;

// message_header.hpp, tick.hpp
struct message_header;
struct done_answer;
struct tick;

} // namespace troupe
