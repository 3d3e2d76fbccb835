#include "platform/core/sched/capacity/free_capacity.h"

#include "map/taints.h"

namespace lockstep::sched {

FreeCapacity::FreeCapacity(const HostTable& table)
    : table_(&table),
      free_(table.capacity),
      empty_(as_index(table.pod_count()), 0),
      host_counts_(as_index(table.pod_count() + 1) * as_index(table.devices_per_host_max + 1), 0) {
  for (int host = 0; host < table.host_count(); ++host) {
    const int pod = table.pod_of[as_index(host)], now = free(host);
    ++host_counts_[cell(pod, now)];
    ++host_counts_[cell(table.pod_count(), now)];
    empty_[as_index(pod)] += int{now > 0};
    free_in_all_ += now;
  }
  // Up to here the counts are for exactly so many free devices.
  for (int pod = 0; pod <= table.pod_count(); ++pod)
    for (int d = table.devices_per_host_max; d > 0; --d)
      host_counts_[cell(pod, d - 1)] += host_counts_[cell(pod, d)];
}

void FreeCapacity::set_closed(int host, bool closed) {
  if (closed_.empty() && !closed) return;
  if (closed_.empty()) closed_.resize(free_.size(), 0);
  const int before = free(host);
  closed_[as_index(host)] = static_cast<char>(closed);
  recount(host, before);
}

void FreeCapacity::restrict_to(const model::Needs& needs) {
  if (!restricted_ && needs == model::Needs{}) return;
  std::vector<int> before;
  before.reserve(free_.size());
  for (int host = 0; host < table_->host_count(); ++host) before.push_back(free(host));
  restricted_ = true;
  needs_ = needs;
  for (int host = 0; host < table_->host_count(); ++host) recount(host, before[as_index(host)]);
}

bool FreeCapacity::meets_needs(int host) const {
  const HostTable::Traits& has = table_->traits[as_index(host)];
  const NodeResources taken = taken_.empty() ? NodeResources{} : taken_[as_index(host)];
  return (!needs_.kind || needs_.kind == has.kind) && needs_.device_memory <= has.device_memory &&
         needs_.cores <= has.cores - taken.cores && needs_.memory <= has.memory - taken.memory &&
         (!needs_.labels || map::has_labels(has.labels, *needs_.labels)) &&
         (!has.has_taints || map::tolerates(needs_.tolerations, has.labels));
}

void FreeCapacity::change_taken(int host, const NodeResources& load, int sign) {
  if (taken_.empty()) taken_.resize(free_.size());
  taken_[as_index(host)].cores -= sign * load.cores;
  taken_[as_index(host)].memory -= sign * load.memory;
}

bool FreeCapacity::fits(const Gang& gang) const {
  if (!can_be_placed(gang.scope)) return false;
  if (gang.scope == PlacementScope::several_pods) return fits_over_pods(gang.shape);
  for (int pod = 0; pod < table_->pod_count(); ++pod)
    if (fits_in_pod(gang.shape, pod)) return true;
  return false;
}

PlacementScope placement_scope_of(const FreeCapacity& empty, const Shape& shape) {
  if (empty.fits({shape, PlacementScope::one_pod})) return PlacementScope::one_pod;
  return empty.fits_over_pods(shape) ? PlacementScope::several_pods : PlacementScope::impossible;
}

}  // namespace lockstep::sched
