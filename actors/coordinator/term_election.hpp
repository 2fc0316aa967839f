#pragma once

#include <cstdint>
#include <map>
#include <span>

#include <troupe/core/error.hpp>
#include <troupe/core/ids.hpp>

namespace troupe {

/// Wins a term for a coordinator: every server has to grant the same one, and grants none below the
/// highest it has seen. As long as nothing is dispatched, a refusal is answered by a higher term,
/// asked from all servers again; later it means that another coordinator has taken over. No CAF,
/// clocks or locks; one thread.
///
/// Invariants: the term never falls; a server that counts as granted has granted the present term
/// in its present incarnation.
class term_election {
public:
  term_no term() const { return term_; }

  /// A server is there, to be asked for the term.
  void server_joined(std::uint32_t server, const incarnation& inc) {
    servers_[server] = {.inc = inc, .granted = false};
  }
  void server_lost(std::uint32_t server) { servers_.erase(server); }

  /// What a server's answer means.
  enum class outcome : std::uint8_t {
    stale = 0,   ///< nothing: that incarnation is not there any more
    late = 1,    ///< nothing: it speaks of another term than the present one
    granted = 2, ///< the server has granted the term
    raised = 3,  ///< the term is higher now: all servers are to be asked for it
    superseded =
      4, ///< the term is another coordinator's, or the server has failed: that is the end
  };
  /// @param asked  the term that the server was asked for
  /// @param code  of its answer; none: granted
  /// @param highest  that it has seen
  /// @param dispatched  whether closures may have been sent under the present term
  outcome answered(std::uint32_t server, const incarnation& inc, term_no asked, errc code,
                   term_no highest, bool dispatched);
  /// Whether a server that did not answer is to be asked again: it is still there, and was asked
  /// for the present term.
  bool is_open(std::uint32_t server, const incarnation& inc, term_no asked) const;

  bool has_granted(std::uint32_t server) const {
    auto at = servers_.find(server);
    return at != servers_.end() && at->second.granted;
  }
  /// Whether all of these are there and have granted the term.
  bool have_granted(std::span<const std::uint32_t> servers) const;

private:
  struct candidate {
    incarnation inc{};
    bool granted = false;
  };
  term_no term_{1};
  std::map<std::uint32_t, candidate> servers_{};
};

} // namespace troupe
