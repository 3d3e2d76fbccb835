// Warnings of Pods that do not start, from the Events of their namespace. Pure;
// docs/design/kubernetes-pods.md has the reasons that count.
#pragma once

#include <map>
#include <string>

#include "platform/core/model/observation.h"
#include "text/json.h"

namespace lockstep::engine {

struct PodWarning {
  std::string reason;                               // for people
  model::EndBlame blame = model::EndBlame::engine;  // if the Pod is given up for that
};

// By the UID of the Pod; of each the newest one that names a cause.
std::map<std::string, PodWarning> warnings_of_events(const Json& events);

}  // namespace lockstep::engine
