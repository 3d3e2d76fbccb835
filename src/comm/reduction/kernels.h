// The inner loops, one table of them for each instruction set. Private to this folder.
#pragma once

#include <cstddef>

#include "comm/reduction/stores.h"
#include "comm/reduction/types.h"

namespace lockstep {

// What reduce() was given, for a kernel of that type and operation.
struct Operands {
  std::byte* const* destinations;
  std::size_t destination_count;
  const std::byte* const* sources;
  std::size_t source_count;
  std::size_t count;  // elements
  int divisor;        // of an average
  Stores stores;
};
using Kernel = void (*)(const Operands&);

// One line of a table: the kernels of a type, in the order of ReduceOp.
struct KernelRow {
  Kernel of[8];  // null where it is not defined
};
struct KernelTable {
  KernelRow of[7];  // in the order of DataType

  Kernel at(DataType type, ReduceOp op) const {
    return of[static_cast<std::size_t>(type)].of[static_cast<std::size_t>(op)];
  }
};

extern const KernelTable kPlainKernels;
// Only where the processor is an x86-64; only called where it has these instructions.
extern const KernelTable kAvx2Kernels;
extern const KernelTable kAvx512Kernels;

}  // namespace lockstep
