#include <troupe/messages/registration.hpp>

#include <caf/actor_system_config.hpp>
#include <caf/make_message.hpp>

#include <troupe/core/caf_compat.hpp>
#include <troupe/messages/type_ids.hpp>

namespace troupe {

template <class T>
caf::message box(T x) {
  return caf::make_message(std::move(x));
}

#define TROUPE_BOX(type) template caf::message box<type>(type);
TROUPE_MESSAGE_TYPES(TROUPE_BOX)
#undef TROUPE_BOX

void init_messages(caf::actor_system_config& config) {
  config.add_message_types<caf::id_block::troupe>();
}

} // namespace troupe
