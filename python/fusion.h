// Moves small tensors into one buffer and back, so that they travel in one collective.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace lockstep::python {

// Adds pack_tensors and unpack_tensors.
void bind_fusion(pybind11::module& module);

}  // namespace lockstep::python
