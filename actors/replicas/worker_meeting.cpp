#include <troupe/actors/replicas/worker_meeting.hpp>

#include <algorithm>
#include <charconv>
#include <utility>

namespace troupe {

namespace {

std::string host_of(const std::string& address) { return address.substr(0, address.rfind(':')); }

} // namespace

// --- where all workers meet

result<std::shared_ptr<worker_meeting>> worker_meeting::make(const environment& env,
                                                             std::vector<std::string> peers,
                                                             std::uint32_t self, std::string token,
                                                             std::vector<std::string> names) {
  for (auto i = names.size(); i < peers.size(); ++i)
    names.push_back("worker:" + std::to_string(i));
  auto group = worker_group::make(
    env, self,
    {.name = "workers meet", .listen = peers.at(self), .token = token, .lists_are_given = true});
  if (!group)
    return group.error();
  return std::make_shared<worker_meeting>(env, std::move(*group), std::move(peers), self,
                                          std::move(token), std::move(names));
}

worker_meeting::worker_meeting(const environment& env, std::unique_ptr<worker_group> group,
                               std::vector<std::string> peers, std::uint32_t self,
                               std::string token, std::vector<std::string> names)
  : env_{env},
    peers_{std::move(peers)},
    self_{self},
    token_{std::move(token)},
    names_{std::move(names)},
    group_{std::move(group)} {
  group_->set_addresses(peers_, names_);
}

std::string worker_meeting::any_port() const { return host_of(peers_[self_]) + ":0"; }

result<std::vector<std::string>> worker_meeting::meet(const std::string& mine, time_point deadline,
                                                      const wait_listener& told) {
  std::vector<std::string> out;
  auto met = group_->meet(
    "rendezvous of all workers", deadline,
    [&](collective_group& group, const collective_options& options) -> result<void> {
      auto got = gather_texts(group, mine, options);
      if (!got)
        return got.error();
      out = std::move(*got);
      return group.barrier(options); // nobody goes on while others still have to ask
    },
    told);
  return met ? result<std::vector<std::string>>{std::move(out)} : met.error();
}

// --- the links of one strategy

namespace {

/// Grammar: devices '\n' address '\n' what.
std::string encode(const worker_info& info, const std::string& address) {
  return std::to_string(info.devices) + "\n" + address + "\n" + info.what;
}

struct read_info {
  worker_info info{};
  std::string address{};
};

result<read_info> decode(const std::string& text, const std::string& worker) {
  const auto first = text.find('\n');
  const auto second = first == std::string::npos ? first : text.find('\n', first + 1);
  read_info out;
  const auto* end = text.data() + std::min(first, text.size());
  auto [at, failed] = std::from_chars(text.data(), end, out.info.devices);
  if (second == std::string::npos || failed != std::errc{} || at != end)
    return make_failure(errc::bad_frame, "malformed rendezvous message from " + worker);
  out.address = text.substr(first + 1, second - first - 1);
  out.info.what = text.substr(second + 1);
  return out;
}

/// `first_name`, `name`: whose they are.
failure differs(const worker_info& first, const std::string& first_name, const worker_info& other,
                const std::string& name) {
  if (first.what != other.what)
    return make_failure(errc::mismatch, first_name + " creates " + first.what + ", " + name
                                          + " creates " + other.what);
  return make_failure(errc::mismatch, first.what + ": " + first_name + " has "
                                        + std::to_string(first.devices) + " devices, " + name
                                        + " has " + std::to_string(other.devices)
                                        + "; all workers need the same number");
}

} // namespace

result<std::shared_ptr<process_links>> process_links::make(
  const std::shared_ptr<worker_meeting>& meeting, const worker_info& info, time_point deadline,
  wait_listener told) {
  auto group = worker_group::make(meeting->env(), meeting->self(),
                                  {.name = "workers",
                                   .listen = meeting->any_port(),
                                   .token = meeting->token(),
                                   .members_listen = true});
  if (!group)
    return group.error();
  auto all = meeting->meet(encode(info, (*group)->address()), deadline, told);
  if (!all)
    return all.error();
  std::vector<std::string> addresses;
  std::vector<worker_info> infos;
  for (std::size_t i = 0; i < all->size(); ++i) {
    auto read = decode((*all)[i], meeting->names().at(i));
    if (!read)
      return read.error();
    addresses.push_back(std::move(read->address));
    infos.push_back(std::move(read->info));
  }
  for (std::size_t i = 1; i < infos.size(); ++i)
    if (infos[i].what != infos[0].what || infos[i].devices != infos[0].devices)
      return differs(infos[0], meeting->names().at(0), infos[i], meeting->names().at(i));
  (*group)->set_addresses(addresses, meeting->names());
  return std::make_shared<process_links>(meeting, std::move(*group), std::move(told));
}

result<void> process_links::run(const std::string& what, time_point deadline,
                                const worker_operation& body) {
  return group_->run(what, deadline, body, told_);
}

namespace {

/// Grammar: epoch '\n' (id ' ' address '\n')*.
std::string encode(const replica_addresses& addresses) {
  auto out = std::to_string(addresses.epoch) + "\n";
  for (const auto& each : addresses.members)
    out += std::to_string(each.id) + " " + each.address + "\n";
  return out;
}

template <class T>
bool take_number(const char*& at, const char* end, char until, T& to) {
  auto [after, failed] = std::from_chars(at, end, to);
  const bool well = failed == std::errc{} && after != end && *after == until;
  at = well ? after + 1 : end;
  return well;
}

/// @param worker that sent it
bool decode_into(const std::string& text, const std::string& worker, replica_addresses& to) {
  const char* at = text.data();
  const char* end = at + text.size();
  std::uint32_t epoch = 0;
  if (!take_number(at, end, '\n', epoch))
    return false;
  to.epoch = std::max(to.epoch, epoch);
  while (at != end) {
    collective_member member;
    const char* line = nullptr;
    if (!take_number(at, end, ' ', member.id) || (line = std::find(at, end, '\n')) == end)
      return false;
    member.address.assign(at, line);
    member.name = worker;
    to.members.push_back(std::move(member));
    at = line + 1;
  }
  return true;
}

} // namespace

result<replica_addresses> process_links::exchange(const replica_addresses& mine,
                                                  time_point deadline) {
  const std::string what = "replica addresses";
  replica_addresses out;
  auto done = group_->persist(
    what, deadline,
    [&](collective_group& group, const collective_options& options) -> result<void> {
      auto got = gather_texts(group, encode(mine), options);
      if (!got)
        return got.error();
      out = {};
      for (std::size_t i = 0; i < got->size(); ++i)
        if (const auto& name = meeting_->names().at(i); !decode_into((*got)[i], name, out))
          return make_failure(errc::bad_frame,
                              "malformed replica addresses from " + name + ": " + (*got)[i]);
      return {};
    },
    told_);
  return done ? result<replica_addresses>{std::move(out)} : done.error();
}

} // namespace troupe
