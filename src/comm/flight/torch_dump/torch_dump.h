// Dumps of PyTorch's flight recorder (TORCH_FR_DUMP_TEMP_FILE, TORCH_NCCL_DEBUG_INFO_TEMP_FILE), as
// flight logs. ProcessGroupNCCL writes one file for each rank when a collective times out: a
// pickle. The JSON that torch gives on request has the same fields.
//
// The dump differs from our records:
//   - Torch's watchdog looks at the GPU now and then, so ends and starts are when it noticed them.
//   - Without TORCH_NCCL_ENABLE_TIMING it notes no starts. The oldest open collective of a group
//     then counts as entered when it was called: it may still wait for its GPU.
//   - It does not have the host, the process, or for which rank a rank waits.
//   - A coalesced batch is one call on the network: entries for its parts, then one for the whole,
//     which alone has the state. A batch of collectives is shown as one. Sends and receives are
//     shown each with the state of their batch.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "comm/flight/log.h"

namespace lockstep::comm::torch_dump {

// The rank at the end of the file's name, as in nccl_trace_rank_12; nullopt: it is no name of a
// dump.
std::optional<int> rank_of_torch_dump(std::string_view file_name);

// A log for each process group. Members are empty where the dump does not have them.
Result<std::vector<FlightLog>> parse_torch_dump(std::string_view bytes, int rank);

// Gives each group without members all ranks that have a log of it.
void complete_torch_groups(std::vector<FlightLog>& logs);

}  // namespace lockstep::comm::torch_dump
