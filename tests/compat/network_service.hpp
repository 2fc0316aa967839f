#pragma once

#include <string>
#include <vector>

#include <caf/event_based_actor.hpp>

namespace compat {

/// Ends, sends and answers as it is told.
class child : public caf::event_based_actor {
public:
  explicit child(caf::actor_config& cfg);
  const char* name() const override { return "compat.child"; }

protected:
  caf::behavior make_behavior() override;
};

/// Answers questions, asks others on demand, keeps a log.
class service : public caf::event_based_actor {
public:
  explicit service(caf::actor_config& cfg);
  const char* name() const override { return "compat.service"; }
  void on_exit() override;

protected:
  caf::behavior make_behavior() override;

private:
  caf::result<std::string> on_word(const std::string& what);
  std::string log_{};
  std::vector<caf::response_promise> kept_{};
  std::vector<caf::actor> children_{};
};

} // namespace compat
