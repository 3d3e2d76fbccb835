// NodeWatch: the Nodes of the cluster, from a watch of its own.
#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/result.h"
#include "base/units.h"
#include "platform/engine/engine.h"
#include "platform/engine/k8s/api_server.h"
#include "platform/engine/k8s/node_table.h"
#include "platform/engine/k8s/object_watch.h"

namespace lockstep::engine {

class NodeWatch {
 public:
  // `server`: for this watch alone.
  NodeWatch(std::shared_ptr<ApiServer> server, const std::string& device_resource,
            const WatchBounds& bounds);

  // As ObjectWatch has it.
  Result<void> check_current(Duration age, const Deadline& first_answer);
  // It was there, and its object was deleted: none of its Pods runs.
  bool was_deleted(const std::string& node) LS_EXCLUDES(mutex_);
  // The map, and the hosts that are unavailable, silent for `silent_after`, or unfit.
  void add_hosts_to(EngineList& listed, Duration silent_after) LS_EXCLUDES(mutex_);

 private:
  ObjectWatch::Handlers handlers();

  Mutex mutex_;  // guards what follows
  NodeTable nodes_ LS_GUARDED_BY(mutex_);

  ObjectWatch watch_;  // the last member: its thread uses the others
};

}  // namespace lockstep::engine
