// Personal buckets in the decisions: which runs use one, which are refused, and its level.
// docs/design/budgets-personal.md has the rules.
#pragma once

#include <optional>
#include <string>

#include "platform/core/budget/bucket.h"
#include "platform/core/step/handlers/draft.h"

namespace lockstep::step {

// By the settings.
budget::Refill refill_of(const model::Settings& settings);
// The run is of a personal project, and these have buckets. A budget of the project goes first.
bool may_use_bucket(const Draft& draft, const model::Run& run);
// That of the project; full if it was never used.
budget::Bucket bucket_of(const Draft& draft, const std::string& project);

// Code::invalid: the run is too large or too long for a bucket, or needs more than one can have:
// `amount` is what it would hold.
Result<void> check_fits_bucket(const Draft& draft, const model::Run& run,
                               budget::DeviceTime amount);
// Why the run waits for that amount, and until when.
std::string bucket_wait_reason(const Draft& draft, const std::string& project,
                               budget::DeviceTime amount);

}  // namespace lockstep::step
