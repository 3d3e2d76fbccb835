// The training engine's part of lockstep._lockstep.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace lockstep::python {

void bind_train(pybind11::module& module);
void bind_recovery(pybind11::module& module);
void bind_checkpoints(pybind11::module& module);

}  // namespace lockstep::python
