// Faults of the daemon and its network that silence many agents at once, and agents that are
// started twice. None of these may cost a run anything.
#include <array>
#include <chrono>
#include <set>
#include <string>

#include "sim/faults/fault_injector.h"

namespace lockstep::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

// After the cut, until all agents have called and their gangs have started.
constexpr Duration kRecoveryTime = minutes(1);

}  // namespace

std::span<const FaultInjector::Kind> FaultInjector::silence_kinds() {
  static constexpr std::array<Kind, 3> kKinds = {{
      {"the daemon is cut off", minutes(6), &FaultInjector::cut_daemon_off},
      {"the daemon is too slow", minutes(6), &FaultInjector::slow_daemon},
      {"an agent is started again elsewhere", minutes(2), &FaultInjector::call_as_second_agent},
  }};
  return kKinds;
}

// Shorter than the time after which even many silent nodes are lost. Its engine has another way to
// the hosts.
void FaultInjector::cut_daemon_off() {
  const auto& names = components_.hosts.names();
  std::set<std::string> hosts(names.begin(), names.end());
  if (silence_random_.percent(50)) hosts.erase(silence_random_.one_of(names));
  const Duration duration = silence_random_.from_to(seconds(5), minutes(9));
  if (components_.network.is_cut_off()) return;
  components_.context.trace("fault", "the daemon is cut off from {} hosts for {}", hosts.size(),
                            text(duration));
  components_.network.cut_off(hosts);
  components_.truth.hosts_cut_off(hosts);
  const std::int64_t cut = ++cuts_;
  undo_after(duration, "the daemon reaches all hosts again", [this, cut] {
    components_.network.cut_off({});
    components_.context.timeline.after(kRecoveryTime, [this, cut] {
      if (cut == cuts_) components_.truth.hosts_cut_off({});
    });
  });
}

// Its loop takes long for each turn: agents give up most of their calls.
void FaultInjector::slow_daemon() {
  const Duration turn = silence_random_.from_to(seconds(3), milliseconds(9500));
  const Duration duration = silence_random_.from_to(seconds(10), minutes(5));
  components_.context.trace("fault", "for {}, each turn of the daemon's loop takes {}",
                            text(duration), text(turn));
  components_.daemon.set_turn_time(turn);
  components_.network.set_daemon_slow(true);
  undo_after(duration, "the daemon is quick again", [this] {
    components_.daemon.set_turn_time(Duration(0));
    components_.network.set_daemon_slow(false);
  });
}

// Another agent calls for the node of an agent that has called. It knows as much as any agent that
// was just started, and must leave.
void FaultInjector::call_as_second_agent() {
  if (components_.hosts.agents().empty()) return;
  const auto agent = silence_random_.one_of(components_.hosts.agents()).second;
  if (!components_.truth.knows_agent(agent->name(), agent->id())) return;
  model::NodeReport report;
  report.node = agent->node();
  report.generation = agent->launch().generation;
  report.address = "elsewhere";
  report.master_port = 1;
  report.rendezvous_port = 2;
  report.agent = {.id = "another", .machine = "elsewhere", .started = Time{}};
  components_.context.trace("fault", "a second agent of {} calls", text(agent->node()));
  const auto answer = components_.daemon.report(report);
  if (answer && answer->kind != model::CommandKind::leave)
    components_.context.report_violation(
        format("a second agent of {} is told to {}", text(agent->node()), text(answer->kind)));
}

}  // namespace lockstep::sim
