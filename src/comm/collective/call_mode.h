// The thread that executes a call, and when the call returns; the terms are MPI's.
#pragma once

namespace lockstep::comm {

enum class CallMode {
  nonblocking,  // it runs in the background; its OperationFuture reports completion
  blocking,     // the caller executes it itself if possible; it returns on completion
};

}  // namespace lockstep::comm
