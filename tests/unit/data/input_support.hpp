#pragma once

#include <string>
#include <vector>

#include <troupe/data/distributed_input.hpp>

#include "support.hpp"

/// Short ways to say what a pipeline gives.
// What a step looks like as text: "0 1|2" are pieces [0, 1] and [2], an empty piece is "-".

namespace data_test {

using policy = autoshard_policy;
using words = std::vector<std::string>;

inline std::string text(const tensor& x) {
  std::string out;
  for (auto v : values_of<std::int64_t>(x))
    out += (out.empty() ? "" : " ") + std::to_string(v);
  return out;
}

inline std::string text(const input_step& step) {
  std::string out;
  for (const auto& x : step.pieces)
    out += (&x == step.pieces.data() ? "" : "|") + (x.empty() ? "-" : text(x.data[0]));
  return out;
}

/// Steps until this worker's input ends.
inline words steps_of(pipeline_pieces& input, std::size_t max = 1000) {
  words out;
  while (out.size() < max) {
    auto step = input.next();
    if (!step.has_data)
      break;
    out.push_back(text(step));
  }
  return out;
}

inline words steps_of(const dataset& data, pipeline_options options, std::size_t max = 1000) {
  fake_ports ports;
  pipeline_pieces input{data, options, ports.context()};
  return steps_of(input, max);
}

/// One worker's, with the rule for today's numbers of TensorFlow (the per-batch rule) or Troupe's.
inline pipeline_options at(std::int64_t worker, std::int64_t workers, std::int64_t replicas,
                           split rule = split::stream, policy how = policy::automatic) {
  pipeline_options out;
  out.workers = workers;
  out.worker = worker;
  out.replicas = replicas;
  out.rule = rule;
  out.policy = how;
  return out;
}

inline dataset counted(std::int64_t rows, std::int64_t batch) {
  return dataset::range(rows).batch(batch);
}

inline dataset of(std::initializer_list<std::int64_t> xs, std::int64_t batch, bool drop = false) {
  return dataset::from_tensors({tensor::vector<std::int64_t>(xs)}).batch(batch, drop);
}

inline dataset mapped(const dataset& x) {
  return x.map([](const element& e) { return e; }); // hides the batch size
}

inline failure why(const dataset& data, const pipeline_options& options) {
  return failure_of([&] { steps_of(data, options); });
}

} // namespace data_test
