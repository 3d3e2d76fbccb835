// The inner loops, one table of them for each instruction set. Private to this folder.
#pragma once

#include <cstddef>

#include "comm/reduction/store_mode.h"
#include "comm/reduction/types.h"

namespace lockstep::comm {

// The arguments of reduce(), for a kernel of that type and operation.
struct Operands {
  std::byte* const* destinations;
  std::size_t destination_count;
  const std::byte* const* sources;
  std::size_t source_count;
  std::size_t count;  // elements
  int divisor;        // of an average
  StoreMode store_mode;
};
using Kernel = void (*)(const Operands&);

// One line of a table: the kernels of a type, in the order of ReduceOp.
struct KernelRow {
  Kernel of[8];  // null where it is not defined
};
struct KernelTable {
  KernelRow of[7];  // in the order of kReducedTypes

  Kernel at(DataType type, ReduceOp op) const {
    return of[static_cast<std::size_t>(type)].of[static_cast<std::size_t>(op)];
  }
};

extern const KernelTable kPlainKernels;
// Only on an x86-64 processor; call only where it has these instructions.
extern const KernelTable kAvx2Kernels;
extern const KernelTable kAvx512Kernels;

}  // namespace lockstep::comm
