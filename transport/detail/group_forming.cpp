#include <algorithm>
#include <utility>

#include <troupe/core/mac.hpp>
#include <troupe/transport/detail/group_links.hpp>

namespace troupe::detail {

namespace {

// One dial waits no longer: others are served in between.
constexpr duration dial_max = std::chrono::seconds{1};
constexpr duration dial_pause = std::chrono::milliseconds{2};
// Lists that people wrote may put two members in each other's places, so that neither calls: who
// waits longer asks the next one for its list.
constexpr duration compare_after = std::chrono::seconds{1};
constexpr duration compare_pause = std::chrono::seconds{1};
constexpr duration compare_dial_max = std::chrono::milliseconds{250}; // callers wait meanwhile
// Members of higher rank call this one; those that don't are called, one at a time, to find out
// whether they have ended.
constexpr duration look_after = std::chrono::milliseconds{500};
constexpr duration look_pause = std::chrono::milliseconds{250};
constexpr duration look_dial_max = std::chrono::milliseconds{250}; // callers wait meanwhile
// Between two looks at a channel without room.
constexpr duration full_pause = std::chrono::milliseconds{1};

class former {
public:
  former(environment& env, group_door& door, channel_poller& poller, const epoch_spec& spec,
         collective_counters& counters, time_point deadline, wait_teller& teller,
         forming_outcome& outcome)
    : env_{env},
      door_{door},
      poller_{poller},
      spec_{spec},
      counters_{counters},
      deadline_{deadline},
      teller_{teller},
      outcome_{outcome},
      members_{hash_of(spec.members)},
      list_{spec.list_is_given ? list_text(spec.members) : std::string{}},
      compare_at_{after(env.clock.now(), compare_after)},
      look_at_{after(env.clock.now(), look_after)},
      session_{env.random.draw("group.life")},
      peers_(spec.members.size()) {}

  result<std::unique_ptr<group_links>> form() {
    auto formed = connect_all();
    door_.forget(poller_);
    for (peer& p : peers_)
      for (auto* link : {p.channels.control.get(), p.channels.data.get()})
        if (link != nullptr)
          poller_.forget(*link);
    end_compare();
    if (!formed)
      return formed.error();
    std::vector<peer_channels> out;
    for (peer& p : peers_)
      out.push_back(std::move(p.channels));
    return std::make_unique<group_links>(env_.waits, std::move(out));
  }

private:
  struct peer {
    peer_channels channels{};
    std::uint32_t attempt = 0;
    std::uint32_t data_attempt = 0;
    std::uint64_t session = 0; ///< of who calls
    time_point next_try{};
    bool ready = false;
    std::string trouble{};
    group_challenge asks{};       ///< of who calls, for the welcome
    group_challenge asked{};      ///< of this one, when it calls
    bool is_asked = false;        ///< for the token, on control
    bool data_is_settled = false; ///< nothing more is to be read there before the welcome
    frame_reader data_reader{group_frame_limits};
  };

  result<void> connect_all() {
    for (;;) {
      bool moved = answer_callers();
      if (const auto newest = door_.newest(members_); newest > spec_.epoch)
        return passed_by(newest);
      for (std::uint32_t rank = 0; rank < spec_.rank; ++rank) {
        auto got = peers_[rank].channels.control ? read_answers(rank) : dial(rank);
        if (!got)
          return got.error();
        moved = moved || *got;
      }
      if (lists_differ_)
        return *lists_differ_;
      if (is_complete())
        return {};
      if (auto same = compare_with_next(moved); !same)
        return same;
      if (auto there = look_for_ended(); !there)
        return there;
      const auto now = env_.clock.now();
      if (now >= deadline_)
        return missing();
      teller_.look(now, [this] { return absent(); });
      if (!moved)
        wait();
    }
  }

  bool is_complete() const {
    for (std::uint32_t rank = 0; rank < peers_.size(); ++rank)
      if (rank != spec_.rank && !peers_[rank].ready)
        return false;
    return true;
  }

  /// Others have given this epoch up and wait in a later one.
  failure passed_by(group_epoch newest) {
    outcome_.newest = newest;
    return make_failure(errc::fenced, "group epoch " + epoch_text()
                                        + " has ended: other members are in epoch "
                                        + std::to_string(static_cast<std::uint32_t>(newest)));
  }

  failure missing() {
    for (std::uint32_t rank = 0; rank < peers_.size(); ++rank)
      if (rank != spec_.rank && !peers_[rank].ready)
        outcome_.missing.push_back(rank);
    return make_failure(
      errc::deadline, "timed out waiting for " + absent() + " to join group epoch " + epoch_text());
  }

  /// Those who are not there, and why if it is known.
  std::string absent() const {
    std::string who;
    for (std::uint32_t rank = 0; rank < peers_.size(); ++rank)
      if (rank != spec_.rank && !peers_[rank].ready) {
        who += (who.empty() ? "" : ", ") + name_of(spec_.members, rank);
        if (!peers_[rank].trouble.empty())
          who += " [" + peers_[rank].trouble + "]";
      }
    return who;
  }

  std::string epoch_text() const { return std::to_string(static_cast<std::uint32_t>(spec_.epoch)); }

  void wait() {
    time_point until = std::min(deadline_, teller_.next());
    if (may_compare() && compares_ == comparing::later)
      until = std::min(until, compare_at_);
    else if (next_)
      poller_.watch(*next_, false);
    if (spec_.members_listen)
      until = std::min(until, look_at_);
    door_.watch(poller_);
    for (std::uint32_t rank = 0; rank < spec_.rank; ++rank) {
      if (peers_[rank].ready)
        continue;
      if (peers_[rank].channels.control) {
        poller_.watch(*peers_[rank].channels.control, false);
        if (!peers_[rank].data_is_settled)
          poller_.watch(*peers_[rank].channels.data, false);
      } else
        until = std::min(until, peers_[rank].next_try);
    }
    poller_.wait(until);
    // A channel that is ready all the time would keep the others from being waited for.
    door_.forget(poller_);
  }

  // --- those who call

  bool answer_callers() {
    bool moved = door_.pump(spec_.epoch, env_.clock.now(), counters_);
    for (auto& [from, why] : door_.take_refused())
      if (from < peers_.size() && from != spec_.rank)
        peers_[from].trouble = std::move(why);
    for (group_door::caller& who : door_.take(spec_.epoch)) {
      const group_hello hello = *who.said;
      const bool fits = hello.to == spec_.rank && hello.from > spec_.rank
                        && hello.from < peers_.size() && hello.size == peers_.size()
                        && hello.members == members_;
      if (hello.compares && hello.members == members_) {
        who.link->close(); // that it has no objection is the answer
      } else if (fits && !hello.compares) {
        seat(std::move(who), hello);
      } else {
        ++counters_.callers_refused;
        group_door::refuse(std::move(who), errc::mismatch, why_other(hello));
      }
      moved = true;
    }
    return moved;
  }

  /// What a caller with another list is told. One that stands in this list too will never come with
  /// this one: then nor can this member's epoch form.
  std::string why_other(const group_hello& hello) {
    const auto other = "group epoch " + epoch_text() + " has a different member list here";
    if (!spec_.list_is_given || hello.members == members_ || list_.empty() || hello.list.empty())
      return other;
    const auto [name, address] = list_line(hello.list, hello.from);
    const auto& self = spec_.members[spec_.rank];
    auto text = "the member lists differ: "
                + difference({self.name + " at " + self.address, list_},
                             {name + " at " + address, hello.list});
    for (const auto& each : spec_.members)
      if (each.address == address)
        lists_differ_ = make_failure(errc::mismatch, text);
    return text;
  }

  bool may_compare() const {
    const auto next = spec_.rank + 1;
    return spec_.list_is_given && next < peers_.size() && !peers_[next].ready
           && compares_ != comparing::done;
  }

  /// Calls the next member, which calls nobody of a higher rank, when the epoch takes long to form,
  /// and hears of it whether both have the same list.
  result<void> compare_with_next(bool& moved) {
    if (!may_compare()) { // it came: its channel, which may have ended, is not to be waited for
      end_compare();
      return {};
    }
    const auto now = env_.clock.now();
    const auto next = spec_.rank + 1;
    if (compares_ == comparing::later && now >= compare_at_) {
      auto link = env_.transport.connect(spec_.members[next].address,
                                         std::min(deadline_, after(now, compare_dial_max)));
      compare_at_ = after(env_.clock.now(), compare_pause);
      if (!link)
        return {};
      next_ = std::move(*link);
      asked_next_ = hello_to(next, false);
      asked_next_.compares = true;
      send(*next_, group_frame::hello, encode(asked_next_));
      compares_ = comparing::asked;
      moved = true;
    }
    return compares_ == comparing::asked ? read_comparison(next, moved) : result<void>{};
  }

  result<void> read_comparison(std::uint32_t next, bool& moved) {
    auto event = next_reader_.pump(*next_);
    if (event && *event != frame_event::complete)
      return {};
    moved = true;
    const auto kind = static_cast<group_frame>(event ? next_reader_.header().kind : 0);
    if (kind == group_frame::challenge && !door_.token().empty())
      if (const auto asked = decode_challenge(next_reader_.meta())) {
        send(*next_, group_frame::proof,
             encode(group_proof{door_.fresh_challenge(),
                                dialer_code(door_.token(), asked_next_, *asked)}));
        return {};
      }
    end_compare();
    const auto why =
      kind == group_frame::refuse ? decode_notice(next_reader_.meta()) : std::nullopt;
    if (why && why->why.code == errc::mismatch)
      return refused(next, why);
    return {};
  }

  /// Calls the next of the members that are to call this one and have not: it only matters whether
  /// somebody listens there.
  result<void> look_for_ended() {
    const auto now = env_.clock.now();
    if (!spec_.members_listen || now < look_at_)
      return {};
    look_at_ = after(now, look_pause);
    for (std::size_t i = 0; i < peers_.size(); ++i) {
      const auto rank = static_cast<std::uint32_t>(looked_at_++ % peers_.size());
      if (rank <= spec_.rank || peers_[rank].ready)
        continue;
      auto link = env_.transport.connect(spec_.members[rank].address,
                                         std::min(deadline_, after(now, look_dial_max)));
      if (link)
        (*link)->close();
      else if (link.error().code == errc::connect_failed)
        return ended(rank, link.error().text);
      break;
    }
    return {};
  }

  failure ended(std::uint32_t rank, const std::string& why) {
    outcome_.missing.push_back(rank);
    return make_failure(errc::peer_lost, "group epoch " + epoch_text() + ": "
                                           + name_of(spec_.members, rank) + " was lost: " + why);
  }

  void end_compare() {
    if (!next_)
      return;
    poller_.forget(*next_);
    next_ = nullptr;
    compares_ = comparing::done;
  }

  void seat(group_door::caller who, const group_hello& hello) {
    peer& at = peers_[hello.from];
    // Another process: nothing pairs with what the one before said.
    if (hello.session != at.session) {
      at.channels = {};
      at.attempt = at.data_attempt = 0;
      at.ready = false;
      at.session = hello.session;
    }
    // Of two attempts the later one counts.
    if (hello.attempt < std::max(at.attempt, at.data_attempt))
      return;
    if (hello.is_data) {
      at.channels.data = std::move(who.link);
      at.data_attempt = hello.attempt;
    } else {
      at.channels.control = std::move(who.link);
      at.channels.reader = std::move(who.reader);
      at.channels.locality = hello.locality;
      at.attempt = hello.attempt;
      at.asks = who.asks;
    }
    at.ready = at.channels.control && at.channels.data && at.attempt == at.data_attempt;
    if (!at.ready)
      return;
    auto welcome = hello_to(hello.from, false);
    welcome.list.clear(); // the caller has the same
    const auto code =
      door_.token().empty() ? std::string{} : answer_code(door_.token(), welcome, at.asks);
    send(*at.channels.control, group_frame::welcome, encode(welcome) + code);
  }

  // --- those who are called

  result<bool> dial(std::uint32_t rank) {
    peer& at = peers_[rank];
    const time_point now = env_.clock.now();
    if (now < at.next_try)
      return false;
    const time_point until = std::min(deadline_, after(now, dial_max));
    ++at.attempt;
    at.data_reader = frame_reader{group_frame_limits};
    at.data_is_settled = door_.token().empty();
    at.is_asked = false;
    for (const bool is_data : {false, true}) {
      auto link = env_.transport.connect(spec_.members[rank].address, until);
      if (!link) {
        if (link.error().code == errc::invalid_argument)
          return link.error();
        if (link.error().code == errc::connect_failed && spec_.members_listen)
          return ended(rank, link.error().text);
        again(at, link.error().text);
        return false;
      }
      send(**link, group_frame::hello, encode(hello_to(rank, is_data)));
      (is_data ? at.channels.data : at.channels.control) = std::move(*link);
    }
    return true;
  }

  void again(peer& at, std::string why) {
    for (auto* link : {at.channels.control.get(), at.channels.data.get()})
      if (link != nullptr)
        poller_.forget(*link);
    at.channels = {};
    at.trouble = std::move(why);
    at.next_try = after(env_.clock.now(), dial_pause);
  }

  group_hello hello_to(std::uint32_t to, bool is_data) const {
    group_hello hello;
    hello.group = door_.group();
    hello.epoch = spec_.epoch;
    hello.from = spec_.rank;
    hello.to = to;
    hello.size = static_cast<std::uint32_t>(peers_.size());
    hello.members = members_;
    hello.locality = spec_.locality;
    hello.attempt = peers_[to].attempt;
    hello.is_data = is_data;
    hello.session = session_;
    hello.list = list_;
    return hello;
  }

  // A new channel has room for a frame; if it does not, it is as good as lost, and found so.
  void send(channel& over, group_frame kind, std::string meta) {
    outgoing_frame frame;
    frame.kind = static_cast<std::uint8_t>(kind);
    frame.meta = std::move(meta);
    frame_writer writer{group_frame_limits};
    if (!writer.push(std::move(frame)))
      return;
    const time_point until = std::min(deadline_, after(env_.clock.now(), dial_max));
    std::unique_ptr<channel_poller> pause;
    for (;;) {
      auto out = writer.pump(over);
      const time_point now = env_.clock.now();
      if (!out || *out || now >= until)
        return;
      if (!pause) // of its own: what the other one watches may be ready all the time
        pause = env_.transport.make_poller();
      pause->wait(std::min(until, after(now, full_pause)));
    }
  }

  result<bool> read_answers(std::uint32_t rank) {
    peer& at = peers_[rank];
    if (at.ready)
      return false;
    auto control = read_answer(rank, *at.channels.control, at.channels.reader, false);
    if (!control || at.ready || !at.channels.control || at.data_is_settled)
      return control;
    auto data = read_answer(rank, *at.channels.data, at.data_reader, true);
    return data ? result<bool>{*control || *data} : data;
  }

  /// What came on one of the two channels to a member that was called.
  result<bool> read_answer(std::uint32_t rank, channel& link, frame_reader& reader, bool is_data) {
    peer& at = peers_[rank];
    auto event = reader.pump(link);
    if (!event) {
      again(at, event.error().text);
      return false;
    }
    if (*event != frame_event::complete)
      return false;
    switch (static_cast<group_frame>(reader.header().kind)) {
      case group_frame::challenge: return prove(rank, link, reader.meta(), is_data);
      case group_frame::refuse: return refused(rank, decode_notice(reader.meta()));
      case group_frame::welcome:
        if (!is_data)
          return welcomed(rank, decode_welcome(reader.meta()));
        break;
      default: break;
    }
    return wrong_peer(rank, " sent a malformed answer");
  }

  failure wrong_peer(std::uint32_t rank, const std::string& what) const {
    return make_failure(errc::wrong_peer, name_of(spec_.members, rank) + what);
  }

  result<bool> prove(std::uint32_t rank, channel& link, std::string_view meta, bool is_data) {
    peer& at = peers_[rank];
    const auto challenge = decode_challenge(meta);
    if (!challenge)
      return wrong_peer(rank, " sent a malformed answer");
    if (door_.token().empty())
      return wrong_peer(rank, " requires the group's token, but this process has none: "
                                + std::string{token_advice});
    group_proof proof{door_.fresh_challenge(),
                      dialer_code(door_.token(), hello_to(rank, is_data), *challenge)};
    (is_data ? at.data_is_settled : at.is_asked) = true;
    if (is_data)
      poller_.forget(link);
    else
      at.asked = proof.mine;
    send(link, group_frame::proof, encode(proof));
    return true;
  }

  failure refused(std::uint32_t rank, const std::optional<group_notice>& said) {
    if (said && said->why.code == errc::fenced)
      outcome_.newest = said->epoch;
    auto why = said ? said->why : make_failure(errc::wrong_peer, {});
    why.text = name_of(spec_.members, rank) + " refused the connection"
               + (said ? ": " + why.text : std::string{});
    return why;
  }

  result<bool> welcomed(std::uint32_t rank, const std::optional<group_welcome>& said) {
    peer& at = peers_[rank];
    if (!said || said->hello.epoch != spec_.epoch || said->hello.from != rank)
      return wrong_peer(rank, " sent a malformed answer");
    const auto& token = door_.token();
    if (!token.empty()
        && !(at.is_asked && at.data_is_settled
             && same_code(said->code, answer_code(token, said->hello, at.asked))))
      return wrong_peer(rank, " does not have the group's token: " + std::string{token_advice});
    at.channels.locality = said->hello.locality;
    at.ready = true;
    // If it ends from here on, the first operation finds out; waits would only spin on it.
    poller_.forget(*at.channels.control);
    return true;
  }

  environment& env_;
  group_door& door_;
  channel_poller& poller_;
  const epoch_spec& spec_;
  collective_counters& counters_;
  time_point deadline_;
  wait_teller& teller_;
  forming_outcome& outcome_;
  std::uint64_t members_;
  const std::string list_; ///< empty: not to be told
  std::optional<failure> lists_differ_{};
  enum class comparing : std::uint8_t { later, asked, done };
  comparing compares_ = comparing::later;
  time_point compare_at_;
  time_point look_at_;
  std::size_t looked_at_ = 0;       ///< members, in turn
  std::unique_ptr<channel> next_{}; ///< that is asked for its list
  frame_reader next_reader_{group_frame_limits};
  group_hello asked_next_{};
  const std::uint64_t session_;
  std::vector<peer> peers_;
};

} // namespace

result<std::unique_ptr<group_links>> form_links(environment& env, group_door& door,
                                                channel_poller& poller, const epoch_spec& spec,
                                                collective_counters& counters, time_point deadline,
                                                wait_teller& teller, forming_outcome& outcome) {
  return former{env, door, poller, spec, counters, deadline, teller, outcome}.form();
}

} // namespace troupe::detail
