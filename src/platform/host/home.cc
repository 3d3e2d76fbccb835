#include "platform/host/home.h"

#include <cstdlib>

#include "base/file_lock.h"
#include "base/files.h"
#include "text/convert.h"
#include "text/json.h"

namespace lockstep {

Result<Home> Home::find() {
  auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::filesystem::path(value == nullptr ? "" : value);
  };
  if (auto chosen = variable("LOCKSTEP_HOME"); !chosen.empty())
    return Home{std::filesystem::absolute(chosen)};
  if (auto state = variable("XDG_STATE_HOME"); !state.empty())
    return Home{std::filesystem::absolute(state / "lockstep")};
  if (auto home = variable("HOME"); !home.empty())
    return Home{std::filesystem::absolute(home / ".local/state/lockstep")};
  return Error{Code::invalid,
               "neither LOCKSTEP_HOME nor HOME is set; set LOCKSTEP_HOME to a folder"};
}

bool is_served(const Home& home) { return is_locked(home.lock_file()); }

Result<DaemonFile> read_daemon_file(const std::filesystem::path& path) {
  std::string content = TRY(read_file(path));
  // The daemon may be newer than who looks for it.
  return from_json<DaemonFile>(TRY(parse_json(content)), Unknown::passed_over);
}

Result<void> write_daemon_file(const std::filesystem::path& path, const DaemonFile& file) {
  return write_file(path, dump_json(to_json(file)) + "\n");
}

}  // namespace lockstep
