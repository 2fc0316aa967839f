#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <troupe/actors/data_plane/server_link.hpp>
#include <troupe/actors/support/tensor_pool.hpp>
#include <troupe/core/environment.hpp>
#include <troupe/core/limits.hpp>

namespace troupe {

/// The shard that holds a row, and the row's number within it. Works for any layout in row order.
/// @pre 0 <= row < spec.rows()
struct row_place {
  shard_index shard{};
  std::int64_t row = 0;
};
row_place locate_row(const variable_spec& spec, std::int64_t row);

struct parameter_client_options {
  /// Number of the thread: the place where it starts among servers and shards, so that threads
  /// don't queue up behind each other.
  std::uint32_t thread = 0;
  /// Switches the ledgers off for what this client sends.
  bool at_least_once = false;
  /// A server that owes an answer and neither takes nor sends a byte for longer is `unavailable`:
  /// what counts is that it works, not how long its work takes.
  duration reply_max = limits::request;
  /// Asked while waiting for a server; true ends the wait as `cancelled`. May be empty.
  std::function<bool()> interrupted{};
  /// Told while waiting that a server moved something. May be empty.
  std::function<void()> progressed{};
};

/// A thread's client of all parameter servers: splits by shard what a step reads and changes, keeps
/// the numbering behind "effect once", waits for answers. One thread; only `wake` is for any
/// thread.
///
/// A closure is one `begin`, any number of `read`, `gather` and `mutate`, then `finish` or
/// `abandon`. A call that fails leaves the client usable: a lost server's link is made anew at the
/// next call. Errors: `unknown_variable`, `shape_mismatch`, `dtype_mismatch`, `out_of_range`,
/// `invalid_argument` before anything is sent; `unavailable` naming the server; `cancelled`,
/// `deadline`; what a server answers. Marks: client.after_read, client.pushed_k_of_n,
/// client.all_acked.
class parameter_client {
public:
  /// Gives the specification of a variable, null for one that nobody knows. Called rarely: the
  /// answer is kept for the term.
  using catalogue = std::function<std::shared_ptr<const variable_spec>(variable_id)>;
  /// Makes a link to a server, by its index.
  using link_maker = std::function<result<std::unique_ptr<server_link>>(std::uint32_t server)>;

  parameter_client(const environment& env, catalogue find, link_maker connect,
                   parameter_client_options options = {});
  ~parameter_client();
  parameter_client(const parameter_client&) = delete;
  parameter_client& operator=(const parameter_client&) = delete;

  /// Begins a closure (or program call) on this thread; operation numbers start at 0.
  void begin(closure_id closure, attempt_no attempt, const origin& from);

  /// The values of variables, each shard at one version. In one process the blocks are the servers'
  /// memory; else they are rows of one tensor of the client's.
  result<std::vector<variable_value>> read(std::span<const variable_id> variables);
  /// Rows of a variable, as `step_host::gather`. Each row is asked for once. All rows of a shard
  /// are of one version.
  result<tensor> gather(variable_id variable, const tensor& indices);
  /// Sends all of `ops` or, when one of them can't be, none. Returns once they are in the windows.
  result<void> mutate(std::span<const mutation> ops);

  /// Waits until all that was sent is acknowledged, or a server does nothing for `reply_max`, or
  /// `deadline`; the first refusal, if there was one.
  result<void> finish(time_point deadline = never);
  /// Forgets the closure. What was sent may still be applied; its answers go nowhere.
  void abandon();

  /// Ends the current or the next wait early, so that `interrupted` is asked. Any thread.
  void wake();

private:
  struct known_variable {
    std::shared_ptr<const variable_spec> spec{};
    std::uint64_t closure_no = 0; // `op` counts within this one
    std::uint32_t op = 0;
  };
  struct link_slot {
    std::unique_ptr<server_link> link{};
    bool watched = false;
    bool watched_send = false;
    std::uint64_t moved_bytes = 0; // as last seen
    time_point moved_at{};         // since when they are so many
  };
  struct scratch {
    std::vector<read_part> reads{};
    std::vector<gather_part> gathers{};
    std::vector<mutation_piece> pieces{};
  };

  result<known_variable*> find(variable_id id);
  result<server_link*> link_to(std::uint32_t server);
  scratch& scratch_of(std::uint32_t server);
  template <class F>
  result<void> for_each_server(F f);
  failure at_server(std::uint32_t server, failure why) const;
  /// Drops the link. True when it owed an answer.
  bool lose(std::uint32_t server, failure why);
  result<void> take_read_refusals();
  result<void> take_push_refusals();
  void clear_scratch();

  result<void> prepare_blocks(const variable_spec& spec, variable_value& value);
  result<void> add_gathers(const variable_spec& spec, tensor& rows, tensor& to);
  result<void> run_reads();
  result<void> mutate_all(std::span<const mutation> ops);
  void split(const mutation& op, known_variable& variable);
  void split_rows(const mutation& op, const variable_spec& spec, const mutation_piece& like);
  void add_piece(const variable_spec& spec, std::size_t shard, mutation_piece piece);
  result<void> send_pieces(std::uint32_t server);

  enum class waiting_for : std::uint8_t { reads = 0, pushes = 1, window = 2 };
  result<void> drive(waiting_for what, time_point deadline, std::uint32_t server = 0,
                     std::uint64_t bytes = 0);
  bool is_done(waiting_for what, std::uint32_t server, std::uint64_t bytes) const;
  bool owes(waiting_for what, std::uint32_t at, std::uint32_t server) const;
  void start_watch();
  result<time_point> watch_progress(waiting_for what, std::uint32_t server);
  result<void> pump_all();
  void watch_all();

  const environment env_;
  catalogue find_;
  link_maker connect_;
  parameter_client_options options_;
  std::map<variable_id, known_variable> known_{};
  std::vector<link_slot> links_{};
  std::vector<scratch> scratch_{}; // by server; empty between calls
  std::unique_ptr<channel_poller> poller_;
  tensor no_rows_;
  tensor_pool pool_{}; // what is read comes and goes
  closure_id closure_{};
  attempt_no attempt_{};
  origin from_{};
  std::uint64_t closure_no_ = 0;
  failure push_failed_{}; // why this closure can't finish any more
};

} // namespace troupe
