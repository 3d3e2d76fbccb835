// Policy: over how many ranks parameters, gradients and optimizer state are each divided. The
// classic strategies are points of this space (N ranks, p of them close to each other):
//   ddp (1,1,1)   zero1 (1,1,N)   zero2 (1,N,N)   zero3 (N,N,N)   mics (p,p,p)
#pragma once

#include <string>

#include "base/result.h"
#include "base/units.h"
#include "train/mesh.h"

namespace lockstep {

struct Policy {
  int parameters = 1;
  int gradients = 1;
  int optimizer = 1;
  // Gradients are reduced in buckets of about this size, while backward computes the next. The
  // first to be ready is smaller, so that the network starts early.
  Bytes bucket = 25_MiB;
  Bytes first_bucket = 1_MiB;
};

// "ddp (1, 1, 1)", "zero2 (1, 4, 4)", "mics (2, 2, 2)".
std::string text(const Policy& policy, int world_size);

// Whether the engine can do it on this mesh; the error says what is missing.
Result<void> check(const Policy& policy, const Mesh& mesh);

}  // namespace lockstep
