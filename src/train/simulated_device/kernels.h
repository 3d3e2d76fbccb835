// Registers the operators of the simulated device: a few of its own, and the fallback for the rest.
#pragma once

namespace lockstep::train::simulated_device {

void register_kernels();

}  // namespace lockstep::train::simulated_device
