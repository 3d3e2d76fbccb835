// Messages between the service of a host and the daemon; see messages.h and
// docs/design/host-service.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "map/map.h"
#include "platform/api/checkpoint_messages.h"
#include "platform/api/host_messages.h"
#include "platform/core/model/observation.h"
#include "platform/core/model/orphan.h"
#include "platform/host/launch_spec.h"
#include "platform/spool/telemetry_item.h"
#include "text/record.h"

namespace lockstep::api {

struct HostActionRequest {
  std::string by;
  std::optional<bool> lost{};

  static constexpr auto fields() {
    return record<HostActionRequest>(
        field("by", &HostActionRequest::by, "who asks, for the record"),
        field("lost", &HostActionRequest::lost,
              "the machine does not come back: its nodes count as gone"));
  }
};

struct HostDeadRequest {
  std::string by;

  static constexpr auto fields() {
    return record<HostDeadRequest>(
        field("by", &HostDeadRequest::by, "who says so, for the record"));
  }
};

struct HostLabelsRequest {
  std::string by;
  map::Labels labels;

  static constexpr auto fields() {
    return record<HostLabelsRequest>(
        field("by", &HostLabelsRequest::by, "who sets them, for the record"),
        required(field("labels", &HostLabelsRequest::labels,
                       "those to set; an empty value removes the label, others stay")));
  }
};

struct JoinTokenRequest {
  std::optional<std::string> pod{};

  static constexpr auto fields() {
    return record<JoinTokenRequest>(
        field("pod", &JoinTokenRequest::pod, "in which the map has the host; null: default"));
  }
};

// A secret.
struct JoinTokenAnswer {
  std::string token{};
  Time end{};

  static constexpr auto fields() {
    return record<JoinTokenAnswer>(
        required(field("token", &JoinTokenAnswer::token, "with which the host joins, once")),
        required(field("end", &JoinTokenAnswer::end, "it is void from then on")));
  }
};

struct JoinRequest {
  std::string claim{};
  std::string machine{};

  static constexpr auto fields() {
    return record<JoinRequest>(
        required(field("claim", &JoinRequest::claim,
                       "chosen at random by the host: a repeated call with it is answered again")),
        field("machine", &JoinRequest::machine, "the host's machine id"));
  }
};

// A secret.
struct JoinAnswer {
  std::string credential{};

  static constexpr auto fields() {
    return record<JoinAnswer>(
        required(field("credential", &JoinAnswer::credential, "for the calls of its service")));
  }
};

// The launch of a node that another daemon has ordered.
struct ReportedLaunch {
  std::optional<model::AttemptRecord> attempt{};
  std::string host{};
  std::optional<std::vector<int>> devices{};
  Duration time_left{};
  std::string error{};

  static constexpr auto fields() {
    return record<ReportedLaunch>(
        field("attempt", &ReportedLaunch::attempt, "with which a store may adopt it"),
        field("host", &ReportedLaunch::host, "on which it was placed"),
        field("devices", &ReportedLaunch::devices,
              "their numbers on the machine; null: an older service"),
        field("time_left", &ReportedLaunch::time_left, "at its start"),
        field("error", &ReportedLaunch::error, "why none of this is known; empty: it is"));
  }
};

struct ReportedNode {
  std::string node;  // GENERATION:demo/42.2/0
  model::Observation seen{};
  std::optional<ReportedLaunch> launch{};

  static constexpr auto fields() {
    return record<ReportedNode>(
        required(field("node", &ReportedNode::node, "its full name")),
        required(field("seen", &ReportedNode::seen, "what the host sees of it")),
        field("launch", &ReportedNode::launch, "null: this start of the daemon has ordered it"));
  }
};

struct HostReportQuery {
  double wait_seconds = 0;

  static constexpr auto fields() {
    return record<HostReportQuery>(
        field("wait_seconds", &HostReportQuery::wait_seconds, "for an order, 60 at most"));
  }
};

// A folder that the daemon's machine and all hosts share: each sees the same marker in it.
struct SharedFolder {
  std::string path;
  std::string marker;

  bool operator==(const SharedFolder&) const = default;

  static constexpr auto fields() {
    return record<SharedFolder>(
        required(field("path", &SharedFolder::path, "absolute, the same on each host")),
        required(field("marker", &SharedFolder::marker, "content of the file .lockstep in it")));
  }
};

struct ServiceReport {
  std::string service{};
  std::int64_t number = 0;
  std::string session{};
  std::int64_t answered = 0;
  Time clock{};
  std::vector<ReportedNode> nodes{};
  std::optional<std::string> nodes_error{};
  std::vector<HostProblem> problems{};
  std::optional<SharedFolder> shared{};
  std::optional<HostInventory> inventory{};
  std::optional<map::Host> facts{};

  static constexpr auto fields() {
    return record<ServiceReport>(
        required(field("service", &ServiceReport::service, "which start of the service")),
        required(field("number", &ServiceReport::number, "of this report; it only rises")),
        field("session", &ServiceReport::session, "of the last answer; empty: none yet"),
        field("answered", &ServiceReport::answered,
              "number of the last answer that was carried out before `nodes` was made"),
        required(field("clock", &ServiceReport::clock, "the host's time")),
        field("nodes", &ServiceReport::nodes, "all that the host has"),
        field("nodes_error", &ServiceReport::nodes_error,
              "why the nodes are not known now; null: they are"),
        field(
            "shared", &ServiceReport::shared,
            "the folder that was asked for, with the marker that the host sees; null: not checked"),
        field("problems", &ServiceReport::problems, "why it should get no runs; empty: none"),
        field("inventory", &ServiceReport::inventory, "what the host is; null: as before"),
        field("facts", &ServiceReport::facts, "the host's part of the map; null: as before"));
  }
};

struct StartOrder {
  host::LaunchSpec launch{};
  bool make_checkpoint_folder = false;

  static constexpr auto fields() {
    return record<StartOrder>(
        required(field("launch", &StartOrder::launch,
                       "all data for its agent; relative paths are below the service's folder")),
        field("make_checkpoint_folder", &StartOrder::make_checkpoint_folder,
              "it is not the user's own"));
  }
};

// The items that a killed agent had left to deliver.
struct CollectRequest {
  std::string node;
  std::vector<spool::TelemetryItem> items{};

  static constexpr auto fields() {
    return record<CollectRequest>(
        required(field("node", &CollectRequest::node, "its full name")),
        field("items", &CollectRequest::items, "in order; empty: only ask what is stored"));
  }
};

struct CollectAnswer {
  std::int64_t acknowledged = 0;
  bool known = false;

  static constexpr auto fields() {
    return record<CollectAnswer>(
        required(field("acknowledged", &CollectAnswer::acknowledged,
                       "items up to this sequence are stored")),
        required(field("known", &CollectAnswer::known,
                       "the store has the node on this host; else its items are dropped")));
  }
};

// How much of a run's files on a host stays.
enum class KeptFiles { all, checkpoints, none };
constexpr auto enum_names(KeptFiles) {
  return names<KeptFiles>({{KeptFiles::all, "all"},
                           {KeptFiles::checkpoints, "checkpoints"},
                           {KeptFiles::none, "none"}});
}

struct RunFolder {
  std::string generation;
  std::string run;
  KeptFiles kept = KeptFiles::all;

  static constexpr auto fields() {
    return record<RunFolder>(
        required(field("generation", &RunFolder::generation, "of the store that made the run")),
        required(field("run", &RunFolder::run, "demo/42")),
        field("kept", &RunFolder::kept, "in the answer: what of it stays"));
  }
};

// Both the question and the answer.
struct RunFolders {
  std::vector<RunFolder> folders{};

  static constexpr auto fields() {
    return record<RunFolders>(required(field("folders", &RunFolders::folders, "1,000 at most")));
  }
};

struct ServiceOrders {
  std::string session{};
  std::int64_t number = 0;
  std::vector<StartOrder> start{};
  std::vector<std::string> kill{};
  double wait_seconds = 10;
  std::optional<SharedFolder> shared{};
  std::vector<HostFileOrder> files{};

  static constexpr auto fields() {
    return record<ServiceOrders>(
        required(field("session", &ServiceOrders::session, "which start of the daemon")),
        required(field("number", &ServiceOrders::number, "of this answer; it only rises")),
        field("start", &ServiceOrders::start, "nodes to start, unless they ever had an agent"),
        field("kill", &ServiceOrders::kill, "nodes to end by force"),
        field("wait_seconds", &ServiceOrders::wait_seconds,
              "for which the next poll should wait for an order"),
        field("shared", &ServiceOrders::shared, "to be checked by the host; null: there is none"),
        field("files", &ServiceOrders::files, "lists and parts of checkpoints to be sent"));
  }
};

}  // namespace lockstep::api
