#include <troupe/messages/link_codec.hpp>

#include <stdexcept>

#include <caf/make_message.hpp>

#include <cereal/types/string.hpp>
#include <cereal/types/vector.hpp>

#include <troupe/core/payload.hpp>
#include <troupe/messages/admission.hpp>
#include <troupe/messages/closures.hpp>
#include <troupe/messages/resources.hpp>
#include <troupe/messages/variables.hpp>

// Every message that travels, in one list: the order of the questions that `encode_link` asks.
#define TROUPE_LINK_MESSAGES(apply)                                                      \
  apply(run_closures) apply(worker_report) apply(recall_closures) apply(cancel_closures) \
    apply(admit_worker) apply(add_variables) apply(make_resources) apply(drop_resources) \
      apply(variable_answer) apply(request_variable)

namespace troupe {

namespace {

template <class T>
std::string write(caf::message& what) {
  plain_writer out;
  out(what.get_mutable_as<T>(0));
  return std::move(out.out.bytes);
}

template <class T>
result<caf::message> read(std::string_view bytes, const char* name) {
  try {
    T x{};
    checked_reader in{bytes};
    in(x);
    if (in.rest_bytes() == 0)
      return box(std::move(x));
    return make_failure(errc::bad_frame,
                        std::string{name} + ": " + std::to_string(in.rest_bytes()) + " bytes left");
  } catch (const std::length_error& e) {
    return make_failure(errc::bad_frame, std::string{name} + ": " + e.what());
  }
}

} // namespace

std::optional<link_message> encode_link(caf::message& what) {
#define TROUPE_ENCODE(type)        \
  if (what.match_elements<type>()) \
    return link_message{link_kind::type, write<type>(what)};
  TROUPE_LINK_MESSAGES(TROUPE_ENCODE)
#undef TROUPE_ENCODE
  return {};
}

result<caf::message> decode_link(link_kind kind, std::string_view bytes) {
  switch (kind) {
#define TROUPE_DECODE(type) \
  case link_kind::type: return read<type>(bytes, #type);
    TROUPE_LINK_MESSAGES(TROUPE_DECODE)
#undef TROUPE_DECODE
    default: break;
  }
  return make_failure(errc::bad_frame, "link: kind " + std::to_string(static_cast<unsigned>(kind))
                                         + " is not an actor message");
}

} // namespace troupe
