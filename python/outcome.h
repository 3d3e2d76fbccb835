// Converts a Result for Python: to its value, or to an exception. Also works without Python's lock.
#pragma once

#include <utility>

#include <pybind11/pytypes.h>

#include "base/result.h"
#include "comm/torch/work.h"

namespace lockstep::python {

// ValueError for an invalid request, else torch.distributed.DistBackendError.
[[noreturn]] inline void raise_to_python(const Error& error) {
  if (error.code == Code::invalid || error.code == Code::already_exists)
    throw pybind11::value_error(error.message);
  comm::raise_failure(error);
}

template <class T>
T value_of(Result<T> result) {
  if (!result) raise_to_python(result.error());
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

}  // namespace lockstep::python
