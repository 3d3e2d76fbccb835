// PodTable: the Pods of the nodes, from lists and events of the API server, and the nodes whose Pod
// was there. Its owner guards it.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/units.h"
#include "platform/core/model/ids.h"
#include "platform/core/model/observation.h"
#include "platform/engine/k8s/pod_observation.h"
#include "platform/engine/k8s/pod_warning.h"
#include "text/json.h"

namespace lockstep::engine {

class PodTable {
 public:
  using Moment = std::chrono::steady_clock::time_point;

  struct Pod {
    PodView view;
    bool is_killed = false;  // the engine deletes it
    std::optional<Moment> stuck_since{};
    // Since when it is on its Node without a container that runs.
    std::optional<Moment> starting_since{};
    std::optional<PodWarning> warning{};  // why it does not start
    // The observation once it is deleted, because it did not start in time.
    std::optional<model::Observation> given_up{};
  };

  // A list of all Pods: its answer shows each Pod that was made before it began.
  void begin_list() { ++lists_begun_; }
  void replace(const Json& items, Moment now);
  // An event of the watch from such a list.
  void change(const std::string& type, const Json& object, Moment now);

  // The Pod of the node was made, and a later list or event shows it.
  void add_made(const model::NodeName& node);
  // The Pod that runs or waits is now deleted by the engine. Null: there is none.
  const Pod* mark_killed(const model::NodeName& node);
  // The first Pod that could not start for `limit`, which is marked. Null: there is none.
  const Pod* give_up(Moment now, Duration limit);
  // True if a Pod that was not given up starts for that time. Its warnings may say why.
  bool has_slow_start(Moment now, Duration least) const;
  // By the UID of the Pod. A warning counts until the Pod starts.
  void add_warnings(const std::map<std::string, PodWarning>& warnings, Moment now);
  // The engine has deleted the owner with this UID: its Pods follow, and are listed no more.
  void forget_attempt(const model::AttemptName& attempt, const std::string& owner_uid);
  // Without the ends of nodes of other attempts.
  void keep_ends_of(const std::set<model::AttemptName>& attempts);

  // It has a Pod, or had one.
  bool knows(const model::NodeName& node) const;
  int highest_index(const model::AttemptName& attempt) const;  // of those; -1: there is none
  const std::map<model::NodeName, Pod>& pods() const { return pods_; }
  const std::map<model::NodeName, std::int64_t>& made() const { return made_; }
  // The last observation of the nodes whose Pod does not exist any more.
  const std::map<model::NodeName, model::Observation>& ended() const { return ended_; }

 private:
  std::optional<PodView> view_of(const Json& object) const;
  void update(PodView view, Moment now);
  static void note_waiting(Pod& pod, Moment now);
  void remove(const Pod& pod);

  std::int64_t lists_begun_ = 0;
  std::map<model::NodeName, Pod> pods_;
  std::map<model::NodeName, std::int64_t> made_;  // with the last list that had begun
  std::map<model::NodeName, model::Observation> ended_;
  std::set<std::string> deleted_owners_;  // by UID
};

}  // namespace lockstep::engine
