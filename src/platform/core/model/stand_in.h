// The variable of a run whose ranks import lockstep.wandb in the place of wandb.
#pragma once

#include <string_view>

namespace lockstep::model {

// "1": they do.
inline constexpr std::string_view kWandb = "LOCKSTEP_WANDB";

}  // namespace lockstep::model
