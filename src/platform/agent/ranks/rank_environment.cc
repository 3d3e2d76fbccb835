#include "platform/agent/ranks/rank_environment.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "base/format.h"
#include "base/os/environment.h"
#include "net/http/url.h"
#include "platform/host/node_files.h"

namespace lockstep::agent {
namespace {

// An empty list hides the GPUs from a run that asks for that.
bool hides_gpus(const std::map<std::string, std::string>& env) {
  const auto set = env.find("CUDA_VISIBLE_DEVICES");
  return set != env.end() && set->second.empty();
}

// The numbers are by PCI address, which is not CUDA's order without CUDA_DEVICE_ORDER. Numbers and
// UUIDs do not mix in one list.
void set_cuda_devices(const host::LaunchSpec& launch, Environment& result) {
  if (!launch.gpus) return;
  result["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID";
  if (!hides_gpus(launch.env))
    result["CUDA_VISIBLE_DEVICES"] = launch.device_uuids.size() == launch.devices.size()
                                         ? joined(launch.device_uuids, ",")
                                         : joined(launch.devices, ",");
}

// So that ranks find `lockstep` on a host of whose folders the submitter's PATH knows nothing.
std::string with_own_program(const std::string& path) {
  std::error_code failed;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", failed);
  if (failed) return path;
  const std::string folder = program.parent_path().string();
  const bool is_there = format(":{}:", path).find(format(":{}:", folder)) != std::string::npos;
  return is_there ? path : format("{}:{}", path, folder);
}

// Before the folders of the user, so that its modules replace installed ones.
void add_stand_ins(const std::string& folder, Environment& result) {
  if (folder.empty()) return;
  std::string& path = result["PYTHONPATH"];
  path = path.empty() ? folder : format("{}:{}", folder, path);
}

void set_nccl_network(const NcclNetwork& network, Environment& result) {
  if (network.plugin.empty()) return;
  result["NCCL_NET_PLUGIN"] = network.plugin;
  // Else a fork, as by a DataLoader, corrupts memory that EFA's driver has registered.
  if (network.provider == "efa") result.emplace("FI_EFA_FORK_SAFE", "1");
}

}  // namespace

Environment base_environment() {
  Environment base = own_environment();
  std::erase_if(base, [](const auto& variable) {
    return !is_user_variable(variable.first) && !is_node_variable(variable.first);
  });
  base["TERM"] = "dumb";
  return base;
}

Environment user_environment(const host::LaunchSpec& launch, Environment base) {
  for (const auto& [name, value] : launch.env) base[name] = value;
  base["PATH"] = with_own_program(search_path(base));
  return base;
}

Environment rank_environment(const host::LaunchSpec& launch, const model::NodeId& node,
                             int local_rank, const RankLaunchInfo& info, Environment user) {
  Environment result = std::move(user);
  // Ranks share the cores; each library would use all of them.
  if (!launch.env.contains("OMP_NUM_THREADS")) result["OMP_NUM_THREADS"] = "1";
  if (!launch.env.contains("LOCKSTEP_FABRIC_PROVIDER")) result["LOCKSTEP_FABRIC_PROVIDER"] = "tcp";
  // Gloo would listen on the network, without a secret.
  if (net::is_loopback(launch.address) && !launch.env.contains("GLOO_SOCKET_IFNAME"))
    result["GLOO_SOCKET_IFNAME"] = "lo";
  // The address by which other hosts reach this one in the map, unless the user names an interface.
  if (!launch.env.contains("LOCKSTEP_INTERFACE")) result["LOCKSTEP_ADDRESS"] = launch.address;
  if (!launch.env.contains("LOCKSTEP_FLIGHT_DIR"))
    result["LOCKSTEP_FLIGHT_DIR"] = info.flight_folder;
  // A rank's `lockstep` commands talk to the daemon of its own run.
  if (!launch.env.contains("LOCKSTEP_HOME"))
    result["LOCKSTEP_HOME"] = std::filesystem::path(launch.daemon_file).parent_path().string();
  set_cuda_devices(launch, result);
  add_stand_ins(info.stand_ins, result);
  // `user` has the node's own setting. "=": exactly this name, where NCCL takes a prefix otherwise.
  if (!info.socket_interface.empty() && !result.contains("NCCL_SOCKET_IFNAME"))
    result["NCCL_SOCKET_IFNAME"] = "=" + info.socket_interface;
  set_nccl_network(info.nccl_network, result);

  result["RANK"] = format("{}", launch.first_rank + local_rank);
  result["LOCAL_RANK"] = format("{}", local_rank);
  result["WORLD_SIZE"] = format("{}", launch.world_size);
  result["LOCAL_WORLD_SIZE"] = format("{}", launch.devices.size());
  result["GROUP_RANK"] = format("{}", node.index);
  result["MASTER_ADDR"] = info.master_address;
  result["MASTER_PORT"] = format("{}", info.master_port);
  if (info.store_port)
    result["LOCKSTEP_TORCH_STORE"] =
        format("{} {} {}", info.master_address, info.master_port, info.store_port);

  result["LOCKSTEP_STORE"] = launch.generation;
  result["LOCKSTEP_RUN"] = text(node.attempt.run);
  result["LOCKSTEP_ATTEMPT"] = text(node.attempt);
  result["LOCKSTEP_EPOCH"] = format("{}", node.attempt.epoch);
  result["LOCKSTEP_NODE"] = format("{}", node.index);
  result["LOCKSTEP_HOST_ID"] = launch.host;
  result["LOCKSTEP_SECRET_FILE"] = info.secret_file;
  result["LOCKSTEP_RENDEZVOUS"] = info.rendezvous;
  result["LOCKSTEP_REPORT"] = info.report_socket;
  result["LOCKSTEP_PROFILE_DIR"] = info.profile_folder;
  if (launch.on_failure != model::OnFailure::restart)
    result["LOCKSTEP_ON_FAILURE"] = std::string(name_of(launch.on_failure));
  if (info.is_restart) result["LOCKSTEP_REPLACES"] = "1";
  result["LOCKSTEP_CHECKPOINT_DIR"] = launch.checkpoint_folder;
  if (launch.host_checkpoints) result["LOCKSTEP_HOST_CHECKPOINTS"] = "1";
  result[std::string(host::kNodeToken)] = info.token;
  return result;
}

}  // namespace lockstep::agent
