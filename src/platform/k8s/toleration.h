// A toleration of a taint in one word, as users write it: KEY, KEY=VALUE, each with :EFFECT or
// without, as `kubectl taint` writes taints.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "text/json.h"

namespace lockstep::k8s {

struct Toleration {
  std::string key;
  std::string value;   // empty: any
  std::string effect;  // empty: every
};

Result<Toleration> parse_toleration(std::string_view words);
Json toleration_json(const Toleration& toleration);

}  // namespace lockstep::k8s
