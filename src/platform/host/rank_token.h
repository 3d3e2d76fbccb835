// The token with which the ranks of an attempt log to MLflow's API of their daemon. It derives from
// the token of the attempt's agents, which it does not reveal: docs/design/mlflow.md.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "platform/core/model/ids.h"

namespace lockstep::host {

// "lsr_3f9c0a5e7d21b864:demo/42.2_" and 64 hex digits; empty: that is no token of an agent.
std::string rank_token(const model::AttemptName& attempt, std::string_view agent_token);
// The attempt that such a token names. It is not verified.
std::optional<model::AttemptName> attempt_of_rank_token(std::string_view token);

}  // namespace lockstep::host
