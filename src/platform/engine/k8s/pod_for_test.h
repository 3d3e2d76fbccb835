// Pods as the API server gives them: a test changes the fields that matter to it.
#pragma once

#include <string>
#include <utility>

#include "text/json.h"

namespace lockstep::engine {

inline Json pod_with_status(const std::string& phase) {
  return {{"metadata",
           {{"name", "ls-demo-1-1-aaaa-0"},
            {"uid", "uid-of-pod"},
            {"labels", {{"lockstep.dev/attempt", "ls-demo-1-1-aaaa"}}},
            {"annotations", {{"lockstep.dev/node", "0123456789abcdef:demo/1.1/0"}}},
            {"ownerReferences", Json::array({{{"apiVersion", "v1"},
                                              {"kind", "ConfigMap"},
                                              {"name", "ls-demo-1-1-aaaa"},
                                              {"uid", "uid-of-owner"}}})}}},
          {"spec", {{"nodeName", "n1"}}},
          {"status", {{"phase", phase}}}};
}

inline Json with_container(Json pod, Json state) {
  pod["status"]["containerStatuses"] =
      Json::array({{{"name", "node"}, {"image", "any"}, {"state", std::move(state)}}});
  return pod;
}

inline Json terminated(int code, const std::string& reason, const std::string& message = "") {
  return {{"terminated", {{"exitCode", code}, {"reason", reason}, {"message", message}}}};
}

}  // namespace lockstep::engine
