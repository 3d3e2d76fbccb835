#include "platform/engine/local/local_engine.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include <sys/random.h>

#include "base/format.h"
#include "base/log.h"
#include "base/os/cgroup.h"
#include "base/os/files.h"
#include "platform/host/home.h"

namespace lockstep::engine {
namespace {

using std::filesystem::path;

std::string random_name() {
  std::uint64_t number = 0;
  LS_CHECK(::getrandom(&number, sizeof number, 0) == sizeof number);
  return format("{:016x}", number);
}

Result<std::string> installation_of(const path& home) {
  TRY(make_folders(home));
  const path file = host::Home{home}.installation_file();
  auto name = read_file(file);
  if (name && !name->empty()) return name;
  if (!name && name.error().code != Code::not_found) return name;
  std::string fresh = random_name();
  TRY(write_file(file, fresh));
  return fresh;
}

// None, with a warning: this process may not limit what nodes use.
std::optional<CgroupFolder> cgroups_of(const std::string& installation) {
  auto folder = CgroupFolder::open(kCgroupRoot, "lockstep/" + installation);
  if (!folder) {
    LS_LOG(warning, "nodes have no limits of memory, CPU and processes: {}",
           folder.error().message);
    return std::nullopt;
  }
  if (const auto missing = folder->missing(); !missing.empty())
    LS_LOG(warning, "nodes have no limits of {}: the kernel has no such control groups",
           joined(missing, ", "));
  return *std::move(folder);
}

}  // namespace

LocalEngine::LocalEngine(AgentProgram program, const path& node_home, std::string installation,
                         const AccountOf& account_of)
    : installation_(std::move(installation)),
      worker_({.program = std::move(program),
               .home = node_home,
               .installation = installation_,
               .account_of = account_of,
               .cgroups = account_of ? cgroups_of(installation_) : std::nullopt}) {}

Result<std::unique_ptr<LocalEngine>> LocalEngine::open(AgentProgram program, const path& home,
                                                       const AccountOf& account_of,
                                                       const path& node_home) {
  std::string installation = TRY(installation_of(home));
  return std::unique_ptr<LocalEngine>(new LocalEngine(std::move(program),
                                                      node_home.empty() ? home : node_home,
                                                      std::move(installation), account_of));
}

Result<EngineList> LocalEngine::list() { return EngineList{.nodes = TRY(worker_.list())}; }

}  // namespace lockstep::engine
