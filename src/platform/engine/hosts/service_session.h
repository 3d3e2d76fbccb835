// ServiceSession: how far the service of a host and its daemon agree. It numbers the reports, knows
// which answers were carried out, and whether the daemon has the newest facts of the machine. It is
// the other end of HostsEngine (docs/design/host-service.md), and has no thread and no lock.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "map/map.h"
#include "platform/api/host_service_messages.h"

namespace lockstep::engine {

class ServiceSession {
 public:
  // `service`: which start of the service, unique.
  explicit ServiceSession(std::string service) : service_(std::move(service)) {}

  // The next report, without nodes: the caller lists them afterwards. It has facts if the daemon
  // may not have them.
  api::ServiceReport begin_report();
  // The machine has these facts now.
  void set_facts(map::Host facts);
  // The daemon has answered the report.
  void record_answer(const api::ServiceReport& report);
  // The answer to the report. False: its orders are void, because a newer answer was carried out.
  // True: the caller carries them out, and then calls record_orders_done().
  bool begin_orders(const api::ServiceReport& report, const api::ServiceOrders& orders);
  void record_orders_done(const api::ServiceOrders& orders);
  // This daemon has ordered the node, so it needs no launch record of it.
  bool was_ordered(const std::string& node) const { return ordered_.contains(node); }

 private:
  const std::string service_;
  std::int64_t reports_ = 0;
  std::string session_;  // of the daemon; empty: it has not answered yet
  std::int64_t answered_ = 0;
  std::optional<map::Host> facts_;
  bool is_described_ = false;      // the daemon of this session has `facts_`
  std::set<std::string> ordered_;  // nodes, by the daemon of this session
};

}  // namespace lockstep::engine
