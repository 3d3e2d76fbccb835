// The Map: the whole cluster as one value: cluster > pod (one fast network) > leaf switch > host >
// island (GPUs joined by a fast link, or a NUMA node) > device, and how fast the parts of each
// communicate. A value that is neither declared nor measured is unknown: nullopt, never 0.
//
// Files and the API have the same fields (map/map_file.h); map/query.h answers questions about a
// map.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "map/labels.h"
#include "text/record.h"

namespace lockstep::map {

// One direction, for one pair that uses the link alone.
struct LinkSpeed {
  std::optional<Bandwidth> bandwidth;
  std::optional<Duration> latency;
  bool operator==(const LinkSpeed&) const = default;

  static constexpr auto fields() {
    return record<LinkSpeed>(
        field("bandwidth", &LinkSpeed::bandwidth, "such as 10 Gbit/s; null: unknown"),
        field("latency", &LinkSpeed::latency, "one way, such as 20us; null: unknown"));
  }
};

enum class DeviceKind { gpu, core };
constexpr auto enum_names(DeviceKind) {
  return names<DeviceKind>({{DeviceKind::gpu, "gpu"}, {DeviceKind::core, "core"}});
}

// The device that one rank computes on.
struct Device {
  DeviceKind kind = DeviceKind::gpu;
  int number = 0;  // of the GPU or core on its machine, as CUDA_VISIBLE_DEVICES counts
  std::optional<Bytes> memory;
  bool shared = false;    // other devices of the map represent the same GPU or core
  std::string uuid = {};  // of a GPU, as CUDA_VISIBLE_DEVICES names it: "GPU-..."; empty: unknown
  bool operator==(const Device&) const = default;
};

// Devices with consecutive numbers and otherwise equal: the written form of devices.
struct DeviceGroup {
  DeviceKind kind = DeviceKind::gpu;
  int count = 1;
  std::optional<int> first;  // number of the first; absent: continues after the host's last
  std::optional<Bytes> memory;
  bool shared = false;
  std::vector<std::string> uuids = {};  // one for each device, or none

  static constexpr auto fields() {
    return record<DeviceGroup>(
        required(field("kind", &DeviceGroup::kind, "gpu or core")),
        field("count", &DeviceGroup::count, "how many such devices"),
        field("first", &DeviceGroup::first, "number of the first; null: goes on after the last"),
        field("memory", &DeviceGroup::memory, "of each, such as 80 GiB; null: unknown"),
        field("shared", &DeviceGroup::shared, "other devices stand for the same GPU or core"),
        field("uuids", &DeviceGroup::uuids, "of GPUs, one for each, such as GPU-6ca3...; or none"));
  }
};

struct IslandForm {
  LinkSpeed between_devices;
  std::vector<DeviceGroup> devices;

  static constexpr auto fields() {
    return record<IslandForm>(
        field("between_devices", &IslandForm::between_devices, "link between its devices"),
        required(field("devices", &IslandForm::devices, "its devices, in groups")));
  }
};

struct Island {
  LinkSpeed between_devices;
  std::vector<Device> devices;
  bool operator==(const Island&) const = default;

  using Form = IslandForm;
  Form form() const;
  // Numbers that the form omits are -1 until map/map_file.h has read the whole host.
  static Result<Island> from_form(const Form& form);
};

struct Host {
  std::string id;       // unique in the map; ranks whose hosts' ids are equal may share memory
  std::string name;     // the name shown to users; empty: the id
  std::string address;  // the address for other hosts; empty: the id
  std::optional<Bytes> memory;
  std::optional<int> cores;
  LinkSpeed to_leaf;
  LinkSpeed between_islands;
  std::vector<Island> islands;
  Labels labels = {};
  bool operator==(const Host&) const = default;

  static constexpr auto fields() {
    return record<Host>(
        required(field("id", &Host::id, "unique name; equal ids may share memory")),
        field("name", &Host::name, "what people call it; empty: the id"),
        field("address", &Host::address, "where other hosts reach it; empty: the id"),
        field("memory", &Host::memory, "main memory, such as 512 GiB; null: unknown"),
        field("cores", &Host::cores, "CPU cores; null: unknown"),
        field("to_leaf", &Host::to_leaf, "link to its leaf switch"),
        field("between_islands", &Host::between_islands, "link between its islands"),
        required(field("islands", &Host::islands, "groups of close devices")),
        field("labels", &Host::labels, "for which runs may ask, such as rack: a3"));
  }
};

struct Leaf {
  std::string name;
  std::vector<Host> hosts;
  bool operator==(const Leaf&) const = default;

  static constexpr auto fields() {
    return record<Leaf>(field("name", &Leaf::name, "what people call the switch"),
                        required(field("hosts", &Leaf::hosts, "hosts on this switch")));
  }
};

struct Pod {
  std::string name;
  LinkSpeed between_leaves;
  std::vector<Leaf> leaves;
  std::string engine = {};  // what starts agents on its hosts; empty: the only engine
  bool operator==(const Pod&) const = default;

  static constexpr auto fields() {
    return record<Pod>(
        field("name", &Pod::name, "what people call it"),
        field("between_leaves", &Pod::between_leaves, "link from leaf to leaf of this pod"),
        required(field("leaves", &Pod::leaves, "its leaf switches")),
        field("engine", &Pod::engine, "what starts agents there; empty: the only engine"));
  }
};

// The measured cost of messages between two ranks: it includes software, where LinkSpeed is the
// wire alone.
struct MeasuredLevel {
  double latency_us = 0;
  double overhead_us = 0;
  double gbit_per_second = 0;
  bool operator==(const MeasuredLevel&) const = default;

  static constexpr auto fields() {
    return record<MeasuredLevel>(
        required(field("latency_us", &MeasuredLevel::latency_us,
                       "of a lone message, from its sender's memory to its receiver's")),
        field("overhead_us", &MeasuredLevel::overhead_us,
              "of that, what keeps each end from its next message"),
        required(field("gbit_per_second", &MeasuredLevel::gbit_per_second,
                       "of one message after the other, between two ranks alone")));
  }
};

// The fastest plan of whole calls, measured by `lockstep tune`: for an operation in groups of this
// many ranks on this many hosts, up to a size. Names are those of comm/choice.
struct TunedRange {
  std::string operation;
  int hosts = 0;
  int ranks = 0;  // in all
  Bytes up_to{};
  std::string plan;
  bool operator==(const TunedRange&) const = default;

  static constexpr auto fields() {
    return record<TunedRange>(
        required(field("operation", &TunedRange::operation, "such as all_reduce")),
        required(field("hosts", &TunedRange::hosts, "on which the group's ranks are")),
        required(field("ranks", &TunedRange::ranks, "of the group, in all")),
        required(field("up_to", &TunedRange::up_to,
                       "the largest rank's share that is carried out so, such as 64 KiB")),
        required(field("plan", &TunedRange::plan, "such as ring, or ring,hierarchical")));
  }
};

// Measured by `lockstep probe` and `lockstep tune`; collectives choose their algorithms by it
// (comm/cost). A value that is not measured is null.
struct Measured {
  std::string fabric;  // the network, such as "tcp over eth1"
  std::optional<MeasuredLevel> within_host;
  std::optional<MeasuredLevel> between_hosts;
  std::optional<double> reduction_gbyte_per_second;
  std::vector<TunedRange> tuned = {};
  bool operator==(const Measured&) const = default;

  static constexpr auto fields() {
    return record<Measured>(
        field("fabric", &Measured::fabric, "over what hosts reach one another: tcp over eth1"),
        field("within_host", &Measured::within_host, "messages between ranks of one host"),
        field("between_hosts", &Measured::between_hosts, "messages between ranks of two hosts"),
        field("reduction_gbyte_per_second", &Measured::reduction_gbyte_per_second,
              "of float32 that a rank adds up while all ranks of its host do"),
        field("tuned", &Measured::tuned,
              "of which calls it was measured which plan is the fastest; others are predicted"));
  }
};

struct ClusterMap {
  std::string name;
  LinkSpeed between_pods;
  std::vector<Pod> pods;
  std::optional<Measured> measured = {};
  bool operator==(const ClusterMap&) const = default;

  static constexpr auto fields() {
    return record<ClusterMap>(
        field("name", &ClusterMap::name, "what people call the cluster"),
        field("between_pods", &ClusterMap::between_pods, "link from a leaf to one of another pod"),
        field("measured", &ClusterMap::measured,
              "what `lockstep probe` and `tune` found; null: nothing measured"),
        required(field("pods", &ClusterMap::pods, "its pods")));
  }
};

// Checks the id of a host, which becomes a file name.
Result<void> check_host_id(std::string_view id);

// Checks that the map is usable: at least one pod, each with leaves, hosts, islands and devices at
// every level; the ids of hosts are well-formed (they become file names) and unique.
Result<void> check(const ClusterMap& map);
// The same for measurements alone: speeds and times are positive and possible.
Result<void> check_measured(const Measured& measured);

}  // namespace lockstep::map
