// Policy: over how many ranks parameters, gradients and optimizer state are each divided. The
// classic strategies are special cases (N ranks, p of them close to each other):
//   ddp (1,1,1)   zero1 (1,1,N)   zero2 (1,N,N)   zero3 (N,N,N)
//   mics:p (p,p,p)   mics:p+opt (p,p,N)
// or that servers hold them, and workers push gradients and pull parameters (ps:K).
// (Rajbhandari et al., "ZeRO", SC 2020; Zhang et al., "MiCS", VLDB 2022.)
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace lockstep::train {

// parameters is 1 or equals gradients; optimizer equals gradients or is all ranks; each divides the
// next.
struct Policy {
  int parameters = 1;
  int gradients = 1;
  int optimizer = 1;
  // Keeps divided parameters gathered from forward to backward: a third fewer bytes are sent, and
  // all units are in memory at once.
  bool keep_gathered = false;
  // Keeps only the inputs of a block's forward, and runs it again in backward: a third more
  // computing, for memory that grows with the largest block and not with the number of blocks.
  bool recompute = false;
  // The optimizer steps on the CPU: masters of all types and its state are in main memory, the
  // device has the values and gradients. Without effect for a model on the CPU.
  bool offload = false;
  // shard() chooses the three numbers, when it knows the model: the smallest group with which
  // training fits into a device's memory (choose_policy.h).
  bool automatic = false;
  Bytes memory = 0_B;  // of a device, for that; zero: what it has
  // If parameters are whole, gradients are reduced in buckets of about this size, while backward
  // computes the next. The first bucket is smaller, so that the network starts early.
  Bytes bucket = 25_MiB;
  Bytes first_bucket = 1_MiB;
  // The ranks that hold parameters and optimizer state for all others, a slice each; empty: none
  // (docs/design/parameter-server.md).
  std::vector<int> servers = {};
  // With servers: a gradient is computed from parameters that lack at most so many of the updates
  // before its own. Nothing: there is no bound.
  std::optional<int> staleness = 0;

  bool has_servers() const { return !servers.empty(); }
  bool is_server(int rank) const {
    return std::find(servers.begin(), servers.end(), rank) != servers.end();
  }
};

// Parses a name as above or "auto", "auto:16GiB" for another memory size than the device's;
// followed by "+keep", if parameters are divided, "+recompute" and "+offload". With servers:
// "ps:2" (the last two ranks, synchronous), "ps:2,staleness=4", "ps:2,async",
// "ps:2,async,servers=0;4".
Result<Policy> parse_policy(std::string_view name, int world_size);

// "ddp (1, 1, 1)", "zero2 (1, 4, 4)", "mics:2+opt+keep (2, 2, 4)", "ps:2,staleness=4 (servers 4,
// 5)".
std::string text(const Policy& policy, int world_size);

// Checks that the sizes fit together and divide the world size; the error says which do.
Result<void> check(const Policy& policy, int world_size);

}  // namespace lockstep::train
