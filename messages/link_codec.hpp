#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <caf/message.hpp>

#include <troupe/core/result.hpp>

/// The messages on a link between the coordinator's process and a worker's, in frames
/// (transport/frame.hpp). A frame's meta is the struct named like its kind, as cereal writes it;
/// its request is that of a question or its answer, else 0.
///
///     link    := hello (refused | welcome message*) goodbye?
///     message := from the coordinator: admit_worker ... variable_answer
///              | from the worker: worker_report | request_variable
namespace troupe {

enum class link_kind : std::uint8_t {
  hello = 1,   ///< hello_meta: of the dialler, first on every link
  welcome = 2, ///< nothing
  refused = 3, ///< outcome_meta; the link ends
  goodbye = 4, ///< nothing; the link ends, and nobody was lost
  admit_worker = 5,
  run_closures = 6,
  recall_closures = 7,
  cancel_closures = 8,
  add_variables = 9,
  make_resources = 10,
  drop_resources = 11,
  variable_answer = 12,
  worker_report = 13,
  request_variable = 14,
};

inline constexpr link_kind link_kind_max = link_kind::request_variable;

/// Whether a frame of that kind is for a worker; else it is for the coordinator or for no actor.
constexpr bool is_for_worker(link_kind kind) {
  return kind >= link_kind::admit_worker && kind <= link_kind::variable_answer;
}
constexpr bool is_for_coordinator(link_kind kind) {
  return kind == link_kind::worker_report || kind == link_kind::request_variable;
}

struct link_message {
  link_kind kind{};
  std::string bytes{};
};

/// The bytes of a message; none for one that does not travel on links. Moves out of `what`, if
/// nobody shares it.
std::optional<link_message> encode_link(caf::message& what);

/// The message of a frame; `bad_frame` naming the kind when the bytes are not exactly such a
/// message, or the kind is none of an actor's.
result<caf::message> decode_link(link_kind kind, std::string_view bytes);

} // namespace troupe
