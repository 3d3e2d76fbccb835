// The GPU whose memory an address is in.
#pragma once

namespace lockstep::comm::nccl {

// CUDA's number of it in this process; 0 if CUDA does not tell. Uses the process's own libcuda.
int gpu_of(const void* data);

}  // namespace lockstep::comm::nccl
