#include <doctest/doctest.h>

#include <troupe/core/production_ports.hpp>

#include "support.hpp"

using namespace data_test;

TEST_CASE("fashion_mnist: both splits of the real files have their counts, classes and range") {
  auto ports = make_production_ports();
  counting_random random;
  data_context context{ports->storage(), random};
  for (const auto& [split, rows] :
       {std::pair<std::string, std::int64_t>{"train", 60000}, {"test", 10000}}) {
    auto it = fashion_mnist(split).batch(1000).iterate(context);
    std::vector<std::int64_t> per_class(10, 0);
    float low = 1;
    float high = 0;
    std::int64_t seen = 0;
    while (auto x = it.try_next()) {
      REQUIRE(x->images().shape() == shape_t{1000, 784});
      REQUIRE(x->labels().shape() == shape_t{1000});
      for (auto v : x->images().as<float>()) {
        low = std::min(low, v);
        high = std::max(high, v);
      }
      for (auto label : x->labels().as<std::int64_t>())
        ++per_class.at(static_cast<std::size_t>(label));
      seen += 1000;
    }
    CHECK(seen == rows);
    CHECK(low == 0.0f);
    CHECK(high == 1.0f);
    CHECK(per_class == std::vector<std::int64_t>(10, rows / 10));
  }
}

TEST_CASE("fashion_mnist: a batch of a shuffle holds the images of its rows, as one by one") {
  auto ports = make_production_ports();
  counting_random random;
  data_context context{ports->storage(), random};
  auto shuffled = fashion_mnist("test").shuffle(10000, 7);
  auto batches = shuffled.batch(64).iterate(context);
  auto singles = shuffled.iterate(context);
  for (int i = 0; i < 10; ++i) {
    auto batch = batches.next();
    for (std::int64_t row = 0; row < 64; ++row) {
      auto x = singles.next();
      REQUIRE(batch.images().rows(row, row + 1).reshaped({784}) == x.images());
      REQUIRE(batch.labels().rows(row, row + 1).reshaped({}) == x.labels());
    }
  }
  auto all = shuffled.batch(64).iterate(context);
  std::int64_t rows = 0;
  while (auto x = all.try_next())
    rows += x->labels().size();
  CHECK(rows == 10000);
}

TEST_CASE("PS-L13 fashion_mnist: element_spec tells types and shapes") {
  auto ports = make_production_ports();
  auto spec = fashion_mnist("test").shuffle(10).repeat().batch(64).element_spec(
    {ports->storage(), ports->random()});
  REQUIRE(spec.size() == 2);
  CHECK(to_string(spec[0]) == "f32[-1, 784]");
  CHECK(to_string(spec[1]) == "i64[-1]");
}

TEST_CASE("fashion_mnist: bad splits, missing files and wrong contents are named") {
  CHECK(failure_of([] { fashion_mnist("validation"); }).code == errc::invalid_argument);
  fake_ports ports;
  auto data = fashion_mnist("test", "/data");
  auto open = [&] { data.iterate(ports.context()); };
  auto why = failure_of(open);
  CHECK(why.code == errc::not_found);
  CHECK(says(why.text, "/data/t10k-images-idx3-ubyte.gz"));

  auto& images = ports.storage.files["/data/t10k-images-idx3-ubyte.gz"];
  auto& labels = ports.storage.files["/data/t10k-labels-idx1-ubyte.gz"];
  images = gzipped(idx_bytes(0x08, {2, 28, 27}, std::string(2 * 28 * 27, 'a')));
  labels = gzipped(idx_bytes(0x08, {2}, std::string{"\x03\x0a"}));
  why = failure_of(open);
  CHECK(why.code == errc::corrupt);
  CHECK(says(why.text, "u8[2, 28, 27] instead of u8[rows, 28, 28]"));

  images = gzipped(idx_bytes(0x08, {2, 28, 28}, std::string(2 * 28 * 28, '\x33')));
  why = failure_of(open);
  CHECK(why.code == errc::corrupt);
  CHECK(says(why.text, "label 1 is 10, not below 10"));

  labels = gzipped(idx_bytes(0x08, {3}, std::string{"\x03\x01\x02"}));
  CHECK(failure_of(open).code == errc::mismatch);

  labels = gzipped(idx_bytes(0x08, {2}, std::string{"\x03\x01"}));
  auto x = data.iterate(ports.context()).next();
  CHECK(x.images().as<float>()[783] == doctest::Approx(0.2f));
  CHECK(x.labels().item<std::int64_t>() == 3);
}
