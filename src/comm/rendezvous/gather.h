// gather(): every rank of a group gets a value of every other one, through a rendezvous. A rank
// makes few requests: the first rank of each block of ranks collects the values of its block, and
// all ranks read the blocks.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "comm/rendezvous/rendezvous.h"

namespace lockstep::comm {

// The wait for a key, which the caller bounds.
using WaitForKey = std::function<Result<std::string>(const std::string& key)>;

// The values in the order of the ranks. Keys are "NAME-RANK" and "NAME-block-NUMBER". A block must
// fit into an entry (server.h), so a value has at most about 200 bytes.
Result<std::vector<std::string>> gather(Rendezvous& rendezvous, const WaitForKey& wait_for,
                                        std::string_view name, int rank, int size,
                                        std::string_view value);

}  // namespace lockstep::comm
