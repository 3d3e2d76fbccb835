#include "sim/faults/host_faults.h"

#include <array>
#include <chrono>

namespace lockstep::sim {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

constexpr int kPercentOfHostKinds = 50;  // of them occur in one seed

}  // namespace

std::span<const HostFaults::Kind> HostFaults::kinds() {
  static constexpr std::array<Kind, 7> kKinds = {{
      {"host services restart", minutes(1), &HostFaults::restart_service},
      {"host services stand still", minutes(3), &HostFaults::suspend_service},
      {"the devices of hosts change", minutes(2), &HostFaults::change_devices},
      {"hosts reboot", minutes(3), &HostFaults::reboot},
      {"hosts die for good", minutes(6), &HostFaults::kill_for_good},
      {"hosts are removed", minutes(3), &HostFaults::remove},
      {"hosts are removed as lost", minutes(6), &HostFaults::remove_as_lost},
  }};
  return kKinds;
}

void HostFaults::begin() {
  for (const Kind& kind : kinds()) {
    if (!random_.percent(kPercentOfHostKinds)) continue;
    context_.trace("faults", "in this seed {}, every {} or so", kind.name, text(kind.mean));
    plan(kind);
  }
}

void HostFaults::plan(const Kind& kind) {
  context_.timeline.after(random_.from_to(Duration(0), kind.mean * 2), [this, &kind] {
    if (stopped_) return;
    (this->*kind.strike)();
    plan(kind);
  });
}

void HostFaults::restart_service() {
  const std::string host = any_host();
  if (!hosts_.is_up(host)) return;
  context_.trace("fault", "the service of {} restarts", host);
  joined_.service(host).restart();
}

// The agents there go on, and reach the daemon.
void HostFaults::suspend_service() {
  const std::string host = any_host();
  const Duration duration = random_.from_to(seconds(1), minutes(3));
  context_.trace("fault", "the service of {} stands still for {}", host, text(duration));
  joined_.service(host).suspend(duration);
}

// Runs that have devices there go on, whether these still exist or not.
void HostFaults::change_devices() {
  const std::string host = any_host();
  const auto devices = joined_.some_devices(host);
  context_.trace("fault", "{} has the devices [{}] from now on", host, joined(devices, " "));
  joined_.service(host).set_devices(devices);
}

void HostFaults::crash(const std::string& host) {
  for (const auto& [id, agent] : hosts_.agents())
    if (agent->host() == host) truth_.mark_disturbed(agent->name().attempt());
  hosts_.crash(host);
}

// It has no process when it is back, and maybe other devices.
void HostFaults::reboot() {
  const std::string host = any_host();
  const Duration duration = random_.from_to(seconds(1), minutes(1));
  if (!hosts_.is_up(host)) return;
  context_.trace("fault", "{} reboots, which takes {}", host, text(duration));
  crash(host);
  if (random_.percent(30)) joined_.service(host).set_devices(joined_.some_devices(host));
  context_.timeline.after(duration, [this, host] { hosts_.boot(host); });
}

void HostFaults::kill_for_good() {
  const std::string host = any_host();
  if (!hosts_.is_up(host)) return;
  context_.trace("fault", "{} dies and does not come back", host);
  crash(host);
  joined_.remove_dead(host);
}

// It is refused while a run has devices there.
void HostFaults::remove() {
  joined_.remove(any_host(), false, random_.from_to(Duration(0), minutes(4)));
}

// By mistake: the machine and its agents go on.
void HostFaults::remove_as_lost() {
  joined_.remove(any_host(), true, random_.from_to(Duration(0), minutes(4)));
}

}  // namespace lockstep::sim
