// FlightReport: the contents of a folder of flight records, for programs (`lockstep flight
// --json`).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/flight/diagnosis/group.h"
#include "text/record.h"

namespace lockstep::comm {

constexpr auto enum_names(FlightState) {
  return lockstep::names<FlightState>({{FlightState::queued, "queued"},
                                       {FlightState::started, "started"},
                                       {FlightState::done, "done"},
                                       {FlightState::failed, "failed"}});
}

constexpr auto enum_names(ProcessState) {
  return lockstep::names<ProcessState>({{ProcessState::unknown, "unknown"},
                                        {ProcessState::runs, "runs"},
                                        {ProcessState::stopped, "stopped"},
                                        {ProcessState::ended, "ended"}});
}

// One rank's call of a collective.
struct FlightRankCall {
  int rank = 0;
  FlightState state = FlightState::queued;
  Time enqueued;
  std::optional<Time> started;
  std::optional<double> lasted_seconds;
  std::int64_t came_bytes = 0;
  std::optional<int> waits_for;
  std::string waits_purpose;
  std::optional<Time> waits_since;
  static constexpr auto fields() {
    return record<FlightRankCall>(
        field("rank", &FlightRankCall::rank, "its number in the run"),
        field("state", &FlightRankCall::state, "how far it came"),
        field("enqueued", &FlightRankCall::enqueued, "when it was called"),
        field("started", &FlightRankCall::started, "when the rank entered it"),
        field("lasted_seconds", &FlightRankCall::lasted_seconds, "from then to its end"),
        field("came_bytes", &FlightRankCall::came_bytes, "that had come from others"),
        field("waits_for", &FlightRankCall::waits_for, "the rank that it waits for"),
        field("waits_purpose", &FlightRankCall::waits_purpose, "what that one is to do"),
        field("waits_since", &FlightRankCall::waits_since, "since when"));
  }
};

struct FlightCollective {
  std::uint64_t sequence = 0;
  std::string operation;
  std::string label;
  std::string type;
  std::string reduction;
  std::int64_t bytes = 0;
  std::optional<int> root;
  std::optional<int> last_rank;
  std::optional<double> skew_seconds;
  std::vector<FlightRankCall> ranks;
  static constexpr auto fields() {
    return record<FlightCollective>(
        field("sequence", &FlightCollective::sequence, "its number in the group"),
        field("operation", &FlightCollective::operation, "such as all_gather"),
        field("label", &FlightCollective::label, "what it was for"),
        field("type", &FlightCollective::type, "of the elements; empty: bytes"),
        field("reduction", &FlightCollective::reduction, "such as sum; empty: none"),
        field("bytes", &FlightCollective::bytes, "of a rank's share"),
        field("root", &FlightCollective::root, "of a broadcast and the like"),
        field("last_rank", &FlightCollective::last_rank, "the rank that entered it last"),
        field("skew_seconds", &FlightCollective::skew_seconds, "how long after the first"),
        field("ranks", &FlightCollective::ranks, "those that called it"));
  }
};

struct FlightRank {
  int rank = 0;
  std::string host;
  int pid = 0;
  ProcessState process = ProcessState::unknown;
  Time last_seen;
  std::uint64_t dropped = 0;
  std::uint64_t unreadable = 0;
  static constexpr auto fields() {
    return record<FlightRank>(
        field("rank", &FlightRank::rank, "its number in the run"),
        field("host", &FlightRank::host, "where it ran"), field("pid", &FlightRank::pid, "there"),
        field("process", &FlightRank::process,
              "whether it runs or is stopped; unknown: on another machine"),
        field("last_seen", &FlightRank::last_seen, "the last moment that it recorded"),
        field("dropped", &FlightRank::dropped, "operations for which it had no room"),
        field("unreadable", &FlightRank::unreadable, "operations half-written or damaged"));
  }
};

// The rank for which the others wait.
struct FlightStraggler {
  int rank = 0;
  std::string host;
  double last_share = 0;
  double behind_seconds = 0;
  double cost_share = 0;
  std::size_t collectives = 0;
  static constexpr auto fields() {
    return record<FlightStraggler>(
        field("rank", &FlightStraggler::rank, "its number in the run"),
        field("host", &FlightStraggler::host, "where it ran"),
        field("last_share", &FlightStraggler::last_share, "of the collectives it entered last"),
        field("behind_seconds", &FlightStraggler::behind_seconds, "the others, in the median"),
        field("cost_share", &FlightStraggler::cost_share, "of the time the others waited for it"),
        field("collectives", &FlightStraggler::collectives, "that were looked at"));
  }
};

struct FlightSlowLink {
  int from_rank = 0;
  std::string from_host;
  int to_rank = 0;
  std::string to_host;
  double cost_share = 0;
  double others_share = 0;
  std::size_t collectives = 0;
  static constexpr auto fields() {
    return record<FlightSlowLink>(
        field("from_rank", &FlightSlowLink::from_rank, "its number in the run"),
        field("from_host", &FlightSlowLink::from_host, "where it ran"),
        field("to_rank", &FlightSlowLink::to_rank, "its number in the run"),
        field("to_host", &FlightSlowLink::to_host, "where it ran"),
        field("cost_share", &FlightSlowLink::cost_share, "of the time both waited for it"),
        field("others_share", &FlightSlowLink::others_share, "for links like it, in the median"),
        field("collectives", &FlightSlowLink::collectives, "that were looked at"));
  }
};

struct FlightGroupReport {
  std::string group;
  int size = 1;
  std::string diagnosis;
  std::vector<FlightRank> ranks;
  std::vector<FlightStraggler> stragglers;
  std::vector<FlightSlowLink> slow_links;
  std::vector<FlightCollective> collectives;
  static constexpr auto fields() {
    return record<FlightGroupReport>(
        field("group", &FlightGroupReport::group, "its name, such as \"shard 1: ranks 2, 3\""),
        field("size", &FlightGroupReport::size, "how many ranks it has"),
        field("verdict", &FlightGroupReport::diagnosis, "which rank holds it up"),
        field("ranks", &FlightGroupReport::ranks, "those with a record"),
        field("stragglers", &FlightGroupReport::stragglers, "the costliest first"),
        field("slow_links", &FlightGroupReport::slow_links, "the costliest first"),
        field("collectives", &FlightGroupReport::collectives, "the newest, oldest first"));
  }
};

struct FlightReport {
  Time viewed_at;
  std::vector<int> held_up_by;
  std::vector<FlightGroupReport> groups;
  std::vector<std::string> refused;
  static constexpr auto fields() {
    return record<FlightReport>(
        field("viewed_at", &FlightReport::viewed_at, "from when ages count"),
        field("held_up_by", &FlightReport::held_up_by, "ranks that wait for none, in any group"),
        field("groups", &FlightReport::groups, "by name"),
        field("refused", &FlightReport::refused, "files that are no flight records, and why"));
  }
};

FlightGroupReport flight_report(const FlightGroup& group, std::size_t newest, FlightTime now);

}  // namespace lockstep::comm
