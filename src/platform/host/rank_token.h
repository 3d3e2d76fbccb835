// The token with which a rank logs to MLflow's API of its daemon. It derives from the token of the
// attempt's agents, which it does not reveal: docs/design/mlflow.md.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "platform/core/model/ids.h"

namespace lockstep::host {

struct RankName {
  model::AttemptName attempt;
  int rank = 0;
  bool operator==(const RankName&) const = default;
};

// "lsr_3f9c0a5e7d21b864:demo/42.2_5_" and 64 hex digits; empty: that is no token of an agent.
std::string rank_token(const RankName& name, std::string_view agent_token);
// The rank that such a token names. It is not verified.
std::optional<RankName> rank_of_token(std::string_view token);

}  // namespace lockstep::host
