#include "platform/agent/ranks/nccl_network.h"

#include <set>
#include <system_error>

#include "base/format.h"

namespace lockstep::agent {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLibrary = "libnccl-net-lockstep.so";
constexpr const char* kSystemFolder = "/usr/lib";

// "efa", "mlx5_core": the drivers of the devices with verbs.
std::set<std::string> rdma_drivers(const fs::path& classes) {
  std::set<std::string> drivers;
  std::error_code failed;
  for (const auto& device : fs::directory_iterator(classes / "infiniband", failed)) {
    const auto driver = fs::read_symlink(device.path() / "device" / "driver", failed);
    drivers.insert(failed ? "unknown" : driver.filename().string());
  }
  return drivers;
}

bool has_slingshot(const fs::path& classes) {
  std::error_code failed;
  const fs::directory_iterator devices(classes / "cxi", failed);
  return !failed && devices != fs::directory_iterator();
}

// The dynamic loader finds it by its name in the system's folder, elsewhere by its path only.
std::string name_for_nccl(const fs::path& library) {
  return library.string().starts_with(kSystemFolder) ? "lockstep" : library.string();
}

}  // namespace

NcclNetwork choose_nccl_network(const Environment& user, const fs::path& library,
                                const fs::path& classes) {
  for (const char* name : {"NCCL_NET_PLUGIN", "NCCL_NET"})
    if (const auto set = user.find(name); set != user.end())
      return {"", "", format("the run or the node sets {}={}", name, set->second)};
  auto drivers = rdma_drivers(classes);
  const bool has_efa = drivers.erase("efa") > 0;
  if (!drivers.empty())
    return {"", "", format("NCCL uses its own network: it serves {}", joined(drivers, ", "))};
  if (!has_efa && !has_slingshot(classes))
    return {"", "", "NCCL uses its own network: the host has none that NCCL lacks"};
  const std::string provider = has_efa ? "efa" : "cxi";
  std::error_code failed;
  if (!fs::exists(library, failed))
    return {"", "",
            format("NCCL uses its own sockets, not {}: {} is missing", provider, library.string())};
  return {name_for_nccl(library), provider,
          format("NCCL uses {} through {}", provider, library.string())};
}

NcclNetwork own_nccl_network_of_container() {
  return {"", "", "NCCL_NET_PLUGIN is not set: the container does not see Lockstep's plugin"};
}

fs::path nccl_plugin_library() {
  std::error_code failed;
  const auto program = fs::read_symlink("/proc/self/exe", failed);
  return program.parent_path().parent_path() / "lib" / kLibrary;
}

}  // namespace lockstep::agent
