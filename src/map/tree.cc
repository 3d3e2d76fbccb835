#include "map/tree.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "base/format.h"
#include "map/query.h"
#include "text/display/table.h"

namespace lockstep::map {
namespace {

struct Branches {
  std::string_view middle, last, beside, blank;
};
constexpr Branches kUtf8 = {"├─ ", "└─ ", "│  ", "   "};
constexpr Branches kAscii = {"|- ", "`- ", "|  ", "   "};

struct Line {
  std::string name;   // with its branches
  std::string sums;   // totals below it
  std::string links;  // links between its parts, and to its leaf
};

// A sum that is unknown if one of its parts is.
class Memory {
 public:
  void add(const std::optional<Bytes>& part) {
    sum_ = sum_ && part ? std::optional(*sum_ + *part) : std::nullopt;
  }
  std::string text() const { return sum_ ? lockstep::text(*sum_) : "unknown"; }

 private:
  std::optional<Bytes> sum_ = Bytes(0);
};

std::string counted(std::size_t count, std::string_view what) {
  return format("{} {}{}", count, what, count == 1 ? "" : "s");
}

// "8 GPUs (memory 640.0 GiB), 4 shared cores". A core has no memory of its own.
std::string device_sums(const std::vector<const Device*>& all) {
  std::size_t gpus = 0, cores = 0, shared_cores = 0, shared_gpus = 0;
  Memory memory;
  for (const Device* device : all) {
    bool is_gpu = device->kind == DeviceKind::gpu;
    ++(is_gpu ? device->shared ? shared_gpus : gpus : device->shared ? shared_cores : cores);
    if (is_gpu) memory.add(device->memory);
  }
  std::vector<std::string> parts;
  if (gpus > 0) parts.push_back(counted(gpus, "GPU"));
  if (shared_gpus > 0) parts.push_back(counted(shared_gpus, "shared GPU"));
  if (!parts.empty()) parts.back() += format(" (memory {})", memory.text());
  if (cores > 0) parts.push_back(counted(cores, "core"));
  if (shared_cores > 0) parts.push_back(counted(shared_cores, "shared core"));
  return joined(parts, ", ");
}

std::string host_sums(const std::vector<const Host*>& all) {
  std::vector<const Device*> below;
  Memory memory;
  for (const Host* host : all) {
    for (const Device* device : devices(*host)) below.push_back(device);
    memory.add(host->memory);
  }
  return format("{}; memory {}", device_sums(below), memory.text());
}

// With its id if its name differs: errors and placements identify hosts by id.
std::string host_title(const Host& host) {
  if (name_of(host) == host.id) return "host " + host.id;
  return format("host {} ({})", host.name, host.id);
}

std::string link_text(std::string_view what, const LinkSpeed& link) {
  return format("{} {}", what, text(link));
}

// Collects the lines from the root down; links that join fewer than two things are left out.
class Tree {
 public:
  explicit Tree(const Branches& branches) : branches_(branches) {}

  std::string draw(const ClusterMap& map) {
    auto all = hosts(map);
    has_neighbours_ = all.size() > 1;
    add("", "", format("cluster {}", map.name.empty() ? "(unnamed)" : map.name),
        all.empty() ? "no hosts" : format("{}: {}", counted(all.size(), "host"), host_sums(all)),
        map.pods.size() > 1 ? link_text("between pods", map.between_pods) : "");
    for (std::size_t i = 0; i < map.pods.size(); ++i)
      add_pod(map.pods[i], i, i + 1 == map.pods.size());
    return aligned();
  }

 private:
  void add(std::string_view indent, std::string_view branch, std::string_view name,
           std::string sums, std::string links) {
    lines_.push_back({format("{}{}{}", indent, branch, name), std::move(sums), std::move(links)});
  }
  std::string_view branch(bool is_last) const {
    return is_last ? branches_.last : branches_.middle;
  }
  std::string below(const std::string& indent, bool is_last) const {
    return indent + std::string(is_last ? branches_.blank : branches_.beside);
  }

  void add_pod(const Pod& pod, std::size_t index, bool is_last) {
    auto all = hosts(pod);
    const std::string engine = pod.engine.empty() ? "" : format("; engine {}", pod.engine);
    add("", branch(is_last), pod.name.empty() ? format("pod {}", index) : "pod " + pod.name,
        format("{}: {}{}", counted(all.size(), "host"), host_sums(all), engine),
        pod.leaves.size() > 1 ? link_text("between leaves", pod.between_leaves) : "");
    std::string indent = below("", is_last);
    for (std::size_t i = 0; i < pod.leaves.size(); ++i)
      add_leaf(pod.leaves[i], i, indent, i + 1 == pod.leaves.size());
  }

  void add_leaf(const Leaf& leaf, std::size_t index, const std::string& indent, bool is_last) {
    std::vector<const Host*> all;
    for (const Host& host : leaf.hosts) all.push_back(&host);
    add(indent, branch(is_last), leaf.name.empty() ? format("leaf {}", index) : "leaf " + leaf.name,
        format("{}: {}", counted(all.size(), "host"), host_sums(all)), "");
    for (const Host* host : all) add_host(*host, below(indent, is_last), host == all.back());
  }

  void add_host(const Host& host, const std::string& indent, bool is_last) {
    std::vector<std::string> links;
    if (has_neighbours_) links.push_back(link_text("to leaf", host.to_leaf));
    if (host.islands.size() > 1)
      links.push_back(link_text("between islands", host.between_islands));
    std::string cores =
        host.cores ? format("; {}", counted(static_cast<std::size_t>(*host.cores), "core")) : "";
    bool has_gpus = false;
    for (const Device* device : devices(host)) has_gpus |= device->kind == DeviceKind::gpu;
    const std::string labels =
        host.labels.empty() ? "" : format("; labels {}", labels_text(host.labels));
    add(indent, branch(is_last), host_title(host),
        host_sums({&host}) + (has_gpus ? cores : "") + labels, joined(links, "; "));
    for (std::size_t i = 0; i < host.islands.size(); ++i)
      add_island(host.islands[i], i, below(indent, is_last), i + 1 == host.islands.size());
  }

  void add_island(const Island& island, std::size_t index, const std::string& indent,
                  bool is_last) {
    std::vector<const Device*> all;
    for (const Device& device : island.devices) all.push_back(&device);
    add(indent, branch(is_last), format("island {}", index), device_sums(all),
        all.size() > 1 ? link_text("between devices", island.between_devices) : "");
  }

  std::string aligned() const {
    std::size_t name_width = 0, sums_width = 0;
    for (const Line& line : lines_) {
      name_width = std::max(name_width, display_width(line.name));
      sums_width = std::max(sums_width, display_width(line.sums));
    }
    std::string result;
    for (const Line& line : lines_) {
      result += fit_to_width(line.name, name_width) + "  ";
      result +=
          line.links.empty() ? line.sums : fit_to_width(line.sums, sums_width) + "  " + line.links;
      result += "\n";
    }
    return result;
  }

  const Branches& branches_;
  bool has_neighbours_ = false;
  std::vector<Line> lines_;
};

std::string level_text(std::string_view what, const MeasuredLevel& level) {
  return format("{} {:.2f} Gbit/s, {:.1f}us", what, level.gbit_per_second, level.latency_us);
}

std::string measured_text(const Measured& measured) {
  std::vector<std::string> parts;
  if (measured.within_host) parts.push_back(level_text("within a host", *measured.within_host));
  if (measured.between_hosts) parts.push_back(level_text("between hosts", *measured.between_hosts));
  if (measured.reduction_gbyte_per_second)
    parts.push_back(format("reduction {:.1f} GB/s", *measured.reduction_gbyte_per_second));
  if (!measured.tuned.empty())
    parts.push_back(format("{} ranges of tuned calls", measured.tuned.size()));
  const std::string over = measured.fabric.empty() ? "" : format(" ({})", measured.fabric);
  return format("measured{}: {}\n", over, parts.empty() ? "nothing" : joined(parts, "; "));
}

}  // namespace

std::string text(const ClusterMap& map, TreeStyle style) {
  const std::string tree = Tree(style == TreeStyle::utf8 ? kUtf8 : kAscii).draw(map);
  return map.measured ? tree + measured_text(*map.measured) : tree;
}

std::string text(const LinkSpeed& link) {
  if (!link.bandwidth && !link.latency) return "unknown";
  return format("{}, {}", link.bandwidth ? lockstep::text(*link.bandwidth) : "unknown bandwidth",
                link.latency ? lockstep::text(*link.latency) : "unknown latency");
}

}  // namespace lockstep::map
