#include "apps/daemon/serve_config.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include "apps/k8s/project_file.h"
#include "base/format.h"
#include "base/os/files.h"
#include "comm/fabric/address/kernel_network.h"
#include "map/discover/discover.h"
#include "map/grid.h"
#include "map/map_file.h"
#include "map/query.h"
#include "net/http/url.h"
#include "net/socket.h"
#include "platform/engine/slurm/slurm_partitions.h"
#include "platform/k8s/volume.h"
#include "platform/k8s/workload.h"
#include "text/convert.h"
#include "text/json.h"

namespace lockstep::cli {
namespace {

// The only engine starts nodes on this machine, whatever the map says of their hosts. So a host's
// address must be this machine's, so that its ranks are reached where they run.
Result<void> check_is_here(const map::ClusterMap& map, const std::string& file) {
  std::set<std::string> known;
  for (const map::Host* host : map::hosts(map)) {
    const std::string& address = map::address_of(*host);
    if (!known.insert(address).second) continue;
    const auto bound = net::Listener::tcp(address, 0);
    if (bound || bound.error().code == Code::exhausted) continue;  // no free port: it is ours
    return Error{Code::invalid,
                 format("{}: the host '{}' is at {}, which is not this machine, and nodes can be "
                        "started on this machine alone; leave the host out, or give it the "
                        "address 127.0.0.1 to have this machine stand for it",
                        file, host->id, address)};
  }
  return {};
}

bool is_ipv6(const std::string& address) { return address.find(':') != std::string::npos; }

bool listens_to_all(const ServeConfig& served) {
  return served.listen == "0.0.0.0" || served.listen == "::";
}

// Addresses of this machine that others reach and on which the daemon listens.
std::vector<std::string> reachable_addresses(const ServeConfig& served) {
  std::vector<std::string> addresses;
  for (const comm::InterfaceAddress& own : comm::KernelNetwork().local_addresses()) {
    const bool of_one_link = own.address.find('%') != std::string::npos;
    const bool reached = is_ipv6(served.listen) || !is_ipv6(own.address);
    if (own.up && !own.loopback && !of_one_link && reached) addresses.push_back(own.address);
  }
  return addresses;
}

bool has_engine(const ServeConfig& served, std::string_view name) {
  const auto names = engine_names(served);
  return std::ranges::find(names, name) != names.end();
}

Result<void> check_engine_names(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (name != "local" && name != "hosts" && name != "slurm" && name != "k8s")
      return Error{
          Code::invalid,
          format("--engine {}: there is none of that name: write local, hosts, slurm or k8s",
                 name)};
    if (std::ranges::count(names, name) > 1)
      return Error{Code::invalid, format("--engine {} is given twice", name)};
  }
  return {};
}

// The file describes this machine, whatever the other engines have.
Result<map::ClusterMap> map_of_file(const std::string& file) {
  map::ClusterMap map = TRY(map::parse_map(TRY(read_file(file)), file));
  for (const map::Pod& pod : map.pods)
    if (!pod.engine.empty() && pod.engine != "local")
      return Error{Code::invalid,
                   format("{}: the pod '{}' has the engine {}; the file is for the hosts of this "
                          "machine: leave the pod out, and give --engine {}",
                          file, pod.name, pod.engine, pod.engine)};
  TRY(check_is_here(map, file));
  return map;
}

// The folder is in one of the volumes.
bool is_mounted(const std::string& folder, const std::vector<std::string>& volumes) {
  return std::ranges::any_of(volumes, [&](const std::string& words) {
    const auto volume = k8s::parse_volume(words);
    return volume && (folder == volume->path || folder.starts_with(volume->path + "/"));
  });
}

Result<void> check_k8s(const ServeConfig& served) {
  const bool has_options = served.kubeconfig || served.context || served.in_namespace ||
                           served.agent_image || served.image || served.device_resource ||
                           served.project_namespaces || served.pod_volumes;
  if (!uses_k8s(served)) {
    if (!has_options) return {};
    return Error{
        Code::invalid,
        "--kubeconfig, --context, --namespace, --project-namespaces, --agent-image, --image, "
        "--device-resource and --pod-volume are for --engine k8s"};
  }
  if (!served.agent_image)
    return Error{Code::invalid,
                 "--engine k8s needs --agent-image IMAGE: an image with this version of Lockstep, "
                 "from which each Pod copies the agent"};
  TRY(project_table(served.project_namespaces));
  TRY(k8s::check_image("--agent-image", *served.agent_image));
  TRY(k8s::check_image("--image", served.image.value_or("")));
  const auto volumes = served.pod_volumes.value_or(std::vector<std::string>());
  for (const std::string& words : volumes)
    if (auto volume = k8s::parse_volume(words); !volume)
      return std::move(volume).error().with_context("--pod-volume");
  if (served.shared && !is_mounted(*served.shared, volumes))
    return Error{Code::invalid,
                 format("--shared {} is in no volume of the Pods: add --pod-volume, such as "
                        "pvc:NAME:{}",
                        *served.shared, *served.shared)};
  return {};
}

}  // namespace

Result<ServeConfig> last_serve_config(const host::Home& home) {
  auto content = read_file(home.served_file());
  if (!content && content.error().code == Code::not_found) return ServeConfig{};
  auto read = [&]() -> Result<ServeConfig> {
    return from_json<ServeConfig>(TRY(parse_json(TRY(content))), UnknownFields::ignore);
  };
  auto served = read();
  if (!served)
    return Error{Code::corrupt,
                 format("{} is damaged ({}), so it is not known which hosts the last daemon had; "
                        "give them again, such as `lockstep serve --hosts 2x2 --detach`, or remove "
                        "the file to serve this machine as it is",
                        home.served_file().string(), served.error().message)};
  return served;
}

std::string serve_config_text(const ServeConfig& served) {
  return dump_json(without_nulls(to_json(served))) + "\n";
}

std::vector<std::string> engine_names(const ServeConfig& served) {
  std::vector<std::string> names;
  std::istringstream words(served.engine.value_or("local"));
  for (std::string name; std::getline(words, name, ',');) names.push_back(name);
  return names;
}

bool uses_this_machine(const ServeConfig& served) { return has_engine(served, "local"); }

bool hosts_join(const ServeConfig& served) { return has_engine(served, "hosts"); }

bool uses_slurm(const ServeConfig& served) { return has_engine(served, "slurm"); }

bool shares_slurm(const ServeConfig& served) { return served.slurm_shared.value_or(false); }
bool uses_k8s(const ServeConfig& served) { return has_engine(served, "k8s"); }

Result<void> check_engines(const ServeConfig& served) {
  const auto names = engine_names(served);
  TRY(check_engine_names(names));
  const bool is_slurm = uses_slurm(served), is_k8s = uses_k8s(served);
  if (!hosts_join(served) && !is_slurm && !is_k8s && served.shared)
    return Error{Code::invalid, "--shared is for --engine hosts, slurm and k8s"};
  TRY(check_k8s(served));
  if (!is_slurm && (served.slurm_partition || served.slurm_account || served.slurm_options ||
                    shares_slurm(served)))
    return Error{Code::invalid,
                 "--slurm-partition, --slurm-account, --slurm-option and --slurm-shared are for "
                 "--engine slurm"};
  if (served.slurm_partition) TRY(engine::parse_slurm_partitions(*served.slurm_partition));
  if (is_slurm && !served.shared)
    return Error{Code::invalid,
                 "--engine slurm needs --shared FOLDER: a folder that this machine and all hosts "
                 "of Slurm share"};
  if (names.size() > 1 && !served.shared)
    return Error{Code::invalid,
                 "several engines need --shared FOLDER: a folder that this machine and all hosts "
                 "share, because the next attempt of a run may start on another engine"};
  if (uses_this_machine(served) || (served.hosts.empty() && served.map_file.empty())) return {};
  return Error{Code::invalid,
               is_slurm ? "--engine slurm has the hosts of Slurm: leave out --hosts and --map"
               : is_k8s ? "--engine k8s has the Nodes of Kubernetes: leave out --hosts and --map"
                        : "--engine hosts has the machines that join: leave out --hosts and --map"};
}

Result<map::ClusterMap> cluster_map(const ServeConfig& served) {
  if (!served.map_file.empty()) return map_of_file(served.map_file);
  map::ClusterMap machine = TRY(map::discover_local());
  if (served.hosts.empty()) return machine;
  return map::split_host(machine, TRY(map::parse_host_grid(served.hosts)));
}

Result<void> check_map(const ServeConfig& served) {
  if (!served.map_file.empty()) TRY(map_of_file(served.map_file));
  if (!served.hosts.empty()) TRY(map::parse_host_grid(served.hosts));
  return {};
}

std::string own_host(const ServeConfig& served) {
  if (!listens_to_all(served)) return served.listen;
  return is_ipv6(served.listen) ? "::1" : "127.0.0.1";
}

std::string network_host(const ServeConfig& served) {
  if (net::is_loopback(served.listen)) return "";
  if (!served.names.empty()) return served.names.front();
  if (!listens_to_all(served)) return served.listen;
  const auto addresses = reachable_addresses(served);
  return addresses.empty() ? "" : addresses.front();
}

bool uses_tls(const ServeConfig& served) {
  return !net::is_loopback(served.listen) && !served.insecure.value_or(false);
}

std::vector<std::string> certificate_names(const ServeConfig& served) {
  std::vector<std::string> names = served.names;
  if (listens_to_all(served)) {
    names.insert(names.end(), {"localhost", "127.0.0.1", "::1"});
    std::ranges::move(reachable_addresses(served), std::back_inserter(names));
  } else {
    names.push_back(served.listen);
  }
  std::ranges::sort(names);
  const auto repeated = std::ranges::unique(names);
  names.erase(repeated.begin(), repeated.end());
  return names;
}

Result<void> check_tls(const ServeConfig& served) {
  const auto refuse = [](std::string words) { return Error{Code::invalid, std::move(words)}; };
  if (served.tls_cert.has_value() != served.tls_key.has_value())
    return refuse("--tls-cert and --tls-key belong together: give both, or neither");
  if (served.tls_cert && served.insecure)
    return refuse("--insecure is plain HTTP, which has no use for --tls-cert: leave out one");
  if (served.tls_cert && net::is_loopback(served.listen))
    return refuse(
        format("on {} the daemon speaks plain HTTP, which only this machine hears; "
               "--tls-cert needs --listen with an address for other machines",
               served.listen));
  return {};
}

Error listen_error(const Error& error, const ServeConfig& served) {
  const bool taken = served.port != 0 && error.code == Code::already_exists;
  const Code code = error.code == Code::exhausted ? error.code : Code::invalid;
  return {code, format("{}; choose another {}", error.message,
                       taken ? "by --port, or 0 for any that is free" : "by --listen")};
}

std::optional<std::string> login_line(const std::string& network_url) {
  if (!network_url.starts_with("https://")) return std::nullopt;
  return format("on other machines type `lockstep login {}`, with --user NAME, --oidc or a token",
                network_url);
}

std::optional<std::string> listen_warning(const ServeConfig& served) {
  if (net::is_loopback(served.listen) && uses_slurm(served))
    return format(
        "on {} the hosts of Slurm cannot reach the daemon, unless they are this machine: start it "
        "with --listen 0.0.0.0, or an address of the network",
        served.listen);
  if (net::is_loopback(served.listen) && uses_k8s(served))
    return format(
        "on {} no Pod can reach the daemon: start it with --listen 0.0.0.0 and --name, "
        "a name that Pods know",
        served.listen);
  if (net::is_loopback(served.listen) || uses_tls(served)) return std::nullopt;
  return format(
      "{} can be reached from other machines, and with --insecure nothing is encrypted: a machine "
      "on the way can read the tokens; use a network that you trust",
      served.listen);
}

}  // namespace lockstep::cli
