// What servers are told of the ends of closures, and what waits for their answers.
#include <troupe/actors/coordinator/coordinator.hpp>

#include <troupe/messages/settlement.hpp>

namespace troupe {

/// `ask_to_confirm` follows.
void coordinator_state::confirm_later(closure_end end) {
  mark(env_, end.why.code == errc::poisoned ? "coordinator.poison_isolated"
                                            : "coordinator.end_confirmed_later");
  settlement_.hold(std::move(end));
}

/// Of all ends that are new here, also those that the queue decided.
void coordinator_state::ask_to_confirm() {
  for (auto& end : queue()->take_unconfirmed())
    confirm_later(std::move(end));
  if (settlement_.list_wanted())
    send_completion_watermark();
}

void coordinator_state::send_completion_watermark() {
  auto list = queue()->settled();
  const auto list_no = settlement_.next_list(list);
  for (auto& [index, s] : servers_)
    tell(self_, s.handle,
         settle_closures{.header = header_for(s.who.inc),
                         .list_no = list_no,
                         .highest = list.highest,
                         .unsettled = list.open});
  confirm_settled();
}

void coordinator_state::on_settled(closures_settled& msg) {
  auto at = servers_.find(msg.header.from.index);
  if (at == servers_.end() || at->second.who.inc != msg.header.sender)
    return;
  settlement_.acknowledged(msg.header.from.index, msg.list_no);
  confirm_settled();
}

void coordinator_state::confirm_settled() {
  if (settlement_.held() == 0)
    return;
  for (auto& end : settlement_.take_confirmed()) {
    queue()->mark_ended({&end, 1});
    forget_blobs(*end.which);
  }
  shared_->board.publish();
  check_quiet();
}

} // namespace troupe
