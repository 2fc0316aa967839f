#include <troupe/strategies/detail/worker_calls.hpp>

#include <charconv>
#include <utility>

#include <troupe/actors/worker_links.hpp>

namespace troupe::detail {

namespace {

void call(const sync_state& of, const std::string& what, const worker_operation& body) {
  of.require_cross_replica(what.c_str());
  const auto& options = of.options();
  if (options.links)
    options.links->run(what, after(of.env().clock.now(), options.collective_timeout), body)
      .value_or_throw();
}

} // namespace

void worker_barrier(const sync_state& of, const std::string& what) {
  call(of, what,
       [](collective_group& group, const collective_options& how) { return group.barrier(how); });
}

std::vector<std::string> exchange_texts(const sync_state& of, const std::string& mine,
                                        const std::string& what) {
  std::vector<std::string> out{mine};
  call(of, what, [&](collective_group& group, const collective_options& how) -> result<void> {
    auto got = gather_texts(group, mine, how);
    if (!got)
      return got.error();
    out = std::move(*got);
    return {};
  });
  return out;
}

void take_from_chief(const sync_state& of, tensor& x, const std::string& what) {
  call(of, what, [&](collective_group& group, const collective_options& how) {
    return group.broadcast(x, 0, how);
  });
}

std::int64_t largest_of(const sync_state& of, std::int64_t mine, const std::string& what) {
  auto x = tensor::scalar(mine);
  call(of, what, [&](collective_group& group, const collective_options& how) {
    return group.all_reduce(x, reduce_op::max, how);
  });
  return x.item<std::int64_t>();
}

std::string encode_outcome(const std::optional<failure>& why) {
  return std::to_string(why ? static_cast<int>(why->code) : 0) + "\n"
         + (why ? why->text : std::string{});
}

std::optional<failure> decode_outcome(const std::string& text) {
  int code = 0;
  auto [at, failed] = std::from_chars(text.data(), text.data() + text.size(), code);
  if (failed != std::errc{} || at == text.data() + text.size() || *at != '\n' || code < 0
      || code > 255)
    return make_failure(errc::bad_frame, "a worker's outcome is '" + text.substr(0, 80) + "'");
  if (code == 0)
    return std::nullopt;
  return make_failure(static_cast<errc>(code), std::string{at + 1, text.data() + text.size()});
}

} // namespace troupe::detail
