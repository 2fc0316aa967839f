#include <troupe/core/exit_code.hpp>

#include <cstdio>

namespace troupe {

exit_code exit_code_of(const failure& why) {
  switch (why.code) {
    case errc::none: return exit_code::ended;
    case errc::bad_config:
    case errc::invalid_argument: return exit_code::usage;
    case errc::unavailable:
    case errc::deadline: // somebody did not answer, or did not come
    case errc::connection_lost:
    case errc::connect_failed:
    case errc::address_in_use:
    case errc::peer_lost:
    case errc::revoked: return exit_code::unavailable;
    case errc::wrong_peer:
    case errc::task_taken:
    case errc::fenced:
    case errc::superseded: return exit_code::refused;
    default: return exit_code::failed;
  }
}

int run_main(const std::function<int()>& body) {
  try {
    return body();
  } catch (const error& e) {
    std::fprintf(stderr, "troupe: %s\n", e.what());
    return static_cast<int>(exit_code_of(e.details()));
  } catch (const std::exception& e) {
    std::fprintf(stderr, "troupe: %s\n", e.what());
    return static_cast<int>(exit_code::failed);
  }
}

} // namespace troupe
