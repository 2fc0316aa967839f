#include <troupe/sim/lists.hpp>

namespace troupe::sim {

namespace {

constexpr list_line invariants[] = {
  {"INV-A1",
   "members of a group get the same bits, made of what all gave, or an error that names the lost"},
  {"INV-B1", "queues and credits stay under their declared limits"},
  {"INV-B2", "at the end no closure, join, actor or request is left open"},
  {"INV-C1", "a restore gives what the last save that returned had kept, or says why not"},
  {"INV-C2", "a restore never gives what no save had written"},
  {"INV-D1", "the same run again traces the same events and gives the same hash"},
  {"INV-L1", "once a core is whole the program returns within its time"},
  {"INV-M1", "one author acts in a term; terms and views only grow on every node"},
  {"INV-P1",
   "an acknowledged push is in the shard's state, whole, or was rolled back by an announced loss"},
  {"INV-P2", "a second operation with the same closure, variable and number changes no shard"},
  {"INV-P3", "nothing of a fenced incarnation or an older term changes a shard"},
  {"INV-X1", "every finished closure has effect once on every shard, and its own attempt's result"},
  {"INV-X2",
   "an effect belongs to a closure accepted before; none comes after a confirmed end without"},
  {"INV-X3", "join returns when every closure before it has ended, and none of them starts later"},
  {"INV-X4",
   "the first error of a batch is the one raised; no infrastructure error while a retry is "
   "allowed"},
  {"actors-left", "a process whose program returned has no actor left"},
  {"complaint", "no lane throws, no message is unexpected, nothing is printed by default handlers"},
  {"dataset", "each worker's iterator gives its dataset from the beginning, in order"},
  {"named-error", "an error that reaches the program is one that the scenario allows"},
  {"program", "the coordinator's program returns"},
  {"table", "a row, and a shard in a dense read, is never seen in the middle of a change"},
};

constexpr list_line marks[] = {
  {"checkpoint.committed", "a checkpoint is complete"},
  {"checkpoint.data_synced", "its data are on the disk"},
  {"checkpoint.manifest_synced", "its manifest is on the disk"},
  {"checkpoint.older_one_used", "the newest checkpoint did not hold; an older one was restored"},
  {"checkpoint.renamed", "it has its name"},
  {"client.after_read", "a step has read its variables"},
  {"client.all_acked", "all operations of a closure are acknowledged"},
  {"client.link_lost", "an idle channel to a server ended"},
  {"client.link_lost_with_requests", "a channel to a server ended with requests under way"},
  {"client.push_failed_midway", "some servers have their pieces of an operation and others do not"},
  {"client.pushed_k_of_n", "a push has reached some of its servers' channels"},
  {"coordinator.cut_waits_for_partial",
   "a cut waits for closures whose lost attempts may be on some shards"},
  {"coordinator.end_confirmed_later",
   "an end is told once no server can apply more of its closure"},
  {"coordinator.hung_step_given_up", "the coordinator hears that a worker gave a hung step up"},
  {"coordinator.late_cut_dropped", "a cut came after its save had given up"},
  {"coordinator.link_lost", "a worker's link ended without a goodbye"},
  {"coordinator.old_cancel_ignored", "a cancel came after its batch had ended"},
  {"coordinator.poison_isolated", "a closure took its last allowed worker"},
  {"coordinator.recalled", "closures were asked back from a worker"},
  {"coordinator.result_missing", "an end came without its result's blob"},
  {"coordinator.retry_cancelled",
   "an attempt met a fault of the way while its batch was being cancelled"},
  {"coordinator.stale_end_refused", "an end of an attempt that is not in flight there"},
  {"coordinator.stale_sender_refused", "a report of a worker that is lost"},
  {"coordinator.superseded", "a server refused to grant the term"},
  {"coordinator.term_raised", "a new coordinator takes a higher term than servers have seen"},
  {"coordinator.worker_died_during_cut",
   "a worker was lost while a cut waited for closures to end"},
  {"coordinator.worker_died_with_closures", "a worker was lost with closures in flight"},
  {"coordinator.worker_of_later_term", "a worker obeys a later term than the coordinator's"},
  {"coordinator.worker_replaced",
   "a worker joined before the loss of its last incarnation was told"},
  {"member.fenced", "a member heard that it is fenced"},
  {"member.link_lost", "a worker's link ended without a goodbye, or could not be made"},
  {"member.stale_message_refused", "a message for another incarnation or of an older term"},
  {"member.welcome_was_lost", "a member's welcome, or the news of its fence, had got lost"},
  {"membership.stale_sender_refused", "a heartbeat of an incarnation that is no member"},
  {"membership.stranger_refused", "an order from outside the coordinator's process"},
  {"membership.task_taken", "a second process for a live task"},
  {"queue.join_met_failure", "an error came while join waited"},
  {"queue.put_back_cancelled", "a closure came back after another one had failed"},
  {"queue.put_back_while_joining", "a closure came back while join waited"},
  {"server.duplicate_dropped", "an operation that was applied before came again"},
  {"server.fenced_refused", "an operation or a hello of a fenced incarnation"},
  {"server.old_term_dropped", "an operation of an older term"},
  {"server.old_term_refused", "an order of an older term's coordinator"},
  {"server.push_cut_short", "a channel ended in the middle of a push"},
  {"server.settled_dropped", "an operation of a closure that had ended"},
  {"sim.step_hung", "a scenario's step never came back"},
  {"sim.step_killed", "a scenario's step ended its worker's process"},
  {"sim.step_slow", "a scenario's step was slow"},
  {"sim.step_threw", "a scenario's step threw"},
  {"worker.end_of_dead_life_dropped",
   "a step ended after its worker was fenced or had given it up"},
  {"worker.hung_step_given_up", "a worker gave a hung step up"},
  {"worker.old_link_ended", "a worker heard that a link of an earlier life has ended"},
  {"worker.result_sent", "a worker has sent a report"},
};

} // namespace

std::span<const list_line> known_invariants() { return invariants; }

std::span<const list_line> known_marks() { return marks; }

} // namespace troupe::sim
