// Standing: what a queued run waits for besides devices. It is held, is to start after other runs
// or at a later moment, or pauses between two attempts. The pass is not told of it until then, so
// it keeps nobody waiting; and its place in the queue is that of its arrival.
#pragma once

#include "platform/core/step/draft.h"

namespace lockstep {

// What such runs say until the pass that follows has looked at them.
inline constexpr std::string_view kUnplaced = "waits for the next pass over the queue";

// A run that was submitted or resumed: what of its wishes is not fulfilled yet.
void take_wishes(const Draft& draft, Run& run);
// Writes down why it waits.
void tell_standing(const Draft& draft, Run& run);
// At a tick: whether what it waited for has come. One whose predecessor ended badly is cancelled.
void check_standing(Draft& draft, const RunId& run);

// Whether these can come before the run at all.
Result<void> check_after(const Draft& draft, const RunSpec& spec);
// Of these runs, which have not ended and write to the run's checkpoint folder, each must come
// before the run or after it.
Result<void> check_checkpoint_folder(const Draft& draft, const RunId& id, const RunSpec& spec,
                                     const std::vector<RunId>& same_folder);

}  // namespace lockstep
