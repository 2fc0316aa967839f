// Training on replicas, on a data set of a few images that are made up. Goal: a run that ends at a
// time learns until then, and what it begins from is as the user said. Method: the program's own
// call, with a listener that keeps the lines.
#include "replica_train.hpp"
#include "train_step.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <unistd.h>

#include "../../support/scratch_folder.hpp"
#include "../strategies/replicas/support.hpp"

namespace {

using namespace replicas_test;

class line_listener final : public tool::training_listener {
public:
  void progress(std::uint64_t, double, double) override {}
  void trained() override {}
  void say(const std::string& line) override { lines.push_back(line); }
  bool said(const std::string& text) const {
    return std::ranges::any_of(
      lines, [&](const auto& line) { return line.find(text) != std::string::npos; });
  }
  std::vector<std::string> lines{};
};

/// Fifty images of noise, labelled at random, as the four files of the data set: to be learnt by
/// heart.
class noise_images {
public:
  noise_images() {
    for (const char* split : {"train", "t10k"}) {
      random_ = 1; // what was learnt is asked for
      const auto head = path().string() + "/" + split;
      std::ofstream images{head + "-images-idx3-ubyte.gz", std::ios::binary};
      write_head(images, {count, 28, 28});
      for (unsigned i = 0; i < count * 28 * 28; ++i)
        images.put(static_cast<char>(draw(256)));
      std::ofstream labels{head + "-labels-idx1-ubyte.gz", std::ios::binary};
      write_head(labels, {count});
      for (unsigned i = 0; i < count; ++i)
        labels.put(static_cast<char>(draw(10)));
    }
  }

  const std::filesystem::path& path() const { return folder_.path(); }

private:
  static constexpr unsigned count = 50;
  static void write_head(std::ofstream& to, std::vector<unsigned> extents) {
    to.put(0).put(0).put(8).put(static_cast<char>(extents.size()));
    for (const auto n : extents)
      to.put(0).put(0).put(static_cast<char>(n >> 8)).put(static_cast<char>(n));
  }
  unsigned draw(unsigned below) { return static_cast<unsigned>(next_random(random_) % below); }
  scratch_folder folder_{};
  std::uint64_t random_ = 1;
};

struct tiny_training {
  tool::training_report run(tool::training_options options) {
    options.data = data.path().string();
    options.strategy = "mirrored";
    tool::set_data_options(options);
    const std::atomic<bool> stop{false};
    return tool::train_on_replicas(shared_runtime(), options, listener, stop);
  }
  std::string directory() const { return (data.path() / "saved").string(); }
  noise_images data{};
  line_listener listener{};
};

TEST_CASE("replicas: a run by time learns all of the time, whatever the epochs would be") {
  tiny_training it;
  // An epoch would be one step of this size: a rate that ended with it would leave chance.
  const auto seen = it.run({.epochs = 1, .seconds = 0.8, .batch_size = 60'000});
  CHECK(seen.steps > 10);
  CHECK(seen.accuracy() > 0.9);
  CHECK(seen.differing == 0);
}

TEST_CASE("a run by time: the rate is whole in the first half, then falls to 0 at the end") {
  CHECK(tool::learning_rate_at(0.5f, 0) == 0.5f);
  CHECK(tool::learning_rate_at(0.5f, 0.5) == 0.5f);
  CHECK(tool::learning_rate_at(0.5f, 0.75) == 0.25f);
  CHECK(tool::learning_rate_at(0.5f, 1) == 0.0f);
}

TEST_CASE("replicas: --resume without a checkpoint is refused; one that was interrupted begins") {
  tiny_training it;
  const auto why =
    failure_of([&] { (void)it.run({.epochs = 1, .checkpoint = it.directory(), .resume = true}); });
  names(why, errc::not_found, {"--resume", it.directory().c_str(), "no checkpoint"});
  CHECK_FALSE(std::filesystem::exists(it.directory()));
  const auto begun = it.run({.epochs = 1,
                             .batch_size = 10'000,
                             .checkpoint = it.directory(),
                             .resume = true,
                             .rejoins = true});
  CHECK(begun.steps == 6);
  CHECK(it.listener.said("no checkpoint in " + it.directory()));
  const auto resumed =
    it.run({.epochs = 2, .batch_size = 10'000, .checkpoint = it.directory(), .resume = true});
  CHECK(resumed.steps == 6);
  CHECK(it.listener.said("resumed at step 6"));
}

TEST_CASE("replicas: a directory that cannot be written to ends the run before a step") {
  tiny_training it;
  const auto why = failure_of([&] { (void)it.run({.epochs = 1, .checkpoint = "/proc/nosuch"}); });
  names(why, errc::bad_config, {"--checkpoint is '/proc/nosuch'"});
  CHECK(it.listener.lines.empty());
}

TEST_CASE("replicas: on a device, with the same end") {
  tiny_training it;
  const auto plain = it.run({.epochs = 1, .batch_size = 1'000, .replicas = 1});
  const auto on_device =
    it.run({.epochs = 1, .batch_size = 1'000, .device = "cpu:0", .replicas = 1});
  CHECK(on_device.replicas == 1);
  CHECK(on_device.steps == plain.steps);
  CHECK(on_device.correct == plain.correct);
}

} // namespace
