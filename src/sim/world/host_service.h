// HostService: the service of a machine that joins, on the simulated network. It reports every
// second, starts and ends nodes as the answers order, and has what the real service has
// (platform/host_service): a credential on its disk, and the session of its daemon in memory.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "platform/api/host_service_messages.h"
#include "platform/engine/hosts/service_session.h"
#include "sim/checks/ground_truth.h"
#include "sim/faults/network.h"
#include "sim/faults/seeded_random.h"
#include "sim/world/engine_faults.h"
#include "sim/world/hosts.h"

namespace lockstep::sim {

class HostService {
 public:
  // The daemon's end of a report, with the number of the credential.
  using Daemon = std::function<Result<api::ServiceOrders>(const std::string& host, int credential,
                                                          const api::ServiceReport& report)>;
  struct ServiceComponents {
    SimContext& context;
    Network& network;
    Hosts& hosts;
    GroundTruth& truth;
    const EngineFaults& faults;
    Daemon daemon;
  };

  HostService(const ServiceComponents& components, std::string host, std::vector<int> devices,
              std::uint64_t seed);

  // It lives from now on, whenever its machine is up.
  void begin();
  // Another start of it: agents go on.
  void restart();
  // It neither reports nor carries out orders until then.
  void suspend(Duration duration);
  void resume() { suspended_until_ = Duration(0); }
  // The machine has these devices from now on, by their numbers.
  void set_devices(std::vector<int> numbers);
  // It has joined with a credential of this number.
  void join(int credential);

  const std::string& host() const { return host_; }
  const std::vector<int>& devices() const { return devices_; }
  bool is_up() const { return components_.hosts.is_up(host_); }
  // It has a credential, and no call with it was refused.
  bool is_member() const { return credential_.has_value(); }
  // The daemon has answered its call within the last seconds.
  bool is_heard() const;

 private:
  bool is_suspended() const;
  void tick();
  void call();
  api::ServiceReport make_report();
  void take_answer(const api::ServiceReport& report, const Result<api::ServiceOrders>& answer);
  void carry_out(const api::ServiceReport& report, const api::ServiceOrders& orders);
  void start(const host::LaunchSpec& launch);
  std::optional<std::string> why_refused(const host::LaunchSpec& launch) const;
  bool has_devices(const std::vector<int>& numbers) const;

  // Acts later, unless the service has ended meanwhile.
  void after(Duration delay, std::function<void()> act);

  const ServiceComponents components_;
  const std::string host_;
  SeededRandom random_;
  std::vector<int> devices_;
  std::optional<int> credential_;
  Duration suspended_until_{};  // on the timeline, likewise the others
  Duration heard_{-1};

  // These end with the service:
  int starts_ = 0;  // of the service
  int boots_ = 0;   // of its machine
  std::optional<engine::ServiceSession> session_;
  int calls_ = 0;                                   // that have no answer yet
  std::map<model::NodeName, std::string> refused_;  // nodes that could not be started
};

}  // namespace lockstep::sim
