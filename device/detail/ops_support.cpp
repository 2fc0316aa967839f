#include <troupe/device/detail/ops_support.hpp>

#include <algorithm>

#include <troupe/kernels/cuda.hpp>

namespace troupe::detail {

namespace {

std::string place(const char* op, const named_tensor& x) { return std::string{op} + ": " + x.name; }

} // namespace

std::optional<failure> check_here(const char* op, const device& on,
                                  std::initializer_list<named_tensor> all) {
  for (const auto& each : all) {
    if (!each.x.on())
      return make_failure(errc::invalid_argument, place(op, each) + " has no value");
    if (each.x.where() != on.id())
      return make_failure(errc::invalid_argument, place(op, each) + " is on "
                                                    + to_string(each.x.where()) + ", expected "
                                                    + to_string(on.id()));
  }
  return std::nullopt;
}

std::optional<failure> check_alike(const char* op, std::initializer_list<named_tensor> all) {
  const auto& first = *all.begin();
  for (const auto& each : all) {
    if (each.x.type() != first.x.type())
      return make_failure(errc::dtype_mismatch, place(op, each) + " is of "
                                                  + to_string(each.x.type()) + ", " + first.name
                                                  + " of " + to_string(first.x.type()));
    if (each.x.size() != first.x.size())
      return make_failure(errc::shape_mismatch, place(op, each) + " has shape "
                                                  + to_string(each.x.shape()) + ", " + first.name
                                                  + " has " + to_string(first.x.shape()));
  }
  return std::nullopt;
}

std::optional<failure> check_type(const char* op, const named_tensor& x,
                                  std::initializer_list<dtype> allowed) {
  if (std::find(allowed.begin(), allowed.end(), x.x.type()) != allowed.end())
    return std::nullopt;
  std::string text;
  for (auto each : allowed)
    text += (text.empty() ? "" : ", ") + to_string(each);
  return make_failure(errc::dtype_mismatch,
                      place(op, x) + " is of " + to_string(x.x.type()) + ", expected " + text);
}

std::optional<failure> check_size(const char* op, const named_tensor& x, std::int64_t size) {
  if (x.x.size() == size)
    return std::nullopt;
  return make_failure(errc::shape_mismatch, place(op, x) + " has shape " + to_string(x.x.shape())
                                              + ", expected " + std::to_string(size) + " elements");
}

#ifdef TROUPE_HAS_CUDA
std::size_t reduce_scratch(std::int64_t n) {
  return kernels::cuda::reduce_scratch_bytes(static_cast<std::size_t>(n));
}
std::size_t softmax_scratch(std::int64_t batch) {
  return kernels::cuda::softmax_scratch_bytes(static_cast<std::size_t>(batch));
}
std::size_t scatter_scratch(std::int64_t n) {
  return kernels::cuda::scatter_scratch_bytes(static_cast<std::size_t>(n));
}
#else
std::size_t reduce_scratch(std::int64_t) { return 0; }
std::size_t softmax_scratch(std::int64_t) { return 0; }
std::size_t scatter_scratch(std::int64_t) { return 0; }
#endif

result<device_memory> scratch_for(device& on, const device_stream& stream, std::size_t bytes) {
  if (on.id().kind == device_kind::cpu)
    return device_memory{};
  return on.allocate(bytes, stream);
}

} // namespace troupe::detail
