// Messages about a machine of the cluster: its inventory and its health; see messages.h. A value
// that could not be read is null, never 0.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "map/map.h"
#include "text/record.h"

namespace lockstep::api {

struct HostDevice {
  map::DeviceKind kind = map::DeviceKind::gpu;
  int number = 0;
  std::string uuid;
  std::optional<Bytes> memory;

  static constexpr auto fields() {
    return record<HostDevice>(
        required(field("kind", &HostDevice::kind, "gpu or core")),
        required(field("number", &HostDevice::number, "as CUDA_VISIBLE_DEVICES counts")),
        field("uuid", &HostDevice::uuid, "of a GPU, such as GPU-6ca3...; empty: unknown"),
        field("memory", &HostDevice::memory, "its own, such as 80 GiB; null: unknown"));
  }
};

struct HostInterface {
  std::string name;
  bool up = false;
  std::optional<Bandwidth> speed;
  std::vector<std::string> addresses;

  static constexpr auto fields() {
    return record<HostInterface>(
        required(field("name", &HostInterface::name, "such as eth0")),
        field("up", &HostInterface::up, "it is on, and its cable has a signal"),
        field("speed", &HostInterface::speed, "as its driver says; null: unknown"),
        field("addresses", &HostInterface::addresses, "IPv4 before IPv6"));
  }
};

struct HostDisk {
  std::string path;
  Bytes size{};
  Bytes free{};
  std::string shared;

  static constexpr auto fields() {
    return record<HostDisk>(
        required(field("path", &HostDisk::path, "a folder that Lockstep writes to")),
        required(field("size", &HostDisk::size, "of the file system of that folder")),
        required(field("free", &HostDisk::free, "of it, for this user")),
        field("shared", &HostDisk::shared,
              "its kind if several machines share it, such as NFS; empty: local"));
  }
};

struct HostInventory {
  std::string name, machine, boot;
  std::string version;
  std::string architecture, distribution, kernel;
  int cores = 0;
  std::optional<Bytes> memory;
  std::optional<Bytes> memory_available;
  std::vector<HostDevice> devices;
  std::vector<std::string> device_faults;
  std::string driver;
  std::vector<HostInterface> interfaces;
  std::vector<std::string> fabric_providers;
  std::vector<std::string> users;
  std::vector<HostDisk> disks;
  Time clock{};

  static constexpr auto fields() {
    return record<HostInventory>(
        required(field("name", &HostInventory::name, "the host's name")),
        required(field("machine", &HostInventory::machine, "its id: /etc/machine-id")),
        required(field("boot", &HostInventory::boot, "the id of its boot")),
        required(field("version", &HostInventory::version, "of Lockstep on it")),
        field("architecture", &HostInventory::architecture, "such as x86_64"),
        field("distribution", &HostInventory::distribution, "such as debian 12"),
        field("kernel", &HostInventory::kernel, "its release"),
        required(field("cores", &HostInventory::cores, "that Lockstep may use")),
        field("memory", &HostInventory::memory, "main memory; null: unknown"),
        field("memory_available", &HostInventory::memory_available, "of it; null: unknown"),
        required(field("devices", &HostInventory::devices, "GPUs; without any, cores")),
        field("device_faults", &HostInventory::device_faults, "what the driver knows, in words"),
        field("driver", &HostInventory::driver, "version of the GPUs' driver; empty: none"),
        field("interfaces", &HostInventory::interfaces, "of the network, without loopback"),
        field("fabric_providers", &HostInventory::fabric_providers,
              "of libfabric, those that find a device; empty also without libfabric"),
        field("users", &HostInventory::users, "the accounts that it runs ranks as"),
        field("disks", &HostInventory::disks, "the folders that Lockstep writes to"),
        required(field("clock", &HostInventory::clock, "its time while this was read")));
  }
};

enum class HostProblemKind { disk_full, memory_low, clock_wrong, device_failed };
constexpr auto enum_names(HostProblemKind) {
  return names<HostProblemKind>({{HostProblemKind::disk_full, "disk_full"},
                                 {HostProblemKind::memory_low, "memory_low"},
                                 {HostProblemKind::clock_wrong, "clock_wrong"},
                                 {HostProblemKind::device_failed, "device_failed"}});
}

struct HostProblem {
  HostProblemKind kind = HostProblemKind::disk_full;
  std::string detail;

  static constexpr auto fields() {
    return record<HostProblem>(
        required(field("kind", &HostProblem::kind, "which check failed")),
        required(field("detail", &HostProblem::detail, "what was found, and what to do")));
  }
};

// `lockstep host inventory --json`.
struct HostReport {
  HostInventory inventory;
  std::vector<HostProblem> problems;

  static constexpr auto fields() {
    return record<HostReport>(
        required(field("inventory", &HostReport::inventory, "what the host is")),
        field("problems", &HostReport::problems, "why it should get no runs; empty: none"));
  }
};

}  // namespace lockstep::api
