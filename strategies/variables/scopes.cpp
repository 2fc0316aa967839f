#include <troupe/strategies/variables/scopes.hpp>

#include <utility>

#include <troupe/strategies/replicas/detail/context_stack.hpp>
#include <troupe/strategies/replicas/detail/replica_engine.hpp>
#include <troupe/strategies/replicas/replica_context.hpp>

namespace troupe {

using detail::context_frame;
using detail::context_kind;
using detail::innermost_frame;

context_scope::context_scope(context_frame frame)
  : frame_{std::make_unique<context_frame>(std::move(frame))} {
  push_frame(*frame_);
}

context_scope::~context_scope() { detail::drop_frame(*frame_); }

device_scope::device_scope(std::string_view name)
  : context_scope{
    {.kind = context_kind::device, .text = to_string(parse_device_name(name).value_or_throw())}} {}

namespace {

const std::string& checked_scope_name(const std::string& name) {
  if (name.empty() || name.front() == '/' || name.back() == '/')
    throw_failure(errc::invalid_argument,
                  "name_scope: name is '" + name
                    + "', expected one that is not empty and has no '/' at its ends");
  return name;
}

} // namespace

name_scope::name_scope(const std::string& name)
  : context_scope{{.kind = context_kind::names, .text = checked_scope_name(name)}} {}

namespace {

/// An empty function could not be told from a missing one when a variable is made.
std::shared_ptr<const detail::scoped_creator> checked_creator(variable_creator creator) {
  if (!creator)
    throw_failure(errc::invalid_argument, "variable_creator_scope: creator is empty");
  return std::make_shared<const detail::scoped_creator>(detail::scoped_creator{std::move(creator)});
}

} // namespace

variable_creator_scope::variable_creator_scope(variable_creator creator)
  : context_scope{{.kind = context_kind::creator,
                   .text = "variable creator",
                   .creator = checked_creator(std::move(creator))}} {}

namespace {

/// What a frame says about the device, if it does.
std::optional<device_name> device_of(const context_frame& frame) {
  switch (frame.kind) {
    case context_kind::device:
    case context_kind::update:
      if (!frame.text.empty())
        return parse_device_name(frame.text).value_or_throw();
      return {};
    case context_kind::replica:
      if (frame.replica && !frame.strategy->is_standard())
        return parse_device_name(frame.replica->devices()[0]).value_or_throw();
      return {};
    default: return {};
  }
}

} // namespace

device_name resolve_device(std::string_view name) {
  auto out = parse_device_name(name).value_or_throw();
  for (auto* at = innermost_frame(); at; at = at->outer)
    if (auto around = device_of(*at))
      out = merge(out, *around);
  return canonicalize(out);
}

std::string current_name_scope() { return detail::name_prefix(); }

std::string scoped_name(const std::string& name) {
  auto [own, around] = detail::own_names();
  std::string out = around ? around->text : std::string{};
  if (around && around->kind == context_kind::replica && around->replica)
    if (const auto id = around->replica->replica_id_in_sync_group(); id > 0)
      out += "replica_" + std::to_string(id) + "/";
  return out + own + name;
}

} // namespace troupe
