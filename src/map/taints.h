// Taints of a host: it takes only runs that tolerate each of them. A taint is a label of the host,
// "taint/KEY" with the value EFFECT or EFFECT/VALUE, so that maps and tables show it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "map/labels.h"

namespace lockstep::map {

struct Taint {
  std::string key, value, effect;  // the value may be empty
};

// None: its words do not fit into a label.
std::optional<std::pair<std::string, std::string>> taint_label(const Taint& taint);

bool has_taints(const Labels& labels);
// "spot=true:NoSchedule, team:NoExecute"; empty: there is none.
std::string taints_text(const Labels& labels);
// `tolerations`: words KEY or KEY=VALUE, each with :EFFECT or without. A part that a word leaves
// out fits each value or effect.
bool tolerates(const std::vector<std::string>& tolerations, const Labels& labels);

}  // namespace lockstep::map
