// FlightRecordCache: flight records of ranks whose files the daemon cannot see.
//
// Agents deliver the records with a heartbeat: on request, and once when all ranks of a node have
// ended, unless the node's own folder has records on this host. The newest delivery is kept in that
// folder and is removed with the node's logs. The daemon passes it on as text.
#pragma once

#include <filesystem>
#include <map>
#include <set>

#include "base/clock.h"
#include "base/result.h"
#include "platform/api/messages.h"
#include "platform/core/model/state.h"
#include "platform/host/node_files.h"
#include "platform/server/file_writer.h"

namespace lockstep::server {

class FlightRecordCache {
 public:
  // `state` is the controller's. It and the clock must outlive the cache.
  FlightRecordCache(const model::State& state, std::filesystem::path home, const Clock& clock)
      : state_(state), home_(std::move(home)), clock_(clock) {}

  // Requests the records from agents of this attempt that call within half a minute. Returns the
  // time of the request: now, or that of another request within the last second.
  Time request(const model::AttemptId& attempt);
  // True if the node's agent, which is calling, should deliver.
  bool is_wanted(const model::Node& node);
  // Written on another thread. If that fails, the records are lost, with a warning: the agent must
  // not retry forever.
  void store(const model::Node& node, const api::FlightDelivery& delivery);

  bool has_since(const model::NodeId& node, Time asked) const;
  // The newest delivery; a view without records if there is none.
  Result<api::FlightView> view(const model::Node& node, Time asked);

 private:
  host::NodeFiles files_of(const model::NodeId& node) const;
  bool has_local_records(const model::NodeId& node) const;
  void prune();

  const model::State& state_;
  const std::filesystem::path home_;
  const Clock& clock_;
  std::map<model::AttemptId, Time> requested_;
  std::map<model::NodeId, Time> delivered_;
  FileWriter writer_;
  std::set<model::NodeId> complete_;  // all records have come, or are on this host
};

}  // namespace lockstep::server
