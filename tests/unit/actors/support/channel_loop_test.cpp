// Goal: the loop gives everybody a turn, waits for exactly what its channels wait for, and forgets
// what has ended. Method: a poller, a listener and channels that write down what they are told.
#include <doctest/doctest.h>

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include <troupe/actors/support/channel_loop.hpp>

using namespace troupe;

namespace {

using journal = std::vector<std::string>;

class named_channel final : public channel {
public:
  named_channel(std::string name, journal& log) : name_{std::move(name)}, log_{log} {}
  result<std::size_t> try_send(std::span<const const_bytes>) override { return std::size_t{0}; }
  result<std::size_t> try_receive(std::span<const mutable_bytes>) override {
    return std::size_t{0};
  }
  void close() override { log_.push_back("close " + name_); }
  std::string peer() const override { return name_; }

private:
  std::string name_;
  journal& log_;
};

class noting_poller final : public channel_poller {
public:
  explicit noting_poller(journal& log) : log_{log} {}
  void watch(channel& c, bool want_send) override {
    log_.push_back("watch " + c.peer() + (want_send ? " to send" : ""));
  }
  void watch(channel_listener&) override { log_.push_back("watch listener"); }
  void forget(channel& c) override { log_.push_back("forget " + c.peer()); }
  void forget(channel_listener&) override { log_.push_back("forget listener"); }
  bool wait(time_point deadline) override {
    log_.push_back(deadline == never
                     ? "wait"
                     : "wait until " + std::to_string(deadline.time_since_epoch().count()));
    return true;
  }
  void wake() override {}

private:
  journal& log_;
};

class queue_listener final : public channel_listener {
public:
  queue_listener(std::deque<std::string>& dialled, journal& log) : dialled_{dialled}, log_{log} {}
  std::unique_ptr<channel> try_accept() override {
    if (dialled_.empty())
      return nullptr;
    auto name = dialled_.front();
    dialled_.pop_front();
    return std::make_unique<named_channel>(name, log_);
  }
  std::string address() const override { return "here"; }

private:
  std::deque<std::string>& dialled_;
  journal& log_;
};

struct session : served_channel {
  explicit session(std::unique_ptr<channel> c) : line{std::move(c)} {}
  channel& wire() { return *line; }
  void close() { line->close(); }
  std::unique_ptr<channel> line;
  channel_wait waits{};
  bool more = false;
};

constexpr time_point at(std::int64_t ns) { return time_point{duration{ns}}; }

/// A loop over a listener where `dialled` wait.
struct place {
  explicit place(std::deque<std::string> names) : dialled{std::move(names)} {
    loop.listen(std::make_unique<queue_listener>(dialled, log));
  }
  void accept(std::size_t count_max = 8) {
    loop.accept(count_max, [this](std::unique_ptr<channel> wire) {
      loop.add(std::make_unique<session>(std::move(wire)));
    });
  }
  void turn() {
    loop.turn(
      [this](session& s) {
        log.push_back("serve " + s.wire().peer());
        return s.more;
      },
      [](session& s) { return s.waits; });
  }
  session& operator[](std::size_t i) { return *loop.sessions().at(i); }
  /// What was told since the last call.
  journal take() { return std::exchange(log, {}); }

  journal log{};
  std::deque<std::string> dialled;
  channel_loop<session> loop{std::make_shared<noting_poller>(log)};
};

} // namespace

TEST_CASE("channel_loop: serves all in the order of their coming, then waits for all of them") {
  place x{{"a", "b"}};
  x.accept();
  x.turn();
  CHECK(x.take() == journal{"watch listener", "serve a", "watch a", "serve b", "watch b", "wait"});
  x.turn();
  CHECK(x.take() == journal{"serve a", "serve b", "wait"}); // what is watched stays watched
}

TEST_CASE("channel_loop: waits until the earliest time that a channel names") {
  place x{{"a", "b", "c"}};
  x.accept();
  x[0].waits.until = at(70);
  x[2].waits.until = at(50);
  x.turn();
  CHECK(x.take().back() == "wait until 50");
}

TEST_CASE("channel_loop: while one has more to do nobody waits") {
  place x{{"a", "b"}};
  x.accept();
  x[0].more = true;
  x.turn();
  CHECK(x.take().back() == "watch b");
  x[0].more = false;
  x.turn();
  CHECK(x.take().back() == "wait");
}

TEST_CASE(
  "channel_loop: watches for sending while that is wanted, and not at all where it is not") {
  place x{{"a"}};
  x.accept();
  x.turn();
  (void)x.take();
  x[0].waits.send = true;
  x.turn();
  CHECK(x.take() == journal{"serve a", "watch a to send", "wait"});
  x[0].waits.send = false;
  x.turn();
  CHECK(x.take() == journal{"serve a", "watch a", "wait"});
  x[0].waits = {.watched = false, .until = at(9)};
  x.turn();
  CHECK(x.take() == journal{"serve a", "forget a", "wait until 9"});
  x.turn();
  CHECK(x.take() == journal{"serve a", "wait until 9"});
  x[0].waits = {};
  x.turn();
  CHECK(x.take() == journal{"serve a", "watch a", "wait"});
}

TEST_CASE("channel_loop: one that ended is forgotten, closed and dropped, and its time with it") {
  place x{{"a", "b"}};
  x.accept();
  x.turn();
  (void)x.take();
  CHECK(x.loop.count() == 2);
  x[0].waits.until = at(1);
  x[0].ended = true;
  x.turn();
  CHECK(x.take() == journal{"serve a", "serve b", "forget a", "close a", "wait"});
  CHECK(x.loop.count() == 1);
  CHECK(x[0].wire().peer() == "b");
}

TEST_CASE("channel_loop: no more than allowed are accepted; one that ends lets the next one in") {
  place x{{"a", "b", "c"}};
  x.accept(2);
  x.turn();
  CHECK(x.take() == journal{"serve a", "watch a", "serve b", "watch b", "wait"});
  CHECK(x.dialled.size() == 1);
  x[1].ended = true;
  x.turn(); // doesn't wait: nobody would wake it for the one that waits to be accepted
  CHECK(x.take() == journal{"serve a", "serve b", "forget b", "close b"});
  x.accept(2);
  CHECK(x.dialled.empty());
  CHECK(x[1].wire().peer() == "c");
}

TEST_CASE("channel_loop: the listener is watched only while there is room") {
  place x{{"a"}};
  x.accept(2);
  CHECK(x.take() == journal{"watch listener"});
  x.accept(2);
  CHECK(x.take().empty());
  x.dialled.push_back("b");
  x.accept(2);
  CHECK(x.take() == journal{"forget listener"});
}

TEST_CASE("channel_loop: finishing serves until all have ended, and accepts none") {
  place x{{"a"}};
  x.accept();
  (void)x.take();
  x.dialled.push_back("late");
  x[0].waits.until = at(5);
  int turns = 0;
  x.loop.finish(
    [&](session& s) {
      s.ended = ++turns == 3;
      return true; // would not wait in a turn
    },
    [](session& s) { return s.waits; });
  CHECK(turns == 3);
  CHECK(x.take() == journal{"watch a", "wait until 5", "wait until 5", "forget a", "close a"});
  CHECK(x.dialled.size() == 1);
}

TEST_CASE("channel_loop: closing ends all channels and the listener") {
  place x{{"a"}};
  x.accept();
  x.turn();
  (void)x.take();
  x.loop.close();
  CHECK(x.take() == journal{"forget a", "close a", "forget listener"});
  CHECK(x.loop.count() == 0);
  CHECK(!x.loop.listens());
  x.loop.close();
  CHECK(x.take().empty());
}
