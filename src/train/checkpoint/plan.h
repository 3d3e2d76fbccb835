// SavePlan: which part of the state this rank writes, and where in its file. Made once, by all
// ranks together, from what each holds; it stays right for as long as the state keeps its form.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "train/checkpoint/format/division.h"
#include "train/comm.h"
#include "train/owned.h"

namespace lockstep {

// Elements of the state's tensor number `tensor`, relative to what this rank owns of it.
struct PlannedSlice {
  std::size_t tensor = 0;
  std::int64_t begin = 0;
  std::int64_t elements = 0;
  std::int64_t offset = 0;  // in the file, bytes
};

struct SavePlan {
  std::vector<HeldPart> form;        // what this rank holds
  std::vector<SavedTensor> tensors;  // what all ranks write together: the manifest's
  std::vector<PlannedSlice> slices;  // what this rank writes
  std::int64_t file_size = 0;        // of this rank's file
};

// Called by all ranks alike. The tensors are the state's, and behind them this rank's random state.
Result<SavePlan> make_plan(const std::vector<OwnedTensor>& tensors, Comm& group);

// Whether the state still has the form that it had when the plan was made.
Result<void> check_form(const SavePlan& plan, const std::vector<OwnedTensor>& tensors);

}  // namespace lockstep
