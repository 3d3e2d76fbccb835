// The time in which a thread waits for its data: in `next` of torch.utils.data.DataLoader.
//
// The DataLoader marks that call with torch.autograd.profiler.record_function, of which torch tells
// an observer (at::RecordFunction). So no code of the program or of torch is changed, and only
// marked pieces of code cost anything.
#pragma once

#include <chrono>
#include <optional>

namespace lockstep::train {

// The calling thread's, since the last call. The first call begins. Nothing: no DataLoader has been
// used by this thread.
std::optional<std::chrono::nanoseconds> take_data_time();

}  // namespace lockstep::train
