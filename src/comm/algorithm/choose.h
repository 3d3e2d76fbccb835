// choose: by which plan a call of a group on several hosts is carried out. All ranks must choose
// alike, so a choice depends only on what is equal on all of them.
#pragma once

#include <cstddef>

#include "comm/algorithm/algorithm.h"
#include "comm/algorithm/call.h"

namespace lockstep {

// One that fits. bytes: the call header's, of a rank's share.
Plan choose(Operation operation, std::size_t bytes, const GroupShape& group);

}  // namespace lockstep
