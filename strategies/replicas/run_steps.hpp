#pragma once

#include <any>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <troupe/strategies/replicas/strategy.hpp>
#include <troupe/transport/collective_group.hpp>

namespace troupe {

/// Outputs of the steps of `strategy_extended::run_steps_on_iterator`. Written in cross-replica
/// context, or by all replicas of a run in the same way; read when the loop has ended.
class step_context {
public:
  using output = std::variant<tensor, per_replica<tensor>>;

  /// Keeps the last value under `name`: reduced with `op`, or without one as it is. In a replica
  /// `op` must be given, else `invalid_argument` naming the output.
  void set_last_step_output(const std::string& name, const tensor& value,
                            std::optional<reduction> op = {});
  void set_last_step_output(const std::string& name, const per_replica<tensor>& value,
                            std::optional<reduction> op = {});
  /// Keeps a value of any type under `name`, in a replica one for each local replica; the last
  /// wins.
  template <class T>
  void set_non_tensor_output(const std::string& name, T value);

  /// The output called `name`. Throws `unknown_name`.
  const output& last_step_output(const std::string& name) const;
  /// The output called `name`, which was reduced. Throws `unknown_name`.
  const tensor& last_step_tensor(const std::string& name) const;
  const std::map<std::string, output>& last_step_outputs() const { return last_; }
  /// The values called `name`: one when set in cross-replica context, else one for each local
  /// replica. Throws `unknown_name`, also when the output is of another type than T.
  template <class T>
  std::vector<T> non_tensor_output(const std::string& name) const;

private:
  [[noreturn]] static void no_output(const std::string& name, const char* why);
  std::map<std::string, output> last_{};
  std::map<std::string, std::any> others_{}; ///< vectors
};

template <class T>
void step_context::set_non_tensor_output(const std::string& name, T value) {
  if (in_cross_replica_context()) {
    others_[name] = std::vector<T>{std::move(value)};
    return;
  }
  get_replica_context()->merge_call(
    [this, name](strategy&, const per_replica<std::shared_ptr<T>>& all) {
      std::vector<T> each;
      for (const auto& one : all)
        each.push_back(*one);
      others_[name] = std::move(each);
    },
    std::make_shared<T>(std::move(value)));
}

template <class T>
std::vector<T> step_context::non_tensor_output(const std::string& name) const {
  auto at = others_.find(name);
  if (at == others_.end())
    no_output(name, "was not set by any step");
  const auto* typed = std::any_cast<std::vector<T>>(&at->second);
  if (!typed)
    no_output(name, "has another type");
  return *typed;
}

namespace detail {

[[noreturn]] void steps_ended(std::uint64_t done, std::uint64_t wanted);

template <class F, class X>
void run_one_step(F& f, step_context& ctx, X&& input, std::uint64_t done, std::uint64_t wanted) {
  (void)done;
  (void)wanted;
  f(ctx, std::forward<X>(input));
}
template <class F, class X>
void run_one_step(F& f, step_context& ctx, std::optional<X> input, std::uint64_t done,
                  std::uint64_t wanted) {
  if (!input)
    steps_ended(done, wanted);
  f(ctx, *std::move(input));
}

} // namespace detail
} // namespace troupe
