// The notices that changes cause.
#pragma once

#include <span>
#include <vector>

#include "platform/core/model/state.h"

namespace lockstep::notice {

// `before` is the state without the changes: a run that had not ended there and has now, and a
// budget whose warning has risen.
std::vector<model::Notice> notices_of(const model::State& before,
                                      std::span<const model::Change> changes, Time now);

// A finding of the daemon about a run, or about a project (`run` is null).
model::Notice finding_of(const model::State& state, const std::string& project,
                         const model::Run* run, std::string text, Time now);

}  // namespace lockstep::notice
