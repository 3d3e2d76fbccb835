#include "platform/engine/slurm/slurm_parts.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "base/format.h"

namespace lockstep::engine {
namespace {

// The map takes it as a part of a host's name.
bool can_name_part(const SlurmGpus& gpus) {
  return !gpus.type.empty() && std::ranges::all_of(gpus.type, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
  });
}

SlurmHost part_of(const SlurmHost& host, const SlurmGpus& gpus) {
  SlurmHost part = host;
  part.name = format("{}.gpu-{}", host.name, gpus.type);
  part.whole = host.name;
  part.gpus = gpus.count;
  part.gpu_types = {gpus};
  part.cores = std::max(1, host.cores * gpus.count / host.gpus);
  part.memory_mib = host.memory_mib * gpus.count / host.gpus;
  return part;
}

}  // namespace

std::vector<SlurmHost> parts_by_gpu_type(std::vector<SlurmHost> hosts) {
  std::vector<SlurmHost> parts;
  for (SlurmHost& host : hosts) {
    const bool has_parts = host.gpus > 0 && host.gpu_types.size() > 1 &&
                           std::ranges::all_of(host.gpu_types, can_name_part);
    if (has_parts)
      for (const SlurmGpus& gpus : host.gpu_types) parts.push_back(part_of(host, gpus));
    else
      parts.push_back(std::move(host));
  }
  return parts;
}

}  // namespace lockstep::engine
