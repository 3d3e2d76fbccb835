// Observation of a node from its Pod. Pure; docs/design/kubernetes.md has the table.
#pragma once

#include <optional>
#include <string>

#include "platform/core/model/ids.h"
#include "platform/core/model/observation.h"
#include "text/json.h"

namespace lockstep::engine {

struct PodView {
  model::NodeName node;
  std::string name, uid;
  std::string attempt_object;  // the name of its owner
  std::string owner_uid;
  std::string host;  // on which it is, or is to be
  model::Observation seen{};
  bool has_ended = false;  // all its containers have ended, and none will start
  bool is_being_deleted = false;
  // It cannot start unless something outside changes, such as an image that is missing.
  bool is_stuck = false;
  model::EndBlame stuck_blame = model::EndBlame::unknown;  // if it is given up for that
};

// None: it is no Pod of a node.
std::optional<PodView> view_of_pod(const Json& pod);

}  // namespace lockstep::engine
