// Goal: nobody hears of an end that is held back before every server has acknowledged a list made
// after it, and then at once. Method: each rule alone, then random histories against a model that
// keeps, for each end, which servers it still waits for.
#include <troupe/actors/coordinator/settlement.hpp>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include <doctest/doctest.h>

namespace {

using namespace troupe;

closure_end end_of(std::uint64_t seq) {
  auto c = std::make_shared<closure>();
  c->id = {term_no{1}, seq};
  return {.which = std::move(c), .status = remote_status::cancelled, .value = {}, .why = {}};
}

std::vector<std::uint64_t> seqs_of(const std::vector<closure_end>& ends) {
  std::vector<std::uint64_t> out;
  for (const auto& e : ends)
    out.push_back(e.which->id.seq);
  return out;
}

completion_watermark with_open(std::vector<std::uint64_t> open) {
  return {.term = term_no{1}, .highest = 100, .open = std::move(open)};
}

std::uint64_t send_list(settlement& s) {
  auto list = with_open({});
  return s.next_list(list);
}

using seqs = std::vector<std::uint64_t>;

} // namespace

TEST_CASE("INV-X2 an end that is held back is told once every server has acknowledged a list") {
  settlement s;
  s.server_joined(0);
  s.server_joined(1);
  s.hold(end_of(7));
  CHECK(s.list_wanted());
  CHECK(s.take_confirmed().empty()); // no list speaks of it
  const auto list = send_list(s);
  CHECK_FALSE(s.list_wanted());
  CHECK(s.take_confirmed().empty());
  s.acknowledged(0, list);
  CHECK(s.take_confirmed().empty());
  CHECK(s.held() == 1);
  s.acknowledged(1, list);
  CHECK(seqs_of(s.take_confirmed()) == seqs{7});
  CHECK(s.held() == 0);
  CHECK(s.take_confirmed().empty()); // once
}

TEST_CASE("INV-X2 a list made before the end was held back confirms nothing") {
  settlement s;
  s.server_joined(0);
  const auto early = send_list(s);
  s.hold(end_of(1));
  s.acknowledged(0, early);
  CHECK(s.take_confirmed().empty());
  const auto late = send_list(s);
  CHECK(late == early + 1);
  s.acknowledged(0, late);
  CHECK(seqs_of(s.take_confirmed()) == seqs{1});
}

TEST_CASE("settlement: an acknowledgement that comes late takes nothing back") {
  settlement s;
  s.server_joined(0);
  s.hold(end_of(1));
  const auto first = send_list(s);
  s.hold(end_of(2));
  const auto second = send_list(s);
  s.acknowledged(0, second);
  s.acknowledged(0, first);
  CHECK(seqs_of(s.take_confirmed()) == seqs{1, 2});
}

TEST_CASE("settlement: a list does not call open what is held back, and leaves the rest") {
  settlement s;
  s.hold(end_of(3));
  s.hold(end_of(9));
  auto list = with_open({1, 3, 4, 9});
  s.next_list(list);
  CHECK(list.open == seqs{1, 4});
  CHECK(list.highest == 100);
  auto again = with_open({3, 5}); // also the lists after the first one
  s.next_list(again);
  CHECK(again.open == seqs{5});
}

TEST_CASE("settlement: ends are told in the order held, past those that still wait") {
  settlement s;
  s.server_joined(0);
  for (std::uint64_t seq : {5, 2, 8})
    s.hold(end_of(seq));
  const auto list = send_list(s);
  s.hold(end_of(1));
  s.acknowledged(0, list);
  CHECK(seqs_of(s.take_confirmed()) == seqs{5, 2, 8});
  CHECK(s.held() == 1);
}

TEST_CASE("settlement: a server that is lost, or has just granted the term, is not waited for") {
  settlement s;
  s.server_joined(0);
  s.server_joined(1);
  s.hold(end_of(1));
  const auto list = send_list(s);
  s.acknowledged(0, list);
  s.server_lost(1);
  CHECK(seqs_of(s.take_confirmed()) == seqs{1});
  s.hold(end_of(2));
  s.acknowledged(0, send_list(s));
  s.server_joined(1); // its successor: it may hold something until it has granted the term
  CHECK(s.take_confirmed().empty());
  s.server_granted(1);
  CHECK(seqs_of(s.take_confirmed()) == seqs{2});
  s.hold(end_of(3)); // what is held from then on waits for it like for any other
  s.acknowledged(0, send_list(s));
  CHECK(s.take_confirmed().empty());
}

TEST_CASE("settlement: a server that is not there acknowledges nothing") {
  settlement s;
  s.server_joined(0);
  s.hold(end_of(1));
  const auto list = send_list(s);
  s.acknowledged(5, list);
  CHECK(s.take_confirmed().empty());
  s.server_lost(5);
  CHECK(s.take_confirmed().empty());
}

TEST_CASE("settlement: without a server a list is enough") {
  settlement s;
  s.hold(end_of(1));
  CHECK(s.take_confirmed().empty());
  send_list(s);
  CHECK(seqs_of(s.take_confirmed()) == seqs{1});
}

TEST_CASE("settlement: one timer runs while ends wait for a list, and none when nothing does") {
  settlement s;
  CHECK_FALSE(s.start_timer()); // nothing has ended
  s.note_ended(2);
  s.note_ended(3);
  CHECK(s.ends_since_list() == 5);
  CHECK(s.start_timer());
  CHECK_FALSE(s.start_timer()); // one runs
  CHECK(s.timer_ended());
  CHECK(s.start_timer()); // it was not sent: again
  send_list(s);
  CHECK(s.ends_since_list() == 0);
  CHECK_FALSE(s.timer_ended()); // a list went out meanwhile
  CHECK_FALSE(s.start_timer());
}

TEST_CASE("INV-X2 settlement: random histories against which server each end waits for") {
  for (unsigned seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    std::mt19937 random{seed};
    auto draw = [&](unsigned n) { return random() % n; };
    settlement s;
    std::map<unsigned, std::uint64_t> servers; // by index: the last list acknowledged
    struct waiting {
      std::uint64_t seq = 0;
      std::uint64_t list = 0;
    };
    std::vector<waiting> model;
    std::uint64_t lists = 0, next_seq = 1;
    for (int step = 0; step < 300; ++step) {
      const auto server = draw(3);
      switch (draw(7)) {
        case 0:
          s.server_joined(server);
          servers[server] = 0;
          break;
        case 1:
          if (servers.contains(server)) {
            s.server_granted(server);
            servers[server] = lists;
          }
          break;
        case 2:
          if (draw(4) == 0) {
            s.server_lost(server);
            servers.erase(server);
          }
          break;
        case 3:
          s.hold(end_of(next_seq));
          model.push_back({.seq = next_seq++});
          break;
        case 4:
          CHECK(send_list(s) == ++lists);
          for (auto& w : model)
            w.list = w.list == 0 ? lists : w.list;
          break;
        case 5: {
          const auto list = draw(static_cast<unsigned>(lists) + 1);
          s.acknowledged(server, list);
          if (servers.contains(server))
            servers[server] = std::max<std::uint64_t>(servers[server], list);
          break;
        }
        default: {
          seqs told;
          std::erase_if(model, [&](const waiting& w) {
            const bool by_all =
              w.list != 0 && std::all_of(servers.begin(), servers.end(), [&](const auto& server) {
                return server.second >= w.list;
              });
            if (by_all)
              told.push_back(w.seq);
            return by_all;
          });
          CHECK(seqs_of(s.take_confirmed()) == told);
        }
      }
      CHECK(s.held() == model.size());
      CHECK(s.list_wanted() == std::any_of(model.begin(), model.end(), [](const waiting& w) {
              return w.list == 0;
            }));
    }
  }
}
