// Messages between actors, as CAF's network layer hands their bytes to `inspect`.
#include "message_decoders.hpp"

#include <caf/binary_deserializer.hpp>
#include <caf/binary_serializer.hpp>

#include <troupe/messages/link_codec.hpp>
#include <troupe/messages/messages.hpp>
#include <troupe/messages/type_ids.hpp>

#include "samples.hpp"

namespace fuzz {

namespace {

using namespace troupe;

template <class T>
std::string written(T& x) {
  std::vector<char> out;
  caf::binary_serializer to{nullptr, out};
  require(!to(x), "a message that was read can't be written");
  return {out.begin(), out.end()};
}

template <class T>
bool read(std::string_view bytes, T& x, std::size_t& left) {
  caf::binary_deserializer from{nullptr, bytes.data(), bytes.size()};
  const bool good = !from(x);
  left = from.remaining();
  return good;
}

/// CAF reads several forms of a count and of a bool, so that what was read is compared once it was
/// written.
template <class T>
bool decode(std::string_view input) {
  T first{};
  std::size_t left = 0;
  if (!read(input, first, left))
    return false;
  const auto once = written(first);
  require(once.size() <= input.size() - left, "a message is longer than what it was read from");
  T second{};
  std::size_t none = 0;
  require(read(once, second, none) && none == 0, "a message that was written can't be read");
  require(written(second) == once, "a message changes when it is read and written");
  return left == 0;
}

template <class T>
std::vector<std::string> seeds() {
  T plain{};
  T full = filled<T>();
  return {written(plain), written(full)};
}

} // namespace

void add_control_messages(std::vector<decoder>& to) {
  // CAF itself reads the actor handle in some, and only inside an actor system.
  const auto add = [&]<class T>(std::type_identity<T>, const char* name) {
    if constexpr (!requires(T x) { x.handle; })
      to.push_back({name, decode<T>, seeds<T>});
  };
#define TROUPE_FUZZ_MESSAGE(type) add(std::type_identity<troupe::type>{}, "message " #type);
  TROUPE_MESSAGE_TYPES(TROUPE_FUZZ_MESSAGE)
#undef TROUPE_FUZZ_MESSAGE
}

// --- on links of their own

namespace {

/// The kind (a byte), then the meta.
bool decode_linked(std::string_view input) {
  pieces in{input};
  const auto kind = static_cast<link_kind>(in.byte());
  auto got = decode_link(kind, in.rest());
  if (!got) {
    require(got.error().code == errc::bad_frame, "a message that is refused is a bad frame");
    return false;
  }
  require(is_for_worker(kind) || is_for_coordinator(kind), "a message is for somebody");
  const auto again = encode_link(*got);
  require(again && again->kind == kind && again->bytes == in.rest(),
          "a message changes when it is read and written");
  return true;
}

std::vector<std::string> linked_seeds() {
  std::vector<std::string> out;
  const auto add = [&]<class T>(T x) {
    auto boxed = box(std::move(x));
    auto one = encode_link(boxed);
    require(one.has_value(), "a message travels on links");
    out.push_back(std::string{static_cast<char>(one->kind)} + one->bytes);
  };
  add(filled<admit_worker>());
  add(filled<run_closures>());
  add(filled<recall_closures>());
  add(filled<cancel_closures>());
  add(filled<add_variables>());
  add(filled<make_resources>());
  add(filled<drop_resources>());
  add(filled<variable_answer>());
  add(filled<worker_report>());
  add(filled<request_variable>());
  return out;
}

} // namespace

void add_linked_messages(std::vector<decoder>& to) {
  to.push_back({"link", decode_linked, linked_seeds});
}

} // namespace fuzz
