// Counts the floating-point operations of a piece of the program: those of the calling thread, and
// of the threads in which autograd runs its backward.
//
// Torch calls an observer (at::RecordFunction) before each operator, from begin to end only, so
// that other steps cost nothing. An operator that counts hides those within it: `convolution` calls
// one of the backend. Activations that a backward computes again, because activation checkpointing
// did not keep them, are not counted: there autograd records a graph, and elsewhere in a backward
// it does not.
//
// Limits: kernels that are no operators of torch are not seen. These are Triton's, also those that
// torch.compile makes of products, those of other libraries, and the replay of a CUDA graph.
#pragma once

#include <optional>

namespace lockstep::train {

// False: this or another thread of the process counts already.
bool begin_flop_count();

// The operations since the begin. Nothing: this thread has begun no count.
std::optional<double> end_flop_count();

}  // namespace lockstep::train
