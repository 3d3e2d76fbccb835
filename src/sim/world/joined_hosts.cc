#include "sim/world/joined_hosts.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "map/query.h"

namespace lockstep::sim {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

constexpr Duration kJoinInterval = seconds(7);  // between two looks at what must join
constexpr Duration kFirstJoinMax = minutes(10);
constexpr int kPercentAtOnce = 60;               // of the machines that join at the beginning
constexpr Duration kLostAfterMin = seconds(20);  // until an operator gives a dead machine up
constexpr Duration kLostAfterMax = minutes(8);
constexpr Duration kReplacedAfterMax = minutes(5);

}  // namespace

JoinedHosts::JoinedHosts(const JoinedComponents& components, const map::ClusterMap& map,
                         std::uint64_t seed)
    : components_(components), random_(seed, "joined hosts") {
  const auto report = [this](const std::string& host, int credential,
                             const api::ServiceReport& made) {
    return components_.daemon.take_host_report(components_.engine.of_daemon(), host, credential,
                                               made);
  };
  for (std::size_t pod = 0; pod < map.pods.size(); ++pod)
    for (const map::Host* host : map::hosts(map.pods[pod])) {
      Machine& machine = machines_[host->id];
      machine.pod = format("pod-{}", pod);
      machine.devices.resize(map::device_count(*host));
      std::iota(machine.devices.begin(), machine.devices.end(), 0);
      services_.try_emplace(host->id,
                            HostService::ServiceComponents{components_.context, components_.network,
                                                           components_.hosts, components_.truth,
                                                           components_.faults, report},
                            host->id, machine.devices, seed);
    }
}

void JoinedHosts::begin() {
  for (auto& [host, machine] : machines_) {
    services_.at(host).begin();
    if (random_.percent(30)) services_.at(host).set_devices(some_devices(host));
    if (!random_.percent(kPercentAtOnce))
      machine.out_until = random_.from_to(Duration(0), kFirstJoinMax);
  }
  keep_joined();
}

void JoinedHosts::come_to_rest() {
  at_rest_ = true;
  for (auto& [host, machine] : machines_) {
    HostService& service = services_.at(host);
    service.resume();
    service.set_devices(machine.devices);
    machine.out_until = Duration(0);
  }
}

void JoinedHosts::keep_joined() {
  for (const auto& [host, machine] : machines_) {
    const HostService& service = services_.at(host);
    if (service.is_up() && !service.is_member() &&
        components_.context.timeline.now() >= machine.out_until)
      join(host);
  }
  components_.context.timeline.after(kJoinInterval, [this] { keep_joined(); });
}

// With a new token, unless the answer to the last call with one was lost.
void JoinedHosts::join(const std::string& host) {
  Machine& machine = machines_.at(host);
  if (!components_.network.can_reach(host)) return;
  if (!machine.token) {
    const auto row = components_.durable.hosts.find(host);
    machine.token = row == components_.durable.hosts.end() ? 0 : row->second.credential;
    machine.claim = format("{:064x}", ++claims_);
  }
  const auto joined = components_.daemon.change(model::AdmitHost{.host = host,
                                                                 .pod = machine.pod,
                                                                 .credential = *machine.token,
                                                                 .claim = machine.claim,
                                                                 .machine = "machine of " + host});
  components_.context.trace("operator", "lets {} join{}{}", host, joined ? "" : ": ",
                            joined ? "" : joined.error().message);
  if (joined) services_.at(host).join(*machine.token + 1);
  if (joined || joined.error().code == Code::denied) machine.token.reset();
}

bool JoinedHosts::remove(const std::string& host, bool lost, Duration pause) {
  const auto removed = components_.daemon.remove_host(components_.engine.of_daemon(),
                                                      model::RemoveHost{host, "ann", lost});
  components_.context.trace("operator", "removes {}{}{}{}", host, lost ? " as lost" : "",
                            removed ? "" : ": ", removed ? "" : removed.error().message);
  if (!removed) return false;
  machines_.at(host).out_until = components_.context.timeline.now() + pause;
  return true;
}

void JoinedHosts::remove_dead(const std::string& host) {
  components_.context.timeline.after(random_.from_to(kLostAfterMin, kLostAfterMax), [this, host] {
    if (at_rest_) return;
    if (!remove(host, true, Duration(0))) return remove_dead(host);
    components_.context.timeline.after(
        random_.from_to(Duration(0), kReplacedAfterMax), [this, host] {
          components_.context.trace("operator", "puts another machine in the place of {}", host);
          components_.hosts.boot(host);
          services_.at(host).set_devices(some_devices(host));
        });
  });
}

std::vector<int> JoinedHosts::some_devices(const std::string& host) {
  std::vector<int> devices = machines_.at(host).devices;
  if (at_rest_) return devices;
  for (int fewer = random_.below(static_cast<int>(devices.size())); fewer > 0; --fewer)
    devices.erase(devices.begin() + random_.below(static_cast<int>(devices.size())));
  return devices;
}

bool JoinedHosts::is_well() const {
  return std::ranges::all_of(components_.durable.hosts, [&](const auto& entry) {
    const auto& [id, row] = entry;
    if (!model::has_joined(row)) return true;
    const HostService& service = services_.at(id);
    return service.is_up() && service.is_member() && service.is_heard() && row.unavailable.empty();
  });
}

}  // namespace lockstep::sim
