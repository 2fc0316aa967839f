#include <troupe/actors/server/detail/server_admission.hpp>

#include <algorithm>
#include <utility>

#include <troupe/core/planted.hpp>

namespace troupe {

server_admission::server_admission(std::string cluster, std::string token,
                                   std::shared_ptr<shard_store> store)
  : cluster_{std::move(cluster)}, token_{std::move(token)}, store_{std::move(store)} {}

void server_admission::set_incarnation(const incarnation& self) {
  std::lock_guard lock{mutex_};
  self_ = self;
  fences_.clear();
}

void server_admission::fence(const task_id& task, std::uint32_t counter) {
  std::lock_guard lock{mutex_};
  auto& highest = fences_[task];
  highest = std::max(highest, counter);
}

incarnation server_admission::self() const {
  std::lock_guard lock{mutex_};
  return self_;
}

std::optional<failure> server_admission::refuse(const hello_meta& hello) const {
  if (auto why = refuse_stranger(hello))
    return why;
  if (auto why = refuse_misled(hello))
    return why;
  if (store_ && hello.term < store_->term())
    return make_failure(errc::superseded, "hello: term " + std::to_string(value_of(hello.term))
                                            + ", this server follows term "
                                            + std::to_string(value_of(store_->term())));
  return refuse_fenced(hello.task, hello.inc);
}

std::optional<failure> server_admission::refuse_stranger(const hello_meta& hello) const {
  auto stranger = [](const std::string& what) {
    return make_failure(errc::wrong_peer, "hello: " + what);
  };
  if (hello.version != data_protocol_version)
    return stranger("data protocol " + std::to_string(hello.version) + ", this server uses "
                    + std::to_string(data_protocol_version));
  if (hello.task.job > job_kind::evaluator)
    return stranger(to_string(hello.task));
  if (hello.cluster != cluster_)
    return stranger("cluster '" + hello.cluster + "', expected '" + cluster_ + "'");
  if (!has_token(hello, token_))
    return stranger(token_refusal(hello, token_, "this server"));
  return std::nullopt;
}

/// It means an incarnation that isn't here.
std::optional<failure> server_admission::refuse_misled(const hello_meta& hello) const {
  if (hello.receiver.counter == 0)
    return std::nullopt;
  std::lock_guard lock{mutex_};
  if (self_.counter == 0)
    return make_failure(errc::try_again, "hello: this server has not joined yet");
  if (hello.receiver != self_)
    return make_failure(errc::unavailable, "hello: expected incarnation "
                                             + std::to_string(hello.receiver.counter) + ", this is "
                                             + std::to_string(self_.counter));
  return std::nullopt;
}

std::optional<failure> server_admission::refuse_fenced(const task_id& task,
                                                       const incarnation& inc) const {
  if (store_)
    if (auto ok = store_->admit(task, inc); !ok)
      return std::move(ok.error());
  std::lock_guard lock{mutex_};
  auto at = fences_.find(task);
  if (at == fences_.end() || inc.counter > at->second || planted(planted_bug::missing_fence))
    return std::nullopt;
  return make_failure(
    errc::fenced, to_string(task) + " incarnation " + std::to_string(inc.counter) + " is fenced");
}

} // namespace troupe
