// How the ranks share a global batch, whatever their number: with four ranks 16 samples are 4 each,
// with the three that are left 6, 5 and 5.
//
// The engine's gradient is the mean over ranks and micro-steps of each one's own gradient. If these
// have unequal numbers of samples, a weight for each loss makes it the mean over samples again:
//
//   (1 / ranks) (1 / micro-steps) sum of  weight x mean over n  =  (1 / batch) sum over samples
//   with weight = n x ranks x micro-steps / batch
//
// so with equal shares every weight is one. All ranks take equally many micro-steps, because they
// gather parameters together.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "lockstep/train_types.h"

namespace lockstep::train {

// The micro-steps of one rank. invalid: there are fewer samples than ranks.
Result<std::vector<MicroBatch>> micro_batches_of(const BatchShape& shape, int rank, int ranks);

}  // namespace lockstep::train
