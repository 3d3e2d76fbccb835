// Messages about waiting runs, allocations and dry runs; see messages.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "platform/core/model/attempt.h"
#include "platform/core/model/operator_rows.h"
#include "platform/core/model/run.h"
#include "text/record.h"

namespace lockstep::api {

struct QueueQuery {
  int limit = 1000;

  static constexpr auto fields() {
    return record<QueueQuery>(
        between(1, 10'000,
                field("limit", &QueueQuery::limit, "the greatest number of entries in each list")));
  }
};

struct WaitingView {
  std::string run;
  std::string name;
  std::string user;
  model::RunClass run_class = model::RunClass::normal;
  int priority = 0;
  int nodes = 1;
  int devices = 1;
  Duration timeout{};
  Time since{};
  std::string reason;
  std::optional<std::string> blocker;
  std::optional<Time> expected_start;
  bool reserved = false;
  std::optional<Time> latest_start;
  bool held = false;

  static constexpr auto fields() {
    return record<WaitingView>(
        field("run", &WaitingView::run, "its id"),
        field("name", &WaitingView::name, "what people call it"),
        field("user", &WaitingView::user, "the user who submitted it"),
        field("class", &WaitingView::run_class, "its class"),
        field("priority", &WaitingView::priority, "among the runs of its project"),
        field("nodes", &WaitingView::nodes, "hosts that it needs"),
        field("devices", &WaitingView::devices, "devices on each"),
        field("timeout", &WaitingView::timeout, "what is left of its time-out"),
        field("since", &WaitingView::since, "when it came into the queue"),
        field("reason", &WaitingView::reason, "why it waits, one line"),
        field("blocker", &WaitingView::blocker, "the run that must end or start first"),
        field("expected_start", &WaitingView::expected_start,
              "an estimate: when it starts if all run as long as they may and none passes "
              "another; absent: there is no estimate"),
        field("reserved", &WaitingView::reserved,
              "its devices are reserved at the expected start: no run behind it delays it"),
        field(
            "latest_start", &WaitingView::latest_start,
            "it starts no later as long as nothing is submitted that may pass it, no time limit is "
            "lengthened, no run is interrupted and no host leaves; absent: there is no such bound"),
        field("held", &WaitingView::held, "it does not start until it is released"));
  }
};

struct AllocationView {
  std::string run;
  std::string name;
  std::vector<std::string> hosts;
  int devices = 0;
  Time since{};
  Time expected_end{};
  std::string leaves;

  static constexpr auto fields() {
    return record<AllocationView>(
        field("run", &AllocationView::run, "its id"),
        field("name", &AllocationView::name, "what people call it"),
        field("hosts", &AllocationView::hosts, "where it holds devices"),
        field("devices", &AllocationView::devices, "devices on each"),
        field("since", &AllocationView::since, "when its attempt was placed"),
        field("expected_end", &AllocationView::expected_end,
              "by its time-out; past: it may end at any moment"),
        field("leaves", &AllocationView::leaves,
              "why it is giving its devices back; empty: it is not"));
  }
};

struct QueueView {
  Time time{};
  std::vector<WaitingView> waiting;
  std::vector<AllocationView> allocations;
  std::int64_t left_out = 0;
  std::vector<std::string> problems = {};
  std::vector<std::string> notices = {};

  static constexpr auto fields() {
    return record<QueueView>(
        field("time", &QueueView::time, "of the daemon's clock"),
        field("waiting", &QueueView::waiting,
              "in the order in which they stand; behind them those that wait for something else "
              "than devices"),
        field("allocations", &QueueView::allocations,
              "the runs that hold devices, in the order of their ends"),
        field("left_out", &QueueView::left_out, "runs that the limit left out"),
        field("problems", &QueueView::problems,
              "what goes wrong in the daemon just now, a line for each cause"),
        field("notices", &QueueView::notices, "what operators should know, a line each"));
  }
};

struct PlacementView {
  std::string host;
  std::vector<int> devices;

  static constexpr auto fields() {
    return record<PlacementView>(
        field("host", &PlacementView::host,
              "the host's id in the map; empty: the engine will choose it"),
        field("devices", &PlacementView::devices,
              "by their place on the host; without a host only their number counts"));
  }
};

struct PreemptedView {
  std::string run;
  model::Cause cause = model::Cause::none;
  std::string from;
  std::vector<PlacementView> to;

  static constexpr auto fields() {
    return record<PreemptedView>(
        field("run", &PreemptedView::run, "its id"),
        field("cause", &PreemptedView::cause, "moved, paused or evicted"),
        field("from", &PreemptedView::from, "its host; of several the first"),
        field("to", &PreemptedView::to, "where it would go, if it were moved"));
  }
};

// Result of a dry run: what would happen to a run if it were submitted now.
struct PlanView {
  bool starts = false;
  std::vector<PlacementView> places;
  std::string reason;
  std::optional<std::string> blocker;
  std::optional<Time> expected_start;
  std::optional<Time> latest_start;
  std::int64_t runs_ahead = 0;
  std::vector<PreemptedView> preempted;
  std::optional<std::vector<std::string>> ignored{};
  double cost_minutes = 0;
  std::optional<double> available_minutes{};

  static constexpr auto fields() {
    return record<PlanView>(
        field("starts", &PlanView::starts, "at once"),
        field("places", &PlanView::places, "where, if it starts at once"),
        field("reason", &PlanView::reason, "why it would wait"),
        field("blocker", &PlanView::blocker, "the run that would have to end or start first"),
        field("expected_start", &PlanView::expected_start,
              "an estimate: when it would start if all run as long as they may and none passes "
              "another; absent: there is no estimate"),
        field(
            "latest_start", &PlanView::latest_start,
            "it would start no later as long as nothing is submitted that may pass it, no time "
            "limit is "
            "lengthened, no run is interrupted and no host leaves; absent: there is no such bound"),
        field("runs_ahead", &PlanView::runs_ahead, "how many would stand before it"),
        field("preempted", &PlanView::preempted,
              "runs that would be asked to leave their devices for it, and go on later"),
        field("ignored", &PlanView::ignored,
              "sections of the run for other engines than the daemon's; absent: none"),
        field("cost_minutes", &PlanView::cost_minutes,
              "weighted device-minutes if it runs until its time limit"),
        field("available_minutes", &PlanView::available_minutes,
              "what the budget of its project has for it; absent: the project has none"));
  }
};

struct HoldRequest {
  std::string by;
  std::string reason;

  static constexpr auto fields() {
    return record<HoldRequest>(
        field("by", &HoldRequest::by, "ignored: the user is that of the token"),
        field("reason", &HoldRequest::reason, "why; shown with the run"));
  }
};

struct ReleaseRequest {
  std::string by;

  static constexpr auto fields() {
    return record<ReleaseRequest>(
        field("by", &ReleaseRequest::by, "ignored: the user is that of the token"));
  }
};

struct PriorityRequest {
  std::string by;
  int priority = 0;

  static constexpr auto fields() {
    return record<PriorityRequest>(
        field("by", &PriorityRequest::by, "ignored: the user is that of the token"),
        required(between(-model::kPriorityMax, model::kPriorityMax,
                         field("priority", &PriorityRequest::priority,
                               "among the runs of its project a higher one starts first"))));
  }
};

struct ExtendRequest {
  Duration extension{};

  static constexpr auto fields() {
    return record<ExtendRequest>(required(field("extension", &ExtendRequest::extension,
                                                "how much longer the run may run, such as 2h")));
  }
};

struct HostView {
  std::string id;
  std::string pod;
  model::HostState state = model::HostState::open;
  std::string reason;
  std::string unavailable;
  std::optional<Time> since;
  int devices = 0;
  int free = 0;
  std::vector<std::string> runs;
  std::vector<model::AuditEntry> events;
  map::Labels labels;
  std::string engine;

  static constexpr auto fields() {
    return record<HostView>(
        field("id", &HostView::id, "the host's id in the map"),
        field("pod", &HostView::pod, "the pod's name"),
        field("state", &HostView::state,
              "open; avoided: only if no other host fits; closed and drained: to no new run"),
        field("reason", &HostView::reason, "why it is not open"),
        field("unavailable", &HostView::unavailable, "why it cannot be used now"),
        field("since", &HostView::since, "in that state; absent: always"),
        field("devices", &HostView::devices, "that it has"),
        field("free", &HostView::free, "of them held by no run"),
        field("runs", &HostView::runs, "the runs that hold devices there"),
        field("events", &HostView::events, "what was changed of it, oldest first"),
        field("labels", &HostView::labels, "for which runs may ask, such as rack: a3"),
        field("engine", &HostView::engine, "what starts agents there"));
  }
};

struct HostList {
  std::vector<HostView> hosts;

  static constexpr auto fields() {
    return record<HostList>(field("hosts", &HostList::hosts, "in the map's order"));
  }
};

struct HostRequest {
  std::string host;
  model::HostState state = model::HostState::open;
  std::string by;
  std::string reason;

  static constexpr auto fields() {
    return record<HostRequest>(
        required(field("host", &HostRequest::host, "the host's id in the map")),
        required(field("state", &HostRequest::state, "what it is to be; open: released")),
        field("by", &HostRequest::by, "ignored: the user is that of the token"),
        field("reason", &HostRequest::reason,
              "why; shown with the host and with the runs that wait"));
  }
};

struct LimitView {
  model::LimitScope scope = model::LimitScope::project;
  std::string name;
  std::optional<int> devices;
  int held = 0;
  int weight = 1;
  std::string idle_stop{};

  static constexpr auto fields() {
    return record<LimitView>(field("scope", &LimitView::scope, "whose: a project's or a user's"),
                             field("name", &LimitView::name, "the project or user"),
                             field("devices", &LimitView::devices,
                                   "that it may hold at once; absent: as many as there are"),
                             field("held", &LimitView::held, "that it holds now"),
                             field("weight", &LimitView::weight,
                                   "of a project: of two that ask for more than there is, it has a "
                                   "right to as many times as much"),
                             field("idle_stop", &LimitView::idle_stop,
                                   "of a project: the time without use of its devices after which "
                                   "a run is stopped, or off; empty: the default"));
  }
};

struct LimitList {
  std::vector<LimitView> limits;

  static constexpr auto fields() {
    return record<LimitList>(field("limits", &LimitList::limits,
                                   "those that have any, and projects with a weight other than 1 "
                                   "or an idle_stop"));
  }
};

struct LimitRequest {
  model::LimitScope scope = model::LimitScope::project;
  std::string name;
  std::optional<int> devices;
  std::optional<int> weight;
  std::optional<std::string> idle_stop{};

  static constexpr auto fields() {
    return record<LimitRequest>(
        required(field("scope", &LimitRequest::scope, "whose: a project's or a user's")),
        required(field("name", &LimitRequest::name, "the project or user")),
        between(0, 100'000'000,
                field("devices", &LimitRequest::devices,
                      "that it may hold at once; absent, without the other two: as many as there "
                      "are")),
        between(1, model::kWeightMax,
                field("weight", &LimitRequest::weight,
                      "of a project; without `devices` its limit stays as it is")),
        field("idle_stop", &LimitRequest::idle_stop,
              "of a project: such as 2h, off or default; without `devices` its limit stays"));
  }
};

}  // namespace lockstep::api
