// Goal: snapshots never change, and writes go in place exactly when nobody holds one.
#include <doctest/doctest.h>

#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include <troupe/actors/shards/cow_buffer.hpp>

using namespace troupe;

namespace {

void write(cow_buffer& x, float value) {
  auto out = x.begin_write().out;
  for (std::size_t i = 0; i < out.size() / sizeof(float); ++i)
    reinterpret_cast<float*>(out.data())[i] = value;
  x.commit();
}

bool all_equal(const tensor& x, float value) {
  for (auto y : x.as<float>())
    if (y != value)
      return false;
  return true;
}

} // namespace

TEST_CASE("cow_buffer: with no snapshot alive a write goes in place") {
  cow_buffer x{dtype::f32, {8}};
  auto before = x.bytes().data();
  for (int i = 0; i < 5; ++i) {
    write(x, static_cast<float>(i));
    CHECK(x.bytes().data() == before);
    CHECK(all_equal(x.snapshot(), static_cast<float>(i))); // dropped at once
  }
  CHECK(x.spare_count() == 0);
}

TEST_CASE("cow_buffer: a held snapshot keeps its bytes and its memory") {
  cow_buffer x{dtype::f32, {8}};
  write(x, 1);
  auto held = x.snapshot();
  write(x, 2);
  CHECK(all_equal(held, 1));
  CHECK(all_equal(x.snapshot(), 2));
  CHECK(held.bytes().data() != x.bytes().data());
}

TEST_CASE(
  "cow_buffer: a reader that always holds the last version costs two blocks, for ever the same "
  "two") {
  cow_buffer x{dtype::f32, {8}};
  write(x, 0);
  tensor held = x.snapshot();
  const void* even = x.bytes().data();
  write(x, 1);
  const void* odd = x.bytes().data();
  held = x.snapshot();
  for (int i = 2; i < 50; ++i) {
    write(x, static_cast<float>(i));
    CHECK(static_cast<const void*>(x.bytes().data()) == (i % 2 == 0 ? even : odd));
    held = x.snapshot();
  }
  CHECK(x.spare_count() == 1);
}

TEST_CASE("cow_buffer: at most three spares are kept, older snapshots live on without them") {
  cow_buffer x{dtype::f32, {8}};
  std::vector<tensor> held;
  for (int i = 0; i < 10; ++i) {
    write(x, static_cast<float>(i));
    held.push_back(x.snapshot());
  }
  CHECK(x.spare_count() == cow_buffer::spares_max);
  for (int i = 0; i < 10; ++i)
    CHECK(all_equal(held[static_cast<std::size_t>(i)], static_cast<float>(i)));
}

TEST_CASE("cow_buffer: a snapshot outlives the buffer") {
  tensor held;
  {
    cow_buffer x{dtype::f32, {4}};
    write(x, 3);
    held = x.snapshot();
  }
  CHECK(all_equal(held, 3));
}

TEST_CASE("cow_buffer: a partial write starts from the current elements") {
  cow_buffer x{dtype::f32, {4}};
  write(x, 1);
  auto held = x.snapshot();
  auto out = x.begin_partial_write();
  reinterpret_cast<float*>(out.data())[2] = 9;
  x.commit();
  CHECK(all_equal(held, 1));
  CHECK(x.snapshot() == tensor::vector<float>({1, 1, 9, 1}));
}

TEST_CASE("cow_buffer: an empty array can be written and shared") {
  cow_buffer x{dtype::f32, {0, 3}};
  auto held = x.snapshot();
  x.begin_partial_write();
  x.commit();
  CHECK(x.snapshot().shape() == shape_t{0, 3});
}

TEST_CASE("cow_buffer: snapshots released on other threads never change under their readers") {
  cow_buffer x{dtype::f32, {256}};
  write(x, 0);
  std::mutex lock;
  std::atomic<bool> stop{false};
  std::atomic<int> torn{0};
  std::atomic<int> reads{0};
  auto reader = [&] {
    while (!stop) {
      tensor held;
      {
        std::lock_guard guard{lock};
        held = x.snapshot();
      }
      float first = held.as<float>()[0];
      if (!all_equal(held, first))
        ++torn;
      ++reads;
    }
  };
  std::thread a{reader};
  std::thread b{reader};
  for (int i = 0; i < 20000 || reads < 100; ++i) {
    std::lock_guard guard{lock};
    write(x, static_cast<float>(i));
  }
  stop = true;
  a.join();
  b.join();
  CHECK(torn == 0);
  CHECK(x.spare_count() <= cow_buffer::spares_max);
}
