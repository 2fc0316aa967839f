// Goal: what a peer sends is decoded only when every count, kind, type and size in it holds.
#include <doctest/doctest.h>

#include <functional>

#include <troupe/actors/data_plane/parameter_protocol.hpp>
#include <troupe/core/mac.hpp>

using namespace troupe;

namespace {

piece_meta good_piece() {
  piece_meta x;
  x.to = {static_cast<variable_id>(3), static_cast<shard_index>(1)};
  x.key = {{static_cast<term_no>(2), 9}, static_cast<op_no>(4)};
  x.attempt = static_cast<attempt_no>(5);
  x.kind = mutation_kind::scatter_add;
  x.flags = piece_meta::has_values | piece_meta::has_indices;
  x.type = dtype::f32;
  x.shape = {2, 3};
  x.rows = 2;
  return x;
}

constexpr std::uint64_t good_bytes = 2 * 3 * 4 + 2 * 8;

errc staged(const std::function<void(piece_meta&)>& spoil, std::uint64_t bytes = good_bytes) {
  mutate_meta meta{{good_piece()}, {}};
  tensor_pool pool;
  spoil(meta.pieces[0]);
  auto out = stage_pieces(meta, bytes, pool);
  return out ? errc::none : out.error().code;
}

} // namespace

TEST_CASE("parameter_protocol: a code proves the token for one sender, one term and one use") {
  hello_meta hello;
  hello.cluster = "blue";
  hello.task = {job_kind::worker, 3};
  hello.inc.nonce = 77;
  hello.term = static_cast<term_no>(5);
  // The text under the code is part of the protocol.
  CHECK(hello_code(hello, "secret") == message_code("secret", "blue\nworker:3\n77\n5\ndata"));
  const auto link = hello_code(hello, "secret", hello_use::link);
  CHECK(link == message_code("secret", "blue\nworker:3\n77\n5\nlink"));
  CHECK(hello_code(hello, "").empty());
  CHECK(hello_code(hello, "", hello_use::link).empty());
  hello.inc.nonce = 78;
  CHECK(hello_code(hello, "secret", hello_use::link) != link);
}

TEST_CASE("parameter_protocol: a push comes back as it was sent") {
  std::vector<mutation_piece> sent(3);
  sent[0].variable = static_cast<variable_id>(1);
  sent[0].key = {{static_cast<term_no>(2), 7}, static_cast<op_no>(1)};
  sent[0].attempt = static_cast<attempt_no>(3);
  sent[0].values = tensor::vector<float>({1, 2, 3});
  sent[1].shard = static_cast<shard_index>(4);
  sent[1].kind = mutation_kind::scatter_max;
  sent[1].values = tensor::of<double>({1, 2}, {5, 6});
  sent[1].indices = tensor::vector<std::int64_t>({8});
  sent[2].at_least_once = true;
  sent[2].indices = tensor::zeros(dtype::i64, {0});
  auto frame = make_push(sent, 77);
  CHECK(frame.request == 77);
  std::string bulk;
  for (const auto& part : frame.bulk)
    bulk.append(reinterpret_cast<const char*>(part.bytes.data()), part.bytes.size());
  auto meta = decode_meta<mutate_meta>(frame.meta, "mutate").value_or_throw();
  tensor_pool pool;
  auto got = stage_pieces(meta, bulk.size(), pool).value_or_throw();
  std::size_t at = 0;
  for (auto part : parts_of(got)) {
    std::memcpy(part.data(), bulk.data() + at, part.size());
    at += part.size();
  }
  CHECK(at == bulk.size());
  REQUIRE(got.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(got[i].variable == sent[i].variable);
    CHECK(got[i].shard == sent[i].shard);
    CHECK(got[i].key == sent[i].key);
    CHECK(got[i].attempt == sent[i].attempt);
    CHECK(got[i].kind == sent[i].kind);
    CHECK(got[i].at_least_once == sent[i].at_least_once);
    CHECK(got[i].values == sent[i].values);
    CHECK(got[i].indices == sent[i].indices);
  }
}

TEST_CASE(
  "parameter_protocol: a bad kind, flag, type, shape, count or size of a piece is bad_frame") {
  CHECK(staged([](piece_meta&) {}) == errc::none);
  CHECK(staged([](piece_meta& x) { x.kind = static_cast<mutation_kind>(12); }) == errc::bad_frame);
  CHECK(staged([](piece_meta& x) { x.kind = static_cast<mutation_kind>(255); }) == errc::bad_frame);
  CHECK(staged([](piece_meta& x) { x.flags = 8 | 3; }) == errc::bad_frame);
  CHECK(staged([](piece_meta& x) { x.type = static_cast<dtype>(8); }) == errc::bad_frame);
  CHECK(staged([](piece_meta& x) { x.shape = {-2, 3}; }) == errc::bad_frame);
  CHECK(staged([](piece_meta& x) {
          x.shape = {std::int64_t{1} << 40, std::int64_t{1} << 40};
        })
        == errc::bad_frame);
  CHECK(staged([](piece_meta& x) { x.shape = {std::int64_t{1} << 44}; }) == errc::bad_frame);
  CHECK(staged([](piece_meta& x) { x.shape = {2, 4}; }) == errc::bad_frame);
  CHECK(staged([](piece_meta& x) { x.rows = 3; }) == errc::bad_frame);
  CHECK(staged([](piece_meta& x) { x.rows = ~std::uint64_t{0}; }) == errc::bad_frame);
  CHECK(staged([](piece_meta& x) { x.rows = std::uint64_t{1} << 61; }) == errc::bad_frame);
  CHECK(staged([](piece_meta& x) { x.flags = piece_meta::has_values; }) == errc::bad_frame);
  CHECK(staged([](piece_meta& x) { x.flags = piece_meta::has_indices; }) == errc::bad_frame);
  CHECK(staged([](piece_meta&) {}, good_bytes - 1) == errc::bad_frame);
  CHECK(staged([](piece_meta&) {}, good_bytes + 1) == errc::bad_frame);
}

TEST_CASE(
  "parameter_protocol: a count that the frame can't hold, or bytes too few or too many, are "
  "bad_frame") {
  mutate_meta meta{{good_piece(), good_piece()}, {}};
  auto bytes = encode_meta(meta);
  CHECK(decode_meta<mutate_meta>(bytes, "mutate"));
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    auto cut = decode_meta<mutate_meta>(std::string_view{bytes}.substr(0, n), "mutate");
    REQUIRE(!cut);
    CHECK(cut.error().code == errc::bad_frame);
  }
  CHECK(!decode_meta<mutate_meta>(bytes + "x", "mutate"));
  std::uint64_t huge = ~std::uint64_t{0} / 2;
  std::memcpy(bytes.data(), &huge, sizeof huge);
  auto got = decode_meta<mutate_meta>(bytes, "mutate");
  REQUIRE(!got);
  CHECK(got.error().text.find("mutate") != std::string::npos);
}

TEST_CASE("parameter_protocol: flipping any bit of a push's meta never does worse than bad_frame") {
  mutate_meta meta{{good_piece(), good_piece()}, {}};
  auto bytes = encode_meta(meta);
  int refused = 0;
  tensor_pool pool;
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    auto bad = bytes;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
    auto decoded = decode_meta<mutate_meta>(bad, "mutate");
    if (!decoded || !stage_pieces(*decoded, 2 * good_bytes, pool))
      ++refused;
  }
  CHECK(refused > 100);
}

TEST_CASE("parameter_protocol: the bulk of a push begins at a multiple of 64, wherever it stands") {
  std::vector<mutation_piece> sent(1);
  sent[0].values = tensor::vector<float>({1, 2, 3});
  for (std::uint64_t position = 0; position < 200; ++position) {
    auto frame = make_push(sent, 1, position);
    CHECK((position + frame_header_bytes + frame.meta.size()) % 64 == 0);
    auto meta = decode_meta<mutate_meta>(frame.meta, "mutate").value_or_throw();
    CHECK(check_pieces(meta, 12));
    CHECK(meta.padding.size() < 64);
  }
}

TEST_CASE("parameter_protocol: of a push in foreign memory, what must be checked is copied first") {
  std::vector<mutation_piece> sent(4);
  sent[0].kind = mutation_kind::scatter_add;
  sent[0].values = tensor::of<float>({2, 2}, {1, 2, 3, 4});
  sent[0].indices = tensor::vector<std::int64_t>({5, 6});
  sent[1].values = tensor::vector<float>({7});
  sent[2].kind = mutation_kind::scatter_div;
  sent[2].values = tensor::of<std::int64_t>({1, 1}, {9});
  sent[2].indices = tensor::vector<std::int64_t>({3});
  sent[3].indices = tensor::zeros(dtype::i64, {0});
  auto frame = make_push(sent, 1);
  std::vector<double> memory(20); // aligned for any element
  for (const std::size_t shift : {0u, 4u, 1u}) {
    CAPTURE(shift);
    auto bulk = std::as_writable_bytes(std::span{memory}).subspan(shift);
    std::size_t at = 0;
    for (const auto& part : frame.bulk) {
      std::memcpy(bulk.data() + at, part.bytes.data(), part.bytes.size());
      at += part.bytes.size();
    }
    auto meta = decode_meta<mutate_meta>(frame.meta, "mutate").value_or_throw();
    REQUIRE(check_pieces(meta, at));
    auto got = pieces_in(meta, bulk.first(at));
    REQUIRE(got.size() == 4);
    for (std::size_t i = 0; i < got.size(); ++i) {
      CHECK(got[i].values == sent[i].values);
      CHECK(got[i].indices == sent[i].indices);
    }
    auto in_place = [&](const tensor& x) {
      return x.bytes().data() >= bulk.data() && x.bytes().data() < bulk.data() + at;
    };
    CHECK(in_place(got[0].values) == (shift != 1)); // floats at any multiple of 4
    CHECK(in_place(got[1].values) == (shift != 1));
    CHECK(!in_place(got[2].values));
    CHECK(!in_place(got[0].indices));
    std::memset(bulk.data(), 0xff, at); // the sender changes its mind
    CHECK(got[0].indices == sent[0].indices);
    CHECK(got[2].values == sent[2].values);
    CHECK(got[2].indices == sent[2].indices);
  }
}
