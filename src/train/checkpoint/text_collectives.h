// Text that ranks exchange about a checkpoint: small and rare. Errors are exchanged too, so that no
// rank waits for a rank that has given up.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "train/group/comm.h"

namespace lockstep::train {

// The text of every rank, by rank. If any rank passes an error, every rank gets the error of the
// lowest such rank, with its code. Every rank calls it; `label` as for Comm.
Result<std::vector<std::string>> all_gather_text(Comm& group, const Result<std::string>& mine,
                                                 std::string_view label);

// The text of rank 0; the other ranks' arguments are ignored.
Result<std::string> broadcast_text(Comm& group, const Result<std::string>& mine,
                                   std::string_view label);

}  // namespace lockstep::train
