// Which of a machine's GPUs a daemon offers: whole cards, of those that its own
// CUDA_VISIBLE_DEVICES names. Schedulers such as Slurm give a job a part of a machine so.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "map/discover/nvidia.h"

namespace lockstep::map {

struct OfferedGpus {
  std::vector<NvidiaGpu> gpus;
  std::vector<std::string> warnings;  // what is left out and what to do, one line each
};

// `visible` is CUDA_VISIBLE_DEVICES; nullopt: it is not set. It is read as CUDA does: numbers (by
// PCI address) or UUIDs, also shortened ones; the first entry that names no card ends the list, so
// "" and "NoDevFiles" leave none. Cards in MIG mode are left out: "0,1" does not name slices.
OfferedGpus offered_gpus(const std::vector<NvidiaGpu>& all,
                         const std::optional<std::string>& visible);

}  // namespace lockstep::map
