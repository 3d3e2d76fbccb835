// Network: carries reports of agents and of host services to the daemon and its answers back, and
// the daemon's calls to the hosts. Messages may be lost, duplicated, late and out of order; hosts
// may be partitioned.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "platform/core/model/command.h"
#include "platform/core/model/event.h"
#include "sim/checks/ground_truth.h"
#include "sim/faults/seeded_random.h"
#include "sim/sim_context.h"

namespace lockstep::sim {

// Chances in percent, independent for each message.
struct NetworkFaults {
  int lost_percent = 0;  // the report or, as often, its answer
  int duplicated_percent = 0;
  int delayed_percent = 0;
};

enum class NetworkPartition { none, reports, answers, both };
constexpr auto enum_names(NetworkPartition) {
  return names<NetworkPartition>({{NetworkPartition::none, "none"},
                                  {NetworkPartition::reports, "words"},
                                  {NetworkPartition::answers, "answers"},
                                  {NetworkPartition::both, "both ways"}});
}

class Network {
 public:
  using Daemon = std::function<Result<model::Command>(const model::NodeReport&)>;
  using OnAnswer = std::function<void(Result<model::Command>)>;

  // A call from a host to the daemon.
  struct Exchange {
    std::string caller;                      // for the trace
    std::function<void()> on_disturbance{};  // a message of it is lost or late
    // At the daemon. The result gives the answer to the caller.
    std::function<std::function<void()>()> handle{};
    std::function<void(Error)> fail{};  // at the caller, which gives up
  };

  Network(SimContext& context, GroundTruth& truth, std::uint64_t seed, Daemon daemon)
      : context_(context), truth_(truth), random_(seed, "network"), daemon_(std::move(daemon)) {}

  // `hear` is called once, later: with the answer, or with an error.
  void call(const std::string& host, const model::NodeReport& report, OnAnswer hear);
  // Likewise for any call: the caller hears once, the answer or an error.
  void exchange(const std::string& host, Exchange exchange);

  void set_faults(NetworkFaults weather) { faults_ = weather; }
  // While it is set, every report arrives and no answer does.
  void set_answers_lost(bool mute) { answers_lost_ = mute; }
  // The daemon hears no agent of these hosts and reaches none of them; its engine does.
  void cut_off(std::set<std::string> hosts) { cut_off_ = std::move(hosts); }
  bool is_cut_off() const { return !cut_off_.empty(); }
  // While it is set, agents give up most calls before the daemon takes them, and the others get
  // their answers late.
  void set_daemon_slow(bool slow) { daemon_is_slow_ = slow; }
  // All messages arrive in time.
  bool is_well() const;
  // True if the daemon reaches the host, for example to start an agent.
  bool can_reach(const std::string& host) const {
    return partition_of(host) == NetworkPartition::none;
  }
  void partition(const std::string& host, NetworkPartition cut) { partitions_[host] = cut; }
  void heal(const std::string& host) { partitions_.erase(host); }

 private:
  using CallId = std::int64_t;

  using SharedExchange = std::shared_ptr<const Exchange>;

  NetworkPartition partition_of(const std::string& host) const;
  Duration delay(const Exchange& exchange);
  Duration track_late_message(Duration delay);
  void drop(const Exchange& exchange, std::string_view what);
  void deliver(CallId call, const std::string& host, const SharedExchange& exchange);
  void answer_later(CallId call, Duration delay, std::function<void()> answer);
  std::function<void()> handle_report(const model::NodeReport& report, const OnAnswer& hear);

  SimContext& context_;
  GroundTruth& truth_;
  SeededRandom random_;
  const Daemon daemon_;
  NetworkFaults faults_;
  bool answers_lost_ = false;
  Duration late_until_{};  // on the timeline: until then late messages are in flight
  std::map<std::string, NetworkPartition> partitions_;
  std::set<std::string> cut_off_;
  bool daemon_is_slow_ = false;
  CallId calls_ = 0;
  std::set<CallId> pending_calls_;  // without an answer yet; removed when the caller gives up
};

}  // namespace lockstep::sim
