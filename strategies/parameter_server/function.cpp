#include <troupe/strategies/parameter_server/function.hpp>

#include <stdexcept>

namespace troupe::detail {

namespace {

constexpr std::uint8_t with_marks = 1; // what such a call begins with; others with 0

} // namespace

call_reader::call_reader(const payload& call) {
  auto in = std::make_unique<checked_reader>(call);
  std::uint8_t lead = 0;
  (*in)(lead);
  if (lead > with_marks)
    throw std::length_error("malformed call: unknown format " + std::to_string(lead));
  has_marks_ = lead == with_marks;
  if (!has_marks_) {
    main_ = std::move(in);
    return;
  }
  std::uint32_t count = 0;
  (*in)(count, own_bytes_);
  main_ = std::make_unique<checked_reader>(own_bytes_, call.tensors);
  for (std::uint32_t i = 0; i < count; ++i) {
    input x;
    std::uint32_t begin = 0;
    (*in)(x.bytes, begin);
    if (begin > call.tensors.size())
      throw std::length_error("malformed call: input " + std::to_string(i) + " begins at tensor "
                              + std::to_string(begin) + " of "
                              + std::to_string(call.tensors.size()));
    x.tensors = std::span{call.tensors}.subspan(begin);
    inputs_.push_back(std::move(x));
  }
}

call_reader::mark call_reader::next_mark() {
  if (!has_marks_)
    return mark::whole;
  std::uint8_t what = 0;
  (*main_)(what);
  if (what > static_cast<std::uint8_t>(mark::pieces))
    throw std::length_error("malformed call: unknown argument mark " + std::to_string(what));
  return static_cast<mark>(what);
}

const call_reader::input& call_reader::next_input() {
  if (next_input_ >= inputs_.size())
    throw std::length_error("malformed call: fewer inputs than its arguments refer to");
  return inputs_[next_input_++];
}

std::size_t call_reader::next_size() {
  cereal::size_type count = 0;
  (*main_)(cereal::make_size_tag(count));
  return count;
}

/// With inputs their bytes come in front of it, once they have arrived.
void call_writer::finish() {
  if (with_marks_ && call_.inputs.empty()) { // a list of none
    plain_writer whole;
    whole(with_marks, std::uint32_t{0}, bytes_.out.bytes);
    bytes_.out.bytes = std::move(whole.out.bytes);
  }
  call_.arguments = std::make_shared<const payload>(std::move(bytes_.out));
}

} // namespace troupe::detail
