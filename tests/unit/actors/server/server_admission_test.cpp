// Goal: a server lets in who fits, and says of everybody else the first thing that doesn't.
#include <doctest/doctest.h>

#include <troupe/actors/server/detail/server_admission.hpp>

using namespace troupe;

namespace {

constexpr task_id worker_3{job_kind::worker, 3};

hello_meta hello_of(const std::string& token = "secret") {
  hello_meta out{
    .cluster = "test", .task = worker_3, .inc = {2, 77}, .receiver = {}, .term = term_no{4}};
  out.token = hello_code(out, token);
  return out;
}

struct server {
  std::shared_ptr<shard_store> store = std::make_shared<shard_store>();
  server_admission admission{"test", "secret", store};

  errc code_of(const hello_meta& hello) const {
    auto why = admission.refuse(hello);
    return why ? why->code : errc::none;
  }
  std::string text_of(const hello_meta& hello) const {
    auto why = admission.refuse(hello);
    return why ? why->text : "";
  }
};

} // namespace

TEST_CASE("server_admission: a hello of this protocol, cluster and token is welcome") {
  CHECK_FALSE(server{}.admission.refuse(hello_of()));
}

TEST_CASE("server_admission: strangers are refused by what differs") {
  server x;
  auto other = hello_of();
  other.version = 2;
  CHECK(x.code_of(other) == errc::wrong_peer);
  CHECK(x.text_of(other) == "hello: data protocol 2, this server uses 3");
  other = hello_of();
  other.cluster = "prod";
  CHECK(x.code_of(other) == errc::wrong_peer);
  CHECK(x.text_of(other) == "hello: cluster 'prod', expected 'test'");
  other = hello_of();
  other.task.job = static_cast<job_kind>(200);
  CHECK(x.code_of(other) == errc::wrong_peer);
  CHECK(x.code_of(hello_of("guess")) == errc::wrong_peer);
  CHECK(x.text_of(hello_of("guess")).find("wrong token") != std::string::npos);
  CHECK(x.text_of(hello_of("")).find("the token is missing") != std::string::npos);
}

TEST_CASE("server_admission: a hello that means an incarnation waits for it, and for no other") {
  server x;
  auto hello = hello_of();
  hello.receiver = {3, 4};
  CHECK(x.code_of(hello) == errc::try_again);
  x.admission.set_incarnation({3, 4});
  CHECK(x.code_of(hello) == errc::none);
  x.admission.set_incarnation({4, 9});
  CHECK(x.code_of(hello) == errc::unavailable);
  CHECK(x.text_of(hello) == "hello: expected incarnation 3, this is 4");
  hello.receiver = {};
  CHECK(x.code_of(hello) == errc::none);
  CHECK(x.admission.self() == incarnation{4, 9});
}

TEST_CASE("server_admission: an older term than the store's is superseded") {
  server x;
  x.store->grant_term(term_no{5}, 1).value_or_throw();
  CHECK(x.code_of(hello_of()) == errc::superseded);
  auto hello = hello_of();
  hello.term = term_no{5};
  hello.token = hello_code(hello, "secret");
  CHECK(x.code_of(hello) == errc::none);
}

TEST_CASE("server_admission: fenced is who has a counter up to the highest that was told") {
  server x;
  x.admission.fence(worker_3, 2);
  CHECK(x.code_of(hello_of()) == errc::fenced);
  x.admission.fence(worker_3, 1); // takes nothing back
  CHECK(x.code_of(hello_of()) == errc::fenced);
  CHECK_FALSE(x.admission.refuse_fenced(worker_3, {3, 1}));
  CHECK_FALSE(x.admission.refuse_fenced({job_kind::worker, 2}, {2, 77}));
}

TEST_CASE("server_admission: a new incarnation forgets fences, the store keeps its own") {
  server x;
  x.admission.fence(worker_3, 2);
  x.admission.set_incarnation({3, 4});
  CHECK(x.code_of(hello_of()) == errc::none);
  x.store->fence(worker_3, 2);
  CHECK(x.code_of(hello_of()) == errc::fenced);
}

TEST_CASE("server_admission: without a store neither terms nor its fences count") {
  server_admission blobs{"test", "secret", nullptr};
  CHECK_FALSE(blobs.refuse(hello_of()));
  blobs.fence(worker_3, 2);
  CHECK(blobs.refuse(hello_of())->code == errc::fenced);
}
