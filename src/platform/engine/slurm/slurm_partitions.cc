#include "platform/engine/slurm/slurm_partitions.h"

#include <algorithm>
#include <utility>

#include "base/format.h"

namespace lockstep::engine {
namespace {

Error wrong_partitions(std::string_view words) {
  return {Code::invalid,
          format("--slurm-partition {}: write the name of a partition, or one for each kind of "
                 "device: gpu=NAME,core=NAME",
                 words)};
}

// Null: the host is in none of them, or lacks the devices.
const SlurmPartition* partition_of(const SlurmHost& host,
                                   const std::vector<SlurmPartition>& partitions) {
  const auto found = std::ranges::find_if(partitions, [&](const SlurmPartition& one) {
    const bool is_in = std::ranges::find(host.partitions, one.name) != host.partitions.end();
    return is_in && (one.kind != map::DeviceKind::gpu || host.gpus > 0);
  });
  return found == partitions.end() ? nullptr : &*found;
}

}  // namespace

Result<std::vector<SlurmPartition>> parse_slurm_partitions(std::string_view words) {
  std::vector<SlurmPartition> partitions;
  std::string_view rest = words;
  while (!rest.empty()) {
    const std::string_view one = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(one.size() + 1, rest.size()));
    const std::size_t equals = one.find('=');
    if (equals == std::string_view::npos) {
      partitions.push_back({.name = std::string(one)});
      continue;
    }
    const auto kind = parse_name<map::DeviceKind>(one.substr(0, equals));
    if (!kind) return wrong_partitions(words);
    partitions.push_back({.name = std::string(one.substr(equals + 1)), .kind = *kind});
  }
  for (const SlurmPartition& one : partitions) {
    const bool is_alone = partitions.size() == 1;
    const auto same = std::ranges::count(partitions, one.kind, &SlurmPartition::kind);
    if (one.name.empty() || (!one.kind && !is_alone) || same > 1) return wrong_partitions(words);
  }
  return partitions;
}

std::vector<SlurmHost> hosts_of_partitions(std::vector<SlurmHost> hosts,
                                           const std::vector<SlurmPartition>& partitions) {
  std::vector<SlurmHost> found;
  for (SlurmHost& host : hosts) {
    const SlurmPartition* partition = partition_of(host, partitions);
    if (!partition) continue;
    host.partition = partition->name;
    if (partition->kind == map::DeviceKind::core) host.gpus = 0;
    found.push_back(std::move(host));
  }
  return found;
}

}  // namespace lockstep::engine
