// Words that ranks tell each other about a checkpoint: small, seldom, and failures among them, so
// that nobody waits for a rank that has given up.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "train/comm.h"

namespace lockstep {

// What every rank says, by rank. If any of them tells an error, every rank gets the error of the
// lowest such rank, with its code. All ranks call it alike; `label` as for Comm.
Result<std::vector<std::string>> gather(Comm& group, const Result<std::string>& mine,
                                        std::string_view label);

// What rank 0 says; what the others bring is not looked at.
Result<std::string> tell(Comm& group, const Result<std::string>& mine, std::string_view label);

}  // namespace lockstep
