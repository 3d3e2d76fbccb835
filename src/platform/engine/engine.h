// Engine: starts and ends agents on hosts: this machine, machines of one's own, Slurm, Kubernetes.
//
// Calls come from the daemon's single thread and return at once; the work is done on other threads.
// The list tells what has happened: the controller compares it with its state and makes events of
// the differences. So an engine needs no memory of what the controller knows, and a daemon that was
// restarted continues with the next list.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "map/map.h"
#include "platform/core/model/ids.h"
#include "platform/core/model/observation.h"
#include "platform/engine/gang.h"

namespace lockstep::engine {

// The launch of a node, with which a daemon of another store knows what it is.
struct LaunchRecord {
  std::optional<model::AttemptRecord> attempt{};  // with which a store may adopt it
  std::string host{};
  std::vector<int> devices{};  // their numbers on the machine; empty: unknown
  Duration time_left{};        // at its start
  std::string error{};         // why none of this is known; empty: it is

  bool operator==(const LaunchRecord&) const = default;
};

LaunchRecord launch_record(const Result<host::LaunchSpec>& launch);

struct ListedNode {
  model::NodeName node;
  model::Observation seen{};
  std::shared_ptr<const LaunchRecord> record{};  // null: this daemon has submitted the node, or it
                                                 // is being started
  std::string engine{};  // the one of several that lists it; empty: there is one
};

inline constexpr std::string_view kNotCalled =
    "its host service has not called since the daemon's start";

struct EngineList {
  std::vector<ListedNode> nodes;  // in the order of their names
  // The hosts that cannot be asked, and why, for people. A node of such a host that is not listed
  // may exist.
  std::map<std::string, std::string> unavailable{};
  // Those of them that have not answered for so long that the daemon does not wait for them.
  std::set<std::string> silent{};
  // If set: every host that is not one of these cannot be asked, because it has not called.
  std::optional<std::set<std::string>> answered{};
  // The engines of which this list has no nodes, and why: each node of theirs may exist.
  std::map<std::string, std::string> unlisted{};
  // The projects of which nodes may exist that are not listed, and why.
  std::map<std::string, std::string> unknown_projects{};
  // The hosts that can be asked and take no node now, and why.
  std::map<std::string, std::string> unfit{};
  // The map of the hosts that the engine sees now; null: it makes no map.
  std::shared_ptr<const map::ClusterMap> map{};

  // Empty: it can be asked.
  std::string why_unavailable(const std::string& host) const;
  // Empty: a node of the engine that is not listed does not exist on that host. An empty host: the
  // engine has not named it yet.
  std::string why_unknown(const std::string& host, const std::string& engine) const;
  // The node of the engine may exist on that host although it is not listed.
  bool may_exist(const model::NodeName& node, const std::string& host,
                 const std::string& engine) const;
  // Empty: it takes nodes.
  std::string why_closed(const std::string& host) const;
};

class Engine {
 public:
  virtual ~Engine() = default;

  // Stored with each attempt: only the engine that started an attempt lists and ends it.
  virtual std::string_view name() const = 0;
  // Starts the agents of these nodes as processes that outlive the daemon. After the return the
  // list has each of them until it is gone. If a node fails to start, no further node of the gang
  // is started. A node that exists, or has ever had an agent, is not started again, so repeating
  // the call is harmless.
  virtual void submit(Gang gang) = 0;
  // Ends all processes of the node by force, or removes it from the engine's queue; the list shows
  // when it is gone. After the return, nothing more of it is started.
  virtual void kill(const model::NodeName& node) = 0;
  // All nodes that exist, as they were a few seconds ago at most; those of an unavailable host as
  // they were last seen. A node that is not listed is gone, for an unknown reason; one that failed
  // to start is listed as gone for some minutes. Code::unavailable if the engine has no list of
  // that age: then nothing is known about any node.
  virtual Result<EngineList> list() = 0;
};

}  // namespace lockstep::engine
