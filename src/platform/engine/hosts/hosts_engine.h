// HostsEngine: agents on own machines, each with a host service that calls the daemon
// (docs/design/host-service.md). It keeps the last report of each host, and the orders that the
// reports do not confirm yet. It has no thread: all calls come from the daemon's.
//
// A host that has not reported to this object, or is silent, is unavailable.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/steady_clock.h"
#include "platform/api/host_service_messages.h"
#include "platform/engine/engine.h"

namespace lockstep::engine {

class HostsEngine : public Engine {
 public:
  struct Setup {
    const SteadyClock& steady;  // both outlive the engine
    const Clock& clock;
    std::string session;      // which start of the daemon: unique
    Duration silent_after{};  // a host that has not reported for so long is unavailable
    std::optional<api::SharedFolder> shared{};  // a host takes no node until it sees this folder
  };
  explicit HostsEngine(Setup setup) : setup_(std::move(setup)) {}

  std::string_view name() const override { return "hosts"; }
  void submit(Gang gang) override;
  void kill(const model::NodeName& node) override;
  Result<EngineList> list() override;

  // The host has proven its credential. False: the report changes nothing, because it is older than
  // one before, or was made before its service heard of this session. The next answer tells it.
  bool take(const std::string& host, const api::ServiceReport& report);
  // The facts of a report that counts are stored; or why they are not. A host takes no node before
  // its service has reported facts to this object and they are stored.
  void record_facts(const std::string& host, const Result<void>& stored);
  // The host gets an answer: all orders that it has not confirmed.
  api::ServiceOrders orders(const std::string& host);
  // There is an order that no answer had yet; or the host does not know the session.
  bool has_new_orders(const std::string& host) const;
  // Called when that becomes true.
  void on_new_orders(std::function<void(const std::string& host)> callback) {
    on_new_orders_ = std::move(callback);
  }
  // It was removed; its nodes are gone.
  void forget(const std::string& host);
  // An operator says that its machine is off: its nodes are gone, and it cannot be asked until it
  // reports again.
  void presume_dead(const std::string& host);
  // The last one; null: none since the daemon's start.
  const api::HostInventory* inventory(const std::string& host) const;

 private:
  struct StartRequest {
    api::StartOrder order;
    std::int64_t sent_in = 0;  // the first answer with it; 0: none
  };
  struct Host {
    bool is_new = false;  // it has called, and no answer has told it the session
    std::string service;  // which start of it; empty: none has called in this session
    bool presumed_dead = false;
    std::int64_t answered = 0;  // the highest that a report had
    std::int64_t number = 0;    // of its last report
    Duration heard{};           // by the steady clock
    Time heard_at{};
    std::optional<Duration> listed{};  // by the steady clock: when it last knew its nodes
    std::string nodes_error{};         // why it does not know them now
    std::string problem{};             // why it takes no node; empty: it does
    std::string facts_problem{};       // likewise, since its facts are not stored
    std::map<model::NodeName, ListedNode> nodes{};
    std::optional<api::HostInventory> inventory{};
    std::map<model::NodeName, StartRequest> starts{};
    std::map<model::NodeName, std::int64_t> kills{};  // with the first answer that had it; 0: none
    std::int64_t answers = 0;
  };

  static bool take_nodes(Host& host, const api::ServiceReport& report);
  static void confirm(Host& host, std::int64_t answered);
  bool is_silent(const Host& host) const;
  std::string why_unavailable(const Host& host) const;
  static std::string why_unfit(const Host& host);
  std::string problem_of(const api::ServiceReport& report) const;
  std::string why_not_shared(const std::optional<api::SharedFolder>& seen) const;
  void announce(const std::string& host) const;

  const Setup setup_;
  std::map<std::string, Host> hosts_;  // that have called, or have orders
  std::function<void(const std::string&)> on_new_orders_;
};

}  // namespace lockstep::engine
