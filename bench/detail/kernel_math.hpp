#pragma once

#include <cstring>

#include <troupe/kernels/casts.hpp>
#include <troupe/kernels/elementwise.hpp>
#include <troupe/kernels/merge.hpp>
#include <troupe/kernels/nn.hpp>
#include <troupe/kernels/reduce.hpp>

#include "detail/kernel_cases.hpp"

namespace bench {

namespace k = troupe::kernels;

/// `at` ends the names. Alpha and the fill value are what no compiler can fold.
inline void add_elementwise(std::vector<kernel_case>& to, std::size_t n, const std::string& at) {
  using fb = float_buffers;
  to.push_back(on_floats(
    "add" + at, n, 3, [](fb& x) { k::add<float>(x.a, x.b, x.ours); },
    [](fb& x) { as_eigen(x.theirs) = as_eigen(x.a) + as_eigen(x.b); }));
  to.push_back(on_floats(
    "sub" + at, n, 3, [](fb& x) { k::sub<float>(x.a, x.b, x.ours); },
    [](fb& x) { as_eigen(x.theirs) = as_eigen(x.a) - as_eigen(x.b); }));
  to.push_back(on_floats(
    "mul" + at, n, 3, [](fb& x) { k::mul<float>(x.a, x.b, x.ours); },
    [](fb& x) { as_eigen(x.theirs) = as_eigen(x.a) * as_eigen(x.b); }));
  to.push_back(on_floats(
    "div" + at, n, 3, [](fb& x) { k::div<float>(x.a, x.b, x.ours); },
    [](fb& x) { as_eigen(x.theirs) = as_eigen(x.a) / as_eigen(x.b); }));
  to.push_back(on_floats(
    "max" + at, n, 3, [](fb& x) { k::max<float>(x.a, x.b, x.ours); },
    [](fb& x) { as_eigen(x.theirs) = as_eigen(x.a).max(as_eigen(x.b)); }));
  to.push_back(on_floats(
    "scale" + at, n, 2, [](fb& x) { k::scale<float>(0.37f, x.a, x.ours); },
    [](fb& x) { as_eigen(x.theirs) = 0.37f * as_eigen(x.a); }));
  to.push_back(on_floats(
    "axpy" + at, n, 3, [](fb& x) { k::axpy<float>(1e-9f, x.a, x.ours); },
    [](fb& x) { as_eigen(x.theirs) += 1e-9f * as_eigen(x.a); }));
  to.push_back(on_floats(
    "fill" + at, n, 1, [](fb& x) { k::fill<float>(0.37f, x.ours); },
    [](fb& x) { as_eigen(x.theirs).setConstant(0.37f); }));
  to.push_back(on_floats(
    "relu_forward" + at, n, 2, [](fb& x) { k::relu_forward<float>(x.a, x.ours); },
    [](fb& x) { as_eigen(x.theirs) = as_eigen(x.a).max(0.0f); }));
  to.push_back(on_floats(
    "relu_backward" + at, n, 3, [](fb& x) { k::relu_backward<float>(x.a, x.b, x.ours); },
    [](fb& x) { as_eigen(x.theirs) = (as_eigen(x.a) > 0.0f).select(as_eigen(x.b), 0.0f); }));
  to.push_back(on_floats(
    "merge_of_2" + at, n, 3,
    [](fb& x) {
      const k::merge_source from[] = {{reinterpret_cast<const std::byte*>(x.a.data())},
                                      {reinterpret_cast<const std::byte*>(x.b.data())}};
      std::byte* const out[] = {reinterpret_cast<std::byte*>(x.ours.data())};
      k::merge({}, from, out, x.ours.size());
    },
    [](fb& x) { as_eigen(x.theirs) = as_eigen(x.a) + as_eigen(x.b); }));
}

/// A case of one number: kept in the first element of the outputs.
template <class Ours, class Bound>
kernel_case to_number(std::string name, std::size_t n, Ours ours, Bound bound) {
  struct buffers {
    std::vector<float> x;
    std::vector<double> ours = {0};
    std::vector<double> theirs = {0};
  };
  auto of = std::make_shared<buffers>(buffers{.x = some_floats(n, 3)});
  return {.name = std::move(name),
          .elements = n,
          .bytes = n * sizeof(float),
          .ours = [of, ours] { of->ours[0] = static_cast<double>(ours(of->x)); },
          .peer = "eigen",
          .bound = [of, bound] { of->theirs[0] = static_cast<double>(bound(of->x)); },
          .apart =
            [of, n] {
              // of n roundings of values below 1
              const double scale = std::sqrt(static_cast<double>(n));
              return far_apart(of->ours, of->theirs) / scale;
            }};
}

inline void add_reductions(std::vector<kernel_case>& to, std::size_t n, const std::string& at) {
  using floats = std::vector<float>;
  to.push_back(to_number(
    "sum" + at, n, [](const floats& x) { return k::sum<float>(x); },
    [](const floats& x) { return as_eigen(x).sum(); }));
  to.push_back(to_number(
    "max_element" + at, n, [](const floats& x) { return k::max_element<float>(x); },
    [](const floats& x) { return as_eigen(x).maxCoeff(); }));
  to.push_back(to_number(
    "l2_norm" + at, n, [](const floats& x) { return k::l2_norm<float>(x); },
    [](const floats& x) { return as_eigen(x).cast<double>().matrix().norm(); }));
}

/// The bound moves as many bytes as the cast reads and writes, half of them in, half out.
inline void add_casts(std::vector<kernel_case>& to, std::size_t n, const std::string& at) {
  struct buffers {
    explicit buffers(std::size_t n)
      : wide{some_floats(n, 4)}, narrow(n), back(n), from(3 * n), onto(3 * n) {
      k::cast_f32_to_bf16(wide, narrow);
    }
    std::vector<float> wide;
    std::vector<std::uint16_t> narrow;
    std::vector<float> back;
    std::vector<std::byte> from;
    std::vector<std::byte> onto;
  };
  const auto add = [&](const std::string& name, auto cast) {
    auto of = std::make_shared<buffers>(n);
    to.push_back({.name = name + at,
                  .elements = n,
                  .bytes = 6 * n,
                  .ours = [of, cast] { cast(*of); },
                  .peer = "memcpy",
                  .bound = [of] { std::memcpy(of->onto.data(), of->from.data(), of->from.size()); },
                  .apart = [] { return 0.0; }});
  };
  add("cast_f32_to_bf16", [](buffers& x) { k::cast_f32_to_bf16(x.wide, x.narrow); });
  add("cast_bf16_to_f32", [](buffers& x) { k::cast_bf16_to_f32(x.narrow, x.back); });
  add("cast_f32_to_f16", [](buffers& x) { k::cast_f32_to_f16(x.wide, x.narrow); });
  add("cast_f16_to_f32", [](buffers& x) { k::cast_f16_to_f32(x.narrow, x.back); });
}

} // namespace bench
