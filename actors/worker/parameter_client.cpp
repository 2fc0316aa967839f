#include <troupe/actors/worker/parameter_client.hpp>

#include <algorithm>
#include <functional>
#include <new>
#include <string>

#include <troupe/actors/worker/mutation_check.hpp>
#include <troupe/core/planted.hpp>
#include <troupe/kernels/gather_scatter.hpp>

namespace troupe {

row_place locate_row(const variable_spec& spec, std::int64_t row) {
  auto after =
    std::upper_bound(spec.shards.begin(), spec.shards.end(), row,
                     [](std::int64_t x, const shard_spec& part) { return x < part.row_end; });
  auto shard = static_cast<std::uint32_t>(after - spec.shards.begin());
  return {static_cast<shard_index>(shard), row - after->row_begin};
}

parameter_client::parameter_client(const environment& env, catalogue find, link_maker connect,
                                   parameter_client_options options)
  : env_{env},
    find_{std::move(find)},
    connect_{std::move(connect)},
    options_{std::move(options)},
    poller_{env.transport.make_poller()},
    no_rows_{dtype::i64, {0}} {}

parameter_client::~parameter_client() {
  for (auto& slot : links_)
    if (slot.watched)
      poller_->forget(*slot.link->wire());
}

void parameter_client::begin(closure_id closure, attempt_no attempt, const origin& from) {
  if (closure.term != closure_.term)
    known_.clear(); // another coordinator numbers its variables anew
  closure_ = closure;
  attempt_ = attempt;
  from_ = from;
  ++closure_no_;
  push_failed_ = {};
}

// Each thread starts at another server. Stops at the first failure.
template <class F>
result<void> parameter_client::for_each_server(F f) {
  auto n = static_cast<std::uint32_t>(scratch_.size());
  for (std::uint32_t i = 0; i < n; ++i) {
    auto server = (options_.thread + i) % n;
    auto& work = scratch_[server];
    if (work.reads.empty() && work.gathers.empty() && work.pieces.empty())
      continue;
    if (auto ok = f(server, work); !ok)
      return ok;
  }
  return {};
}

// -- reading
// ------------------------------------------------------------------------------------------------------------

result<std::vector<variable_value>> parameter_client::read(std::span<const variable_id> variables) {
  clear_scratch(); // of a call that failed half-way
  std::vector<variable_value> out(variables.size());
  for (std::size_t i = 0; i < variables.size(); ++i) {
    auto known = find(variables[i]);
    if (!known)
      return known.error();
    const auto& spec = *(*known)->spec;
    if (auto ok = prepare_blocks(spec, out[i]); !ok)
      return ok.error();
    auto shards = spec.shards.size();
    for (std::size_t n = 0; n < shards; ++n) {
      auto at = (options_.thread + n) % shards;
      scratch_of(spec.shards[at].server)
        .reads.push_back({{spec.id, static_cast<shard_index>(at)}, &out[i].blocks[at]});
    }
  }
  if (auto ok = run_reads(); !ok)
    return ok.error();
  mark(env_, "client.after_read");
  return out;
}

// Links that copy write all blocks of a variable into one tensor.
result<void> parameter_client::prepare_blocks(const variable_spec& spec, variable_value& value) {
  value.type = spec.type;
  value.shape = spec.shape;
  value.blocks.resize(spec.shards.size());
  tensor whole;
  for (std::size_t i = 0; i < spec.shards.size(); ++i) {
    const auto& part = spec.shards[i];
    auto link = link_to(part.server);
    if (!link)
      return link.error();
    auto& block = value.blocks[i];
    block.row_begin = part.row_begin;
    block.row_end = part.row_end;
    if (!(*link)->copies())
      continue;
    if (!whole.defined())
      whole = pool_.make(spec.type, spec.shape);
    block.values = spec.is_sharded() ? whole.rows(part.row_begin, part.row_end) : whole;
  }
  return {};
}

result<tensor> parameter_client::gather(variable_id variable, const tensor& indices) {
  auto known = find(variable);
  if (!known)
    return known.error();
  const auto& spec = *(*known)->spec;
  if (!indices.defined() || indices.type() != dtype::i64)
    return make_failure(errc::dtype_mismatch, label_of(spec) + ": gather: indices are "
                                                + type_and_shape(indices) + ", expected i64");
  auto ids = indices.as<std::int64_t>();
  if (auto ok = check_rows_in_range(ids, spec, "gather"); !ok)
    return ok.error();
  clear_scratch();
  auto row_shape = row_shape_of(spec);
  auto shape = indices.shape();
  shape.insert(shape.end(), row_shape.begin(), row_shape.end());

  // Ascending and without repeats, rows come shard by shard; `place` puts them back in the order
  // asked.
  std::vector<std::int64_t> unique(ids.begin(), ids.end());
  bool as_asked =
    std::adjacent_find(unique.begin(), unique.end(), std::greater_equal<>{}) == unique.end();
  if (!as_asked) {
    std::sort(unique.begin(), unique.end());
    unique.erase(std::unique(unique.begin(), unique.end()), unique.end());
  }
  auto rows = tensor::of<std::int64_t>({static_cast<std::int64_t>(unique.size())}, unique);
  auto got_shape = row_shape;
  got_shape.insert(got_shape.begin(), rows.size());
  auto got = pool_.make(spec.type, got_shape);
  if (auto ok = add_gathers(spec, rows, got); !ok)
    return ok.error();
  if (auto ok = run_reads(); !ok)
    return ok.error();
  mark(env_, "client.after_read");
  if (as_asked)
    return got.reshaped(std::move(shape));

  std::vector<std::int64_t> place(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i)
    place[i] = std::lower_bound(unique.begin(), unique.end(), ids[i]) - unique.begin();
  auto out = pool_.make(spec.type, std::move(shape));
  auto row_bytes = static_cast<std::size_t>(spec.row_size()) * size_of(spec.type);
  if (row_bytes > 0)
    kernels::gather_row_bytes(got.bytes(), row_bytes, place, out.mutable_bytes());
  return out;
}

// @pre `rows` ascend; they are made local to their shards.
result<void> parameter_client::add_gathers(const variable_spec& spec, tensor& rows, tensor& to) {
  auto ids = rows.mutable_as<std::int64_t>();
  for (std::size_t begin = 0; begin < ids.size();) {
    auto at = value_of(locate_row(spec, ids[begin]).shard);
    const auto& part = spec.shards[at];
    auto end = begin;
    for (; end < ids.size() && ids[end] < part.row_end; ++end)
      ids[end] -= part.row_begin;
    auto link = link_to(part.server);
    if (!link)
      return link.error();
    auto b = static_cast<std::int64_t>(begin);
    auto e = static_cast<std::int64_t>(end);
    scratch_of(part.server)
      .gathers.push_back({{spec.id, shard_index{at}}, rows.rows(b, e), to.rows(b, e)});
    begin = end;
  }
  return {};
}

result<void> parameter_client::run_reads() {
  struct disown_unless_done { // also when memory runs out on the way
    std::vector<link_slot>& links;
    bool done = false;
    ~disown_unless_done() {
      if (done)
        return;
      for (auto& slot : links)
        if (slot.link)
          slot.link->disown_reads(); // nothing may be written into memory that the caller gives up
    }
  } guard{links_};
  auto started = for_each_server([this](std::uint32_t server, scratch& work) -> result<void> {
    auto link = link_to(server);
    if (!link)
      return link.error();
    result<void> ok;
    if (!work.reads.empty())
      ok = (*link)->start_reads(work.reads);
    if (ok && !work.gathers.empty())
      ok = (*link)->start_gathers(work.gathers);
    if (!ok) {
      auto why = at_server(server, ok.error());
      lose(server, std::move(ok.error()));
      return why;
    }
    return {};
  });
  auto done = started ? drive(waiting_for::reads, never) : std::move(started);
  if (done)
    guard.done = true;
  auto refused = take_read_refusals();
  clear_scratch();
  return done ? refused : done;
}

// -- changing
// -----------------------------------------------------------------------------------------------------------

result<void> parameter_client::mutate(std::span<const mutation> ops) {
  try {
    return mutate_all(ops);
  } catch (const std::bad_alloc&) {
    if (push_failed_.code == errc::none) // some servers may have their pieces
      push_failed_ = make_failure(errc::out_of_memory, "no memory"); // short: takes none itself
    throw;
  }
}

result<void> parameter_client::mutate_all(std::span<const mutation> ops) {
  for (const auto& op : ops) {
    auto known = find(op.variable);
    if (!known)
      return known.error();
    if (auto ok = check_mutation(op, *(*known)->spec); !ok)
      return ok;
  }
  if (auto ok = take_push_refusals(); !ok)
    return ok;
  clear_scratch();
  for (const auto& op : ops)
    split(op, known_[op.variable]);
  std::size_t servers = 0;
  for (const auto& work : scratch_)
    servers += work.pieces.empty() ? 0 : 1;
  auto done = for_each_server([&](std::uint32_t server, scratch& work) -> result<void> {
    if (work.pieces.empty())
      return {};
    auto sent = send_pieces(server);
    if (sent && servers > 1)
      mark(env_, "client.pushed_k_of_n");
    return sent;
  });
  clear_scratch();
  if (!done)
    mark(env_, "client.push_failed_midway");
  if (!done && push_failed_.code == errc::none)
    push_failed_ = done.error(); // some servers may have their pieces: the closure must not finish
  return done ? take_push_refusals() : done;
}

void parameter_client::split(const mutation& op, known_variable& variable) {
  const auto& spec = *variable.spec;
  if (std::exchange(variable.closure_no, closure_no_) != closure_no_)
    variable.op = 0;
  mutation_piece like;
  like.variable = spec.id;
  like.key = {closure_, op_no{variable.op++}};
  if (planted(planted_bug::attempt_in_key))
    like.key.op = op_no{value_of(like.key.op) + 1000 * value_of(attempt_)};
  like.attempt = attempt_;
  trace(env_, "client.pushed",
        {{"term", closure_.term},
         {"closure", closure_.seq},
         {"attempt", attempt_},
         {"variable", spec.id},
         {"op", like.key.op},
         {"shards", spec.shards.size()}});
  like.kind = op.kind;
  like.at_least_once = options_.at_least_once;
  if (op.indices.defined())
    return split_rows(op, spec, like);
  auto shards = spec.shards.size();
  for (std::size_t n = 0; n < shards; ++n) {
    auto at = (options_.thread + n) % shards;
    auto piece = like;
    bool whole = shards == 1 || op.kind == mutation_kind::set_learning_rate;
    piece.values =
      whole ? op.values : op.values.rows(spec.shards[at].row_begin, spec.shards[at].row_end);
    add_piece(spec, at, std::move(piece));
  }
}

// Every shard gets a piece, those without rows an empty one, so that version and t stay alike.
void parameter_client::split_rows(const mutation& op, const variable_spec& spec,
                                  const mutation_piece& like) {
  auto shards = spec.shards.size();
  if (shards == 1) {
    auto piece = like;
    piece.values = op.values;
    piece.indices = op.indices;
    return add_piece(spec, 0, std::move(piece));
  }
  auto ids = op.indices.as<std::int64_t>();
  auto row_bytes = static_cast<std::size_t>(spec.row_size()) * size_of(spec.type);
  std::vector<std::vector<std::int64_t>> from(shards); // positions, in the order given
  for (std::size_t i = 0; i < ids.size(); ++i)
    from[value_of(locate_row(spec, ids[i]).shard)].push_back(static_cast<std::int64_t>(i));
  for (std::size_t n = 0; n < shards; ++n) {
    auto at = (options_.thread + n) % shards;
    auto piece = like;
    piece.indices = no_rows_;
    if (!from[at].empty()) {
      auto count = static_cast<std::int64_t>(from[at].size());
      piece.indices = tensor{dtype::i64, {count}};
      auto rows = piece.indices.mutable_as<std::int64_t>();
      for (std::size_t i = 0; i < rows.size(); ++i)
        rows[i] = ids[static_cast<std::size_t>(from[at][i])] - spec.shards[at].row_begin;
      auto shape = op.values.shape();
      shape[0] = count;
      piece.values = tensor{spec.type, std::move(shape)};
      if (row_bytes > 0)
        kernels::gather_row_bytes(op.values.bytes(), row_bytes, from[at],
                                  piece.values.mutable_bytes());
    }
    add_piece(spec, at, std::move(piece));
  }
}

void parameter_client::add_piece(const variable_spec& spec, std::size_t shard,
                                 mutation_piece piece) {
  piece.shard = static_cast<shard_index>(shard);
  scratch_of(spec.shards[shard].server).pieces.push_back(std::move(piece));
}

result<void> parameter_client::send_pieces(std::uint32_t server) {
  std::uint64_t bytes = 0;
  for (const auto& piece : scratch_[server].pieces)
    bytes += piece.values.size_bytes() + piece.indices.size_bytes();
  auto link = link_to(server);
  if (!link)
    return link.error();
  if (!(*link)->may_push(bytes)) {
    auto room = drive(waiting_for::window, never, server, bytes);
    if (!room)
      return room;
    link = link_to(server); // it may have been lost meanwhile
    if (!link)
      return link.error();
  }
  auto sent = (*link)->start_mutations(scratch_[server].pieces, from_);
  if (sent)
    sent = (*link)->pump();
  if (sent)
    return sent;
  auto why = at_server(server, sent.error());
  lose(server, std::move(sent.error()));
  return why;
}

} // namespace troupe
