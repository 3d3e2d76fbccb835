// The variables of a run whose ranks import a package of Lockstep in the place of another one.
#pragma once

#include <string_view>

namespace lockstep::model {

// "1": they do.
inline constexpr std::string_view kWandb = "LOCKSTEP_WANDB";      // lockstep.wandb for wandb
inline constexpr std::string_view kHorovod = "LOCKSTEP_HOROVOD";  // lockstep.horovod for horovod

}  // namespace lockstep::model
