#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include <troupe/actors/coordinator/coordinator.hpp>
#include <troupe/actors/data_plane/snapshot_reader.hpp>
#include <troupe/actors/support/failure_classifier.hpp>
#include <troupe/actors/worker/parameter_client.hpp>
#include <troupe/strategies/runtime/detail/snapshot_reader_pool.hpp>

/// The coordinator's process as the public API sees it. Private to strategies/.
namespace troupe {

/// Reaches the coordinator actor and the servers for the program's threads. Any thread; calls wait.
class coordinator_client : public std::enable_shared_from_this<coordinator_client> {
public:
  using link_maker =
    std::function<result<std::unique_ptr<server_link>>(std::uint32_t server, term_no term)>;

  using snapshot_reader_maker =
    std::function<result<std::unique_ptr<snapshot_reader>>(std::uint32_t server, term_no term)>;

  coordinator_client(const environment& env, std::shared_ptr<coordinator_shared> shared,
                     coordinator_actor actor, std::vector<std::uint32_t> servers,
                     link_maker connect, snapshot_reader_maker open_snapshot_reader,
                     duration request_max);
  ~coordinator_client();

  const environment& env() const { return env_; }
  coordinator_shared& shared() { return *shared_; }
  closure_queue& queue() { return *shared_->queue; }
  std::uint32_t servers() const { return static_cast<std::uint32_t>(servers_.size()); }
  /// Task index of the n-th server.
  std::uint32_t server_task(std::uint32_t n) const { return servers_.at(n); }
  term_no term() const { return shared_->queue->term(); }

  /// Runs `body` on the coordinator actor and waits for what it promises.
  template <class T, class F>
  T call(std::string_view what, duration timeout, F body) {
    check_open(what);
    return try_call<T>(what, timeout, std::move(body)).value_or_throw();
  }
  /// `call` that returns the failure as a value.
  template <class T, class F>
  result<T> try_call(std::string_view what, duration timeout, F body) {
    class posted final : public coordinator_call {
    public:
      posted(F f, std::shared_ptr<promise_slot<T>> to) : body_{std::move(f)}, to_{std::move(to)} {}
      ~posted() override { // never run: the actor has ended
        if (to_)
          to_->set(make_failure(errc::unavailable, "the cluster has been shut down"));
      }
      void run(coordinator_state& state) override { body_(state, std::exchange(to_, nullptr)); }

    private:
      F body_;
      std::shared_ptr<promise_slot<T>> to_;
    };
    auto slot = std::make_shared<promise_slot<T>>(env_);
    post(std::make_shared<posted>(std::move(body), slot));
    return slot->wait(after(env_.clock.now(), timeout), what);
  }
  void post(std::shared_ptr<coordinator_call> call);
  /// Throws `unavailable` once the runtime has ended: nothing behind the references is there any
  /// more.
  void check_open(std::string_view what) const;
  bool closed() const { return closed_.load(); }
  duration request_max() const { return request_max_; }
  /// The time limit of calls that the coordinator itself ends, by the progress that it sees.
  static constexpr duration no_limit = duration::max();

  /// Calls on variables for the program: effect once by (term, calling thread, call number), so
  /// that a call whose way to a living server fails is tried again, for as long as a request may
  /// take.
  std::vector<variable_value> read(std::span<const variable_id> variables);
  tensor gather(variable_id variable, const tensor& indices);
  void mutate(std::span<const mutation> ops);
  /// A snapshot reader's answer, for checkpoints, with its failure as an error of the reader's
  /// server. A server that lacks what this cluster made there came in place of another:
  /// `unavailable`, naming the loss.
  template <class T>
  static result<T> of_server(std::uint32_t server, result<T> answer) {
    if (answer)
      return answer;
    auto why = std::move(answer.error());
    why.where.task = {.job = job_kind::ps, .index = server};
    if (why.code == errc::unknown_variable || why.code == errc::not_found)
      why = came_back_empty(std::move(why));
    else if (const auto name = to_string(why.where.task); why.text.find(name) == std::string::npos)
      why.text = name + ": " + why.text;
    if (is_lost_connection(why.code))
      why.text += server_lost_advice;
    return why;
  }
  snapshot_reader_pool& reader_pool() { return reader_pool_; }

  void remember(std::shared_ptr<const variable_spec> spec);
  void forget(variable_id id);
  std::shared_ptr<const variable_spec> spec_of(variable_id id) const;

  /// Sets the tasks of the workers that were described; `others_join`: more may come. Called before
  /// the program begins.
  void expect_workers(std::vector<std::uint32_t> tasks, bool others_join) {
    workers_ = std::move(tasks);
    others_join_ = others_join;
  }
  /// Throws `out_of_range` for a worker that no closure can wait for: it was not described, and has
  /// not joined.
  void check_worker(std::uint32_t worker);

  /// Numbers of resources and variables, whatever strategy makes them.
  resource_id next_resource() { return static_cast<resource_id>(++resources_); }
  variable_id next_variable() { return static_cast<variable_id>(++variables_); }
  /// The runtime is ending: calls fail with `unavailable` from now on.
  void close();

private:
  /// The client of one thread; a call borrows it, so that a thread has a number without being asked
  /// for its name.
  struct program_thread {
    std::uint32_t number = 0;
    std::uint64_t calls = 0;
    std::unique_ptr<parameter_client> client{};
  };
  class borrowed;
  template <class F>
  auto persist(F call) -> decltype(call(std::declval<parameter_client&>()));
  bool is_gone(std::uint32_t server);
  void rest(duration d);

  const environment& env_;
  std::shared_ptr<coordinator_shared> shared_;
  coordinator_actor actor_; ///< under mutex_; null once closed
  std::atomic<bool> closed_{false};
  std::atomic<std::uint64_t> resources_{0};
  std::atomic<std::uint32_t> variables_{0};
  std::vector<std::uint32_t> servers_;
  std::vector<std::uint32_t> workers_{}; ///< ascending
  bool others_join_ = true;
  link_maker connect_;
  snapshot_reader_pool reader_pool_;
  duration request_max_;
  mutable std::mutex mutex_;
  std::map<variable_id, std::shared_ptr<const variable_spec>> specs_{};
  std::vector<std::unique_ptr<program_thread>> free_{};
  std::uint32_t threads_ = 0;
};

} // namespace troupe
