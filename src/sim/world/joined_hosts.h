// JoinedHosts: the machines of a cluster whose hosts join, and the operators that make them join
// and remove them. Machines join one after another; each that is up and has no valid credential
// joins again after a while.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/world/daemon.h"
#include "sim/world/host_service.h"
#include "sim/world/joined_engine.h"

namespace lockstep::sim {

class JoinedHosts {
 public:
  struct JoinedComponents {
    SimContext& context;
    CrashPoints& crash_points;
    Daemon& daemon;
    JoinedEngine& engine;
    Network& network;
    Hosts& hosts;
    GroundTruth& truth;
    const EngineFaults& faults;
    const model::State& durable;
  };
  // The machines are those of the map.
  JoinedHosts(const JoinedComponents& components, const map::ClusterMap& map, std::uint64_t seed);

  void begin();
  // Operators remove no more hosts; each machine has all its devices, and joins.
  void come_to_rest();

  // An operator removes the host; a machine with that name may join again after `pause`. False: the
  // daemon refuses it or does not answer.
  bool remove(const std::string& host, bool lost, Duration pause);
  // A machine that has died for good; it is removed as lost after a while.
  void remove_dead(const std::string& host);
  HostService& service(const std::string& host) { return services_.at(host); }
  // Some of the devices of the machine, at least one.
  std::vector<int> some_devices(const std::string& host);
  // The daemon hears all hosts that have joined.
  bool is_well() const;

 private:
  struct Machine {
    std::string pod;
    std::vector<int> devices;    // all that it has at times
    Duration out_until{};        // on the timeline: it does not join before
    std::optional<int> token{};  // of its next join: the number of the credential
    std::string claim{};         // of that join
  };
  void keep_joined();
  void join(const std::string& host);

  const JoinedComponents components_;
  SeededRandom random_;
  std::map<std::string, Machine> machines_;
  std::map<std::string, HostService> services_;
  int claims_ = 0;
  bool at_rest_ = false;
};

}  // namespace lockstep::sim
