// PyTorch's wheel has Gloo inside libtorch_cpu and ProcessGroupGloo.hpp among its headers, but not
// the Gloo headers that one includes. The files of this folder declare what it names, so that C++
// can use ProcessGroupGloo. Nothing here is defined or constructed on our side.
#pragma once

#include <chrono>
#include <memory>

namespace gloo {
class Context {
 public:
  void setTimeout(std::chrono::milliseconds timeout);
};
}  // namespace gloo
