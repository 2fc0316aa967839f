#include <troupe/strategies/function.hpp>

namespace troupe::detail {

call_reader::call_reader(const payload& call) {
  auto in = std::make_unique<checked_reader>(call);
  std::uint8_t count = 0;
  (*in)(count);
  has_inputs_ = count > 0;
  if (!has_inputs_) {
    main_ = std::move(in);
    return;
  }
  (*in)(own_bytes_);
  main_ = std::make_unique<checked_reader>(own_bytes_, call.tensors);
  for (std::uint8_t i = 0; i < count; ++i) {
    input x;
    std::uint32_t begin = 0;
    (*in)(x.bytes, begin);
    if (begin > call.tensors.size())
      throw std::length_error("input " + std::to_string(i) + " begins at tensor "
                              + std::to_string(begin) + " of "
                              + std::to_string(call.tensors.size()));
    x.tensors = std::span{call.tensors}.subspan(begin);
    inputs_.push_back(std::move(x));
  }
}

const call_reader::input* call_reader::next_source() {
  if (!has_inputs_)
    return nullptr;
  std::uint8_t is_input = 0;
  (*main_)(is_input);
  if (is_input == 0)
    return nullptr;
  if (next_input_ >= inputs_.size())
    throw std::length_error("a call has fewer inputs than its arguments say");
  return &inputs_[next_input_++];
}

} // namespace troupe::detail
