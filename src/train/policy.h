// Policy: over how many ranks parameters, gradients and optimizer state are each divided. The
// classic strategies are points of this space (N ranks, p of them close to each other):
//   ddp (1,1,1)   zero1 (1,1,N)   zero2 (1,N,N)   zero3 (N,N,N)   mics:p (p,p,p)   mics:p+opt
//   (p,p,N)
// (Rajbhandari et al., "ZeRO", SC 2020; Zhang et al., "MiCS", VLDB 2022.)
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "base/units.h"

namespace lockstep {

// parameters is 1 or as gradients; optimizer is as gradients or all ranks; each divides the next.
struct Policy {
  int parameters = 1;
  int gradients = 1;
  int optimizer = 1;
  // Whether divided parameters stay gathered from forward to backward: a third fewer bytes are
  // sent, and all units are in memory at once.
  bool keep = false;
  // Whether a block keeps nothing of its forward but its inputs, and runs it again in backward: a
  // third more computing, for memory that grows with the largest block and not with their number.
  bool recompute = false;
  // Whether shard() chooses the three numbers, when it knows the model: the smallest group with
  // which training fits into a device's memory (choose.h).
  bool automatic = false;
  Bytes memory = 0_B;  // of a device, for that; zero: what it has
  // Where parameters are whole, gradients are reduced in buckets of about this size, while backward
  // computes the next. The first to be ready is smaller, so that the network starts early.
  Bytes bucket = 25_MiB;
  Bytes first_bucket = 1_MiB;
};

// From a name as above or "auto", "auto:16GiB" for another memory than the device's; behind it
// "+keep", where parameters are divided, and "+recompute".
Result<Policy> parse_policy(std::string_view name, int world_size);

// "ddp (1, 1, 1)", "zero2 (1, 4, 4)", "mics:2+opt+keep (2, 2, 4)".
std::string text(const Policy& policy, int world_size);

// Whether its sizes fit together and divide so many ranks; the error says which do.
Result<void> check(const Policy& policy, int world_size);

}  // namespace lockstep
