// SavePlan: the part of the state that this rank writes, and its offset in its file. Made once, by
// all ranks together, from the parts that each holds. It stays valid for as long as the state keeps
// its form.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "train/checkpoint/format/writer/write_assignment.h"
#include "train/engine/owned_tensor.h"
#include "train/group/comm.h"

namespace lockstep::train {

// Elements of the state's tensor with index `tensor`, relative to this rank's part of it.
struct PlannedSlice {
  std::size_t tensor = 0;
  std::int64_t begin = 0;
  std::int64_t elements = 0;
  std::int64_t offset = 0;  // in the file, bytes
};

struct SavePlan {
  std::vector<HeldPart> held_parts;  // what this rank holds
  std::vector<SavedTensor> tensors;  // what all ranks write together: the manifest's
  std::vector<PlannedSlice> slices;  // what this rank writes
  std::int64_t file_size = 0;        // of this rank's file
};

// Collective. The tensors are those of the state, followed by this rank's random state.
Result<SavePlan> make_save_plan(const std::vector<OwnedTensor>& tensors, Comm& group);

// Checks that the state still has the form that it had when the plan was made.
Result<void> check_held_parts(const SavePlan& plan, const std::vector<OwnedTensor>& tensors);

}  // namespace lockstep::train
