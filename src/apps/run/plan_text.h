// The plan of a run that is not submitted, for users.
#pragma once

#include <string>
#include <vector>

#include "platform/api/messages.h"

namespace lockstep::cli {

// "The daemon ignores slurm: it has another engine".
std::string ignored_text(const std::vector<std::string>& sections);
// Where and when the run would start, which runs would leave for it, and its cost.
std::string plan_text(const api::PlanView& plan, const model::RunSpec& spec);

}  // namespace lockstep::cli
