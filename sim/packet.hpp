#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::sim {

/// Id of a process instance: its machine's number and its own, from 1 over the whole run.
struct process_id {
  std::uint32_t machine = 0;
  std::uint32_t number = 0;
  friend bool operator==(const process_id&, const process_id&) = default;
};

/// Everything that crosses machines.
struct packet {
  enum kind_t : std::uint8_t {
    // control plane, inside a connection of two processes
    message, ///< to the actor `to`
    monitor, ///< the sender wants to hear of the end of `to`
    down,    ///< the actor `to` has ended; bytes: why
    link,    ///< the sender (in bytes) and `to` are linked
    unlink,
    // control plane, connections
    dial,     ///< asks for a connection to `port`
    dialed,   ///< the answer: the connection is `epoch`, the published actor `to`
    refused,  ///< the answer: nobody listens there
    finished, ///< the peer closed the connection `epoch`, or does not know it
    // data plane
    data_dial,
    data_dialed,
    data_refused,
    data_bytes,
    data_finished, ///< orderly: what was sent before arrives
    data_reset,    ///< what was sent before is lost
  };
  kind_t kind = message;
  process_id from{}, to_instance{}; ///< `to_instance.number` 0: whoever lives there
  std::uint64_t epoch = 0;          ///< number of the connection
  std::uint64_t to = 0;             ///< an actor
  std::uint64_t message_id = 0;
  std::uint64_t token = 0; ///< pairs an answer with its question
  std::uint16_t port = 0;
  std::vector<char> bytes{};
};

constexpr bool is_data(packet::kind_t kind) { return kind >= packet::data_dial; }

} // namespace troupe::sim
