// The kernels that every processor runs, in registers of 16 bytes: SSE2 on an x86-64.
#include "comm/reduction/kernel_templates.h"

namespace lockstep {
namespace {

struct Plain {
  static constexpr int kBytes = 16;
  static constexpr bool kConvertsHalves = false;
};

}  // namespace

constinit const KernelTable kPlainKernels = Kernels<Plain>::table();

}  // namespace lockstep
