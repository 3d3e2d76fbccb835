#include "platform/core/sched/capacity/choose_hosts.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <tuple>

#include "platform/core/sched/capacity/fragmentation.h"

namespace lockstep::sched {
namespace {

using Hosts = std::vector<int>;

// The lowest host of the pod with at least so many free devices; it must exist.
int lowest_host(const FreeCapacity& capacity, int pod, int devices) {
  int host = capacity.table().pods[as_index(pod)].first;
  while (capacity.free(host) < devices) ++host;
  return host;
}

int lowest_host_with_exactly(const FreeCapacity& capacity, int pod, int devices) {
  int host = capacity.table().pods[as_index(pod)].first;
  while (capacity.free(host) != devices) ++host;
  return host;
}

// Among the pods with a host that has exactly so many free devices, the one with the fewest empty
// hosts.
int tightest_pod_with(const FreeCapacity& capacity, int devices) {
  int best = -1;
  for (int pod = 0; pod < capacity.table().pod_count(); ++pod) {
    if (capacity.hosts_with_exactly(pod, devices) == 0) continue;
    if (best < 0 || capacity.empty_hosts(pod) < capacity.empty_hosts(best)) best = pod;
  }
  return best;
}

Hosts tightest_host(const FreeCapacity& capacity, int devices) {
  for (int free = devices; free <= capacity.table().devices_per_host_max; ++free)
    if (capacity.all_hosts_with(free) > capacity.all_hosts_with(free + 1))
      return {lowest_host_with_exactly(capacity, tightest_pod_with(capacity, free), free)};
  return {};
}

// The least growth of fragmentation in the pod, then on the host; then as tightest_host().
Hosts least_fragmenting_host(const FreeCapacity& capacity, int devices) {
  const HostTable& table = capacity.table();
  std::optional<std::tuple<int, int, int, int, int>> best;  // the last element is the pod
  for (int pod = 0; pod < table.pod_count(); ++pod) {
    const auto [first, end] = table.pods[as_index(pod)];
    for (int free = devices; free <= table.devices_per_host_max; ++free) {
      if (capacity.hosts_with_exactly(pod, free) == 0) continue;
      const int host = lowest_host_with_exactly(capacity, pod, free);
      const bool was_empty = free == table.capacity[as_index(host)];
      const int in_pod = was_empty ? pod_growth(capacity.empty_hosts(pod), 1, end - first) : 0;
      const std::tuple score(in_pod, host_growth(free, devices, table.devices_per_host_max), free,
                             capacity.empty_hosts(pod), pod);
      if (!best || score < *best) best = score;
    }
  }
  if (!best) return {};
  return {lowest_host_with_exactly(capacity, std::get<4>(*best), std::get<2>(*best))};
}

Hosts lowest_host_of_all(const FreeCapacity& capacity, int devices) {
  for (int pod = 0; pod < capacity.table().pod_count(); ++pod)
    if (capacity.hosts_with(pod, devices) > 0) return {lowest_host(capacity, pod, devices)};
  return {};
}

std::optional<int> pod_for(const FreeCapacity& capacity, const Shape& shape, Fit fit) {
  std::optional<int> best;
  const auto spare = [&](int pod) {
    const auto [first, end] = capacity.table().pods[as_index(pod)];
    const int empty = capacity.empty_hosts(pod);
    const int growth = fit == Fit::fragmentation && empty >= shape.nodes
                           ? pod_growth(empty, shape.nodes, end - first)
                           : 0;
    return std::tuple(growth, capacity.hosts_with(pod, shape.devices), empty);
  };
  for (int pod = 0; pod < capacity.table().pod_count(); ++pod) {
    if (!capacity.fits_in_pod(shape, pod)) continue;
    if (fit == Fit::first) return pod;
    if (!best || spare(pod) < spare(*best)) best = pod;
  }
  return best;
}

// So many of the pod's hosts that fit: those with the fewest free devices (or the lowest), in the
// map's order.
Hosts hosts_in(const FreeCapacity& capacity, int pod, int nodes, int devices, Fit fit) {
  Hosts fitting;
  const auto [first, end] = capacity.table().pods[as_index(pod)];
  for (int host = first; host < end; ++host)
    if (capacity.free(host) >= devices) fitting.push_back(host);
  if (fit != Fit::first)
    std::ranges::stable_sort(fitting, {}, [&](int host) { return capacity.free(host); });
  fitting.resize(as_index(nodes));
  std::ranges::sort(fitting);
  return fitting;
}

// The host for the remainder in [first, end), except the chosen ones; it must exist.
int remainder_host(const FreeCapacity& capacity, int first, int end, const Hosts& chosen,
                   int devices, Fit fit) {
  int best = -1;
  for (int host = first; host < end; ++host) {
    if (capacity.free(host) < devices || std::ranges::binary_search(chosen, host)) continue;
    if (fit == Fit::first) return host;
    if (best < 0 || capacity.free(host) < capacity.free(best)) best = host;
  }
  return best;
}

Hosts in_one_pod(const FreeCapacity& capacity, const Shape& shape, Fit fit) {
  const auto pod = pod_for(capacity, shape, fit);
  if (!pod) return {};
  Hosts hosts = hosts_in(capacity, *pod, shape.nodes, shape.devices, fit);
  const auto [first, end] = capacity.table().pods[as_index(*pod)];
  if (shape.remainder > 0)
    hosts.push_back(remainder_host(capacity, first, end, hosts, shape.remainder, fit));
  return hosts;
}

// The fewest pods that together have enough hosts, the one with the fewest last.
std::vector<int> fewest_pods(const FreeCapacity& capacity, const Shape& shape) {
  std::vector<int> pods(as_index(capacity.table().pod_count()));
  std::iota(pods.begin(), pods.end(), 0);
  const auto fitting = [&](int pod) { return capacity.hosts_with(pod, shape.devices); };
  std::ranges::stable_sort(pods, std::greater<>{}, fitting);
  int hosts = 0;
  std::size_t count = 0;
  while (hosts < shape.nodes) hosts += fitting(pods[count++]);
  pods.resize(count);
  return pods;
}

Hosts over_pods(const FreeCapacity& capacity, const Shape& shape, Fit fit) {
  if (!capacity.fits_over_pods(shape)) return {};
  Hosts hosts;
  auto pods = fewest_pods(capacity, shape);
  for (int missing = shape.nodes; !pods.empty(); pods.pop_back()) {
    const int share = missing / static_cast<int>(pods.size());
    const int most = capacity.hosts_with(pods.back(), shape.devices);
    // The rest of the division goes to the last pod, which has the most hosts.
    const int nodes = pods.size() == 1 ? missing : std::min(share, most);
    const Hosts part = hosts_in(capacity, pods.back(), nodes, shape.devices, fit);
    hosts.insert(hosts.end(), part.begin(), part.end());
    missing -= nodes;
  }
  std::ranges::sort(hosts);
  if (shape.remainder > 0)
    hosts.push_back(
        remainder_host(capacity, 0, capacity.table().host_count(), hosts, shape.remainder, fit));
  return hosts;
}

}  // namespace

std::vector<int> choose_hosts(const FreeCapacity& capacity, const Gang& gang, Fit fit) {
  if (!can_be_placed(gang.scope)) return {};
  if (gang.scope == PlacementScope::several_pods) return over_pods(capacity, gang.shape, fit);
  const bool alone = gang.shape.nodes == 1 && gang.shape.remainder == 0;
  if (!alone) return in_one_pod(capacity, gang.shape, fit);
  switch (fit) {
    case Fit::first:
      return lowest_host_of_all(capacity, gang.shape.devices);
    case Fit::best:
      return tightest_host(capacity, gang.shape.devices);
    case Fit::fragmentation:
      break;
  }
  return least_fragmenting_host(capacity, gang.shape.devices);
}

}  // namespace lockstep::sched
