#include "map/discover/discover.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <hwloc.h>
#include <unistd.h>

#include "base/format.h"
#include "base/log.h"
#include "base/os/files.h"
#include "map/discover/nvidia.h"
#include "map/discover/offered_gpus.h"

namespace lockstep::map {
namespace {

struct TopologyCloser {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<std::remove_pointer_t<hwloc_topology_t>, TopologyCloser>;

struct BitmapFree {
  void operator()(hwloc_bitmap_t bitmap) const { hwloc_bitmap_free(bitmap); }
};
using Bitmap = std::unique_ptr<std::remove_pointer_t<hwloc_bitmap_t>, BitmapFree>;

Error hwloc_error(std::string_view what) { return os_error(format("{} with hwloc", what), errno); }

// The PCI bus is scanned only to locate a GPU on it: the scan takes most of the time, and
// libpciaccess never frees its result.
enum class PciBus { skipped, scanned };

Result<Topology> load_topology(PciBus bus) {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return hwloc_error("describing this machine");
  Topology topology(raw);
  if (bus == PciBus::scanned)
    hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  if (hwloc_topology_load(raw) != 0) return hwloc_error("describing this machine");
  return topology;
}

// The processing units that this process may run on. hwloc reports cgroups; affinity is queried.
Bitmap usable_units(hwloc_topology_t topology) {
  Bitmap usable(hwloc_bitmap_dup(hwloc_topology_get_allowed_cpuset(topology)));
  Bitmap bound(hwloc_bitmap_alloc());
  if (hwloc_get_cpubind(topology, bound.get(), HWLOC_CPUBIND_PROCESS) == 0 &&
      hwloc_bitmap_intersects(bound.get(), usable.get()) != 0)
    hwloc_bitmap_and(usable.get(), usable.get(), bound.get());
  return usable;
}

// Some virtual machines show no cores, only processing units.
hwloc_obj_type_t core_type(hwloc_topology_t topology) {
  return hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE) > 0 ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
}

std::vector<hwloc_obj_t> usable_cores(hwloc_topology_t topology) {
  Bitmap usable = usable_units(topology);
  std::vector<hwloc_obj_t> cores;
  hwloc_obj_t core = nullptr;
  while ((core = hwloc_get_next_obj_by_type(topology, core_type(topology), core)) != nullptr)
    if (hwloc_bitmap_intersects(core->cpuset, usable.get()) != 0) cores.push_back(core);
  return cores;
}

// The card on the bus, or the whole machine if hwloc does not list it: enough to find its NUMA
// node.
hwloc_obj_t object_of(hwloc_topology_t topology, const NvidiaGpu& gpu) {
  hwloc_obj_t object = nullptr;
  if (!gpu.pci.empty()) object = hwloc_get_pcidev_by_busidstring(topology, gpu.pci.c_str());
  return object != nullptr ? object : hwloc_get_root_obj(topology);
}

std::vector<hwloc_obj_t> objects_of(hwloc_topology_t topology, const std::vector<NvidiaGpu>& gpus) {
  std::vector<hwloc_obj_t> objects;
  for (const NvidiaGpu& gpu : gpus) objects.push_back(object_of(topology, gpu));
  return objects;
}

// The NUMA node whose processing units contain those of the object, or else the first one that
// shares some with it: a socket of several nodes is in none of them. The first node if the machine
// does not report one.
std::size_t numa_node_of(hwloc_topology_t topology, hwloc_obj_t object) {
  hwloc_obj_t with_cpus = hwloc_get_non_io_ancestor_obj(topology, object);
  hwloc_obj_t node = nullptr;
  std::size_t index = 0;
  std::optional<std::size_t> shares;
  while ((node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node)) != nullptr) {
    // Nodes without processing units (memory expanders) enclose nothing.
    if (hwloc_bitmap_iszero(node->cpuset) == 0 &&
        hwloc_bitmap_isincluded(with_cpus->cpuset, node->cpuset) != 0)
      return index;
    if (!shares && hwloc_bitmap_intersects(with_cpus->cpuset, node->cpuset) != 0) shares = index;
    ++index;
  }
  return shares.value_or(0);
}

// An island is an NVLink domain or a NUMA node; in the map the former come first.
using IslandKey = std::pair<bool, std::size_t>;
IslandKey nvlink_island(int domain) { return {false, static_cast<std::size_t>(domain)}; }
IslandKey numa_island(std::size_t node) { return {true, node}; }

std::vector<Island> in_order(std::map<IslandKey, Island> by_key) {
  std::vector<Island> islands;
  for (auto& [key, island] : by_key) islands.push_back(std::move(island));
  return islands;
}

std::vector<Island> islands_of_cores(hwloc_topology_t topology,
                                     const std::vector<hwloc_obj_t>& cores) {
  std::map<IslandKey, Island> islands;
  int number = 0;
  for (hwloc_obj_t core : cores)
    islands[numa_island(numa_node_of(topology, core))].devices.push_back(
        {DeviceKind::core, number++, std::nullopt, false});
  return in_order(std::move(islands));
}

// All that is known of a card.
struct FoundGpu {
  NvidiaGpu card;
  std::optional<Bytes> memory;
  std::optional<int> nvlink_domain;
};

std::vector<Island> islands_of_gpus(hwloc_topology_t topology, const std::vector<FoundGpu>& gpus) {
  std::map<IslandKey, Island> islands;
  for (const FoundGpu& gpu : gpus) {
    const IslandKey key = gpu.nvlink_domain
                              ? nvlink_island(*gpu.nvlink_domain)
                              : numa_island(numa_node_of(topology, object_of(topology, gpu.card)));
    islands[key].devices.push_back(
        {DeviceKind::gpu, gpu.card.number, gpu.memory, false, gpu.card.uuid});
  }
  return in_order(std::move(islands));
}

// The GPUs that are offered; a warning is logged for each that is left out.
std::vector<FoundGpu> find_gpus(const GpuSources& sources) {
  auto cards = usable_nvidia_gpus(sources.root);
  if (cards.empty()) return {};  // without loading NVML
  std::vector<std::string> pci;
  for (const NvidiaGpu& card : cards) pci.push_back(card.pci);
  const auto described = query_nvml(pci, sources.nvml);
  const auto domains = nvlink_domains(pci, described);
  for (std::size_t i = 0; i < cards.size(); ++i) {
    if (cards[i].uuid.empty()) cards[i].uuid = described[i].uuid;
    cards[i].mig = cards[i].mig || described[i].mig;
  }
  const auto offered = offered_gpus(cards, sources.visible);
  for (const std::string& warning : offered.warnings) LS_LOG(warning, "{}", warning);
  std::vector<FoundGpu> found;
  for (const NvidiaGpu& card : offered.gpus) {
    const auto i = static_cast<std::size_t>(card.number);
    found.push_back({card, described[i].memory, domains[i]});
  }
  return found;
}

std::optional<Bytes> memory_of(hwloc_topology_t topology) {
  hwloc_uint64_t total = hwloc_get_root_obj(topology)->total_memory;
  if (total == 0) return std::nullopt;
  return Bytes(static_cast<std::int64_t>(total));
}

// The host's name up to its first dot; characters that an id must not have are replaced.
std::string host_name() {
  std::array<char, 256> buffer{};
  if (::gethostname(buffer.data(), buffer.size() - 1) != 0) return "localhost";
  std::string name(buffer.data());
  name = name.substr(0, std::min<std::size_t>(name.find('.'), 64));
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '-') c = '-';
  return name.empty() ? "localhost" : name;
}

std::vector<int> numbers_in(const Bitmap& bitmap) {
  std::vector<int> numbers;
  for (int number = hwloc_bitmap_first(bitmap.get()); number >= 0;
       number = hwloc_bitmap_next(bitmap.get(), number))
    numbers.push_back(number);
  return numbers;
}

}  // namespace

Result<std::string> boot_id() {
  std::string content = TRY(read_file("/proc/sys/kernel/random/boot_id", 256));
  content.erase(std::find(content.begin(), content.end(), '\n'), content.end());
  return content;
}

Result<ClusterMap> discover_local() {
  GpuSources sources;
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES")) sources.visible = visible;
  return discover_local(sources);
}

Result<ClusterMap> discover_local(const GpuSources& sources) {
  const auto gpus = find_gpus(sources);
  Topology topology = TRY(load_topology(gpus.empty() ? PciBus::skipped : PciBus::scanned));
  auto cores = usable_cores(topology.get());
  if (cores.empty())
    return Error{Code::internal, "describing this machine: hwloc shows no core that may be used"};

  Host host;
  host.name = host_name();
  host.id = format("{}-{}", host.name, TRY(boot_id()).substr(0, 8));
  host.address = "127.0.0.1";  // the map has no other host
  host.memory = memory_of(topology.get());
  host.cores = static_cast<int>(cores.size());
  host.islands = gpus.empty() ? islands_of_cores(topology.get(), cores)
                              : islands_of_gpus(topology.get(), gpus);
  std::string name = host.name;
  ClusterMap map{std::move(name), {}, {Pod{"pod-0", {}, {Leaf{"leaf-0", {std::move(host)}}}}}};
  TRY(check(map));
  return map;
}

Result<std::vector<int>> processors_of(DeviceKind kind, std::span<const int> devices) {
  auto found = TRY(processors_of_each(kind, {std::vector<int>(devices.begin(), devices.end())}));
  return std::move(found.front());
}

Result<std::vector<std::vector<int>>> processors_of_each(
    DeviceKind kind, const std::vector<std::vector<int>>& sets) {
  const bool gpus = kind == DeviceKind::gpu;
  Topology topology = TRY(load_topology(gpus ? PciBus::scanned : PciBus::skipped));
  const auto known =
      gpus ? objects_of(topology.get(), usable_nvidia_gpus()) : usable_cores(topology.get());
  const Bitmap usable = usable_units(topology.get());
  std::vector<std::vector<int>> found;
  for (const std::vector<int>& devices : sets) {
    Bitmap units(hwloc_bitmap_alloc());
    for (const int device : devices) {
      if (device < 0 || std::cmp_greater_equal(device, known.size()))
        return Error{Code::not_found,
                     format("this machine has no {} {}", lockstep::name_of(kind), device)};
      const auto object = known[static_cast<std::size_t>(device)];
      hwloc_bitmap_or(units.get(), units.get(),
                      hwloc_get_non_io_ancestor_obj(topology.get(), object)->cpuset);
    }
    hwloc_bitmap_and(units.get(), units.get(), usable.get());
    found.push_back(numbers_in(units));
  }
  return found;
}

}  // namespace lockstep::map
