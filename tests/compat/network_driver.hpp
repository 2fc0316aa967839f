#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <caf/event_based_actor.hpp>

#include "network_script.hpp"

namespace compat {

/// Alpha's side of the script: one step after the other, each with a time limit. A step is what it
/// is called, and a function that begins it and later says how it came out.
class driver : public caf::event_based_actor {
public:
  using step = std::pair<std::string, std::function<void()>>;

  driver(caf::actor_config& cfg, caf::actor network, script& shared);
  const char* name() const override { return "compat.driver"; }
  void on_exit() override;

protected:
  caf::behavior make_behavior() override;

private:
  void wait_for_the_others();
  void find(const std::string& who, std::function<void(caf::actor)> then);
  void next();
  void done(const std::string& how);
  std::string text(const caf::error& why);
  template <class T, class... Ts>
  void ask(const caf::actor& to, Ts... xs);
  template <class... Ts>
  void with_child(std::function<void(caf::actor)> then);

  // the script, by subject
  void add_messages();
  void add_handles();
  void add_ends();
  void add_connections();
  void add_membership();
  void add_goodbye();

  void add(std::string what, std::function<void()> begin) {
    steps_.emplace_back(std::move(what), std::move(begin));
  }
  void hello_of(std::uint64_t nonce, const std::string& cluster,
                std::function<void(std::string)> then);

  caf::actor network_;
  script& shared_;
  std::vector<step> steps_{};
  std::size_t at_ = 0;
  std::uint64_t step_no_ = 0;
  bool waiting_ = false;
  std::string heard_{}; ///< by this actor, in the running step
  std::function<void()> on_heard_{};
  std::function<void(const std::string&)> on_down_{};
  caf::actor beta_{}, gamma_{}, membership_{}, child_{}, helper_{};
};

} // namespace compat
