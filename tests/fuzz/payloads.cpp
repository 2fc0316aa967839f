// Closure arguments and results: flat payloads, calls, and the types of their values.
#include <map>

#include <cereal/types/map.hpp>
#include <cereal/types/optional.hpp>
#include <cereal/types/string.hpp>
#include <cereal/types/tuple.hpp>
#include <cereal/types/utility.hpp>
#include <cereal/types/vector.hpp>

#include <troupe/actors/coordinator/closure.hpp>
#include <troupe/core/payload.hpp>
#include <troupe/strategies/parameter_server/function.hpp>

#include "message_decoders.hpp"

namespace fuzz {

namespace {

using namespace troupe;

/// A user's own type.
struct batch_settings {
  std::int32_t size = 0;
  bool shuffled = false;
  std::vector<std::string> names{};
  TROUPE_FIELDS(batch_settings, size, shuffled, names)
};

/// What a step may take.
using arguments =
  std::tuple<std::int32_t, bool, std::string, tensor, std::vector<float>, std::vector<bool>,
             std::vector<std::string>, std::map<std::string, std::vector<std::int64_t>>,
             std::pair<double, std::uint8_t>, std::vector<variable_id>, resource_id,
             std::vector<batch_settings>, std::optional<tensor>, std::vector<tensor>>;

std::optional<payload> unflattened(std::string_view input) {
  auto got = unflatten(input);
  if (!got) {
    require(got.error().code == errc::corrupt, "a payload that is refused is corrupt");
    return {};
  }
  require(flatten(*got) == input, "a payload changes when it is read and written");
  std::size_t bytes = got->bytes.size();
  for (const auto& x : got->tensors)
    bytes += x.size_bytes();
  require(bytes <= input.size(), "a payload is larger than what it was read from");
  return std::move(*got);
}

bool decode_payload(std::string_view input) { return unflattened(input).has_value(); }

/// All arguments in their order, as a step that takes them does.
arguments taken(detail::call_reader& in) {
  return std::apply([&]<class... Ts>(const Ts&...) { return arguments{in.take<Ts>()...}; },
                    arguments{});
}

payload payload_of(const arguments& x) {
  plain_writer out;
  out(std::uint8_t{0}); // no inputs
  std::apply([&](const auto&... xs) { out(xs...); }, x);
  return std::move(out.out);
}

bool decode_call(std::string_view input) {
  const auto call = unflattened(input);
  if (!call)
    return false;
  try {
    detail::call_reader in{*call};
    const auto first = payload_of(taken(in));
    detail::call_reader again{first};
    require(flatten(payload_of(taken(again))) == flatten(first), "a call changes");
    return true;
  } catch (const std::length_error&) {
    return false; // what a thread expects of a call that does not hold together
  }
}

arguments sample() {
  arguments out;
  std::get<0>(out) = 7;
  std::get<1>(out) = true;
  std::get<2>(out) = "name";
  std::get<3>(out) = tensor::vector<float>({1, 2, 3});
  std::get<4>(out) = {1, 2};
  std::get<5>(out) = {true, false, true};
  std::get<6>(out) = {"a", ""};
  std::get<7>(out) = {{"ids", {1, 2}}, {"none", {}}};
  std::get<8>(out) = {0.5, 3};
  std::get<9>(out) = {variable_id{1}, variable_id{2}};
  std::get<10>(out) = resource_id{4};
  std::get<11>(out) = {{.size = 8, .shuffled = true, .names = {"x"}}};
  std::get<12>(out) = tensor::scalar(std::int64_t{9});
  std::get<13>(out) = {tensor::zeros(dtype::u8, {0}), tensor::zeros(dtype::f64, {2, 2})};
  return out;
}

std::vector<std::string> payload_seeds() {
  payload empty_parts;
  empty_parts.tensors = {tensor{}, tensor::zeros(dtype::bf16, {3, 0, 2}), tensor::scalar(1.5)};
  return {flatten({}), flatten(payload_of(sample())), flatten(empty_parts)};
}

/// With the string taken from an input, as `bind_inputs` has it.
payload bound_call() {
  closure c;
  plain_writer own;
  const auto put = [&](const auto& x) { own(std::uint8_t{0}, x); };
  std::apply(
    [&](const auto& number, const auto& flag, const auto& text, const auto&... others) {
      put(number);
      put(flag);
      own(std::uint8_t{1});
      (put(others), ...);
      plain_writer input;
      input(text);
      auto state = std::make_shared<remote_state>();
      state->value = std::move(input.out);
      c.inputs.push_back(std::move(state));
    },
    sample());
  c.arguments = std::make_shared<const payload>(std::move(own.out));
  return bind_inputs(c);
}

std::vector<std::string> call_seeds() {
  return {flatten(payload_of(sample())), flatten(bound_call())};
}

} // namespace

void add_payloads(std::vector<decoder>& to) {
  to.push_back({"payload", decode_payload, payload_seeds});
  to.push_back({"call", decode_call, call_seeds});
}

} // namespace fuzz
