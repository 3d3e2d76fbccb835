// Faults of hosts that join, and removals by operators, chosen by the seed: only in seeds with such
// hosts. As in FaultInjector, each kind comes at its own moments, and each seed has some of them.
#pragma once

#include <span>
#include <string>

#include "sim/world/joined_hosts.h"

namespace lockstep::sim {

class HostFaults {
 public:
  HostFaults(SimContext& context, Hosts& hosts, JoinedHosts& joined, GroundTruth& truth,
             std::uint64_t seed)
      : context_(context),
        hosts_(hosts),
        joined_(joined),
        truth_(truth),
        random_(seed, "host faults") {}

  void begin();
  void stop() { stopped_ = true; }

 private:
  struct Kind {
    const char* name;
    Duration mean;  // between two of them
    void (HostFaults::*strike)();
  };
  static std::span<const Kind> kinds();
  void plan(const Kind& kind);

  void restart_service();
  void suspend_service();
  void change_devices();
  void reboot();
  void kill_for_good();
  void remove();
  void remove_as_lost();

  std::string any_host() { return random_.one_of(hosts_.names()); }
  void crash(const std::string& host);

  SimContext& context_;
  Hosts& hosts_;
  JoinedHosts& joined_;
  GroundTruth& truth_;
  SeededRandom random_;
  bool stopped_ = false;
};

}  // namespace lockstep::sim
