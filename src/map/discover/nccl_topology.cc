#include "map/discover/nccl_topology.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <memory>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <sys/utsname.h>

#include "base/format.h"
#include "base/os/files.h"
#include "map/discover/nvidia.h"

namespace lockstep::map {
namespace {

namespace fs = std::filesystem;

constexpr int kGigabitOfUnknown = 10'000;  // Mbit/s, as NCCL assumes

// A NIC as NCCL's networks name it.
struct Nic {
  std::string name;
  fs::path device;  // its PCI device in /sys
  int speed = 0;    // in Mbit/s; 0: unknown
  bool rdma = false;
};

// A device or a switch on the PCI bus, with what is below it.
struct PciNode {
  std::vector<std::string> leaves;  // elements of GPUs and NICs
  std::map<std::string, std::unique_ptr<PciNode>> below;
};

// The first word of a file; empty if there is no such file.
std::string word_of(const fs::path& file) {
  const auto content = read_file(file, 4096);
  if (!content) return "";
  return content->substr(0, content->find_first_of(" \n"));
}

int number_of(const std::string& digits, int otherwise) {
  int number = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return read.ec == std::errc() ? number : otherwise;
}

std::vector<fs::path> sorted_entries(const fs::path& folder) {
  auto found = list_folder(folder);
  if (!found) return {};
  std::ranges::sort(*found);
  return *std::move(found);
}

// "0000:01:00.0"
bool is_pci_address(std::string_view name) {
  return name.size() == 12 && name[4] == ':' && name[7] == ':' && name[10] == '.';
}

std::optional<fs::path> pci_device(const fs::path& entry) {
  std::error_code failed;
  auto device = fs::canonical(entry / "device", failed);
  if (failed || !is_pci_address(device.filename().string())) return std::nullopt;
  return device;
}

std::vector<Nic> find_nics(const fs::path& root) {
  std::vector<Nic> nics;
  for (const fs::path& entry : sorted_entries(root / "sys/class/infiniband"))
    if (auto device = pci_device(entry)) {
      const int gigabits = number_of(word_of(entry / "ports/1/rate"), 0);
      nics.push_back({entry.filename(), *std::move(device), gigabits * 1000, true});
    }
  for (const fs::path& entry : sorted_entries(root / "sys/class/net")) {
    auto device = pci_device(entry);
    const auto is_same = [&](const Nic& nic) { return nic.device == *device; };
    // An interface of an RDMA device is the same NIC.
    if (!device || std::ranges::any_of(nics, is_same)) continue;
    const int speed = std::max(0, number_of(word_of(entry / "speed"), 0));
    nics.push_back({entry.filename(), *std::move(device), speed, false});
  }
  return nics;
}

// The device with the switches above it, the uppermost first. The kernel shows two bridges for each
// switch and one for the root port. NCCL counts the upper one of a switch.
std::vector<fs::path> branch_of(const fs::path& device) {
  std::vector<fs::path> bridges;
  for (fs::path folder = device; is_pci_address(folder.filename().string());
       folder = folder.parent_path())
    bridges.push_back(folder);
  std::vector<fs::path> branch;
  for (std::size_t i = 0; i < bridges.size(); i += 2)
    if (i == 0 || i + 1 < bridges.size()) branch.insert(branch.begin(), bridges[i]);
  return branch;
}

std::string pci_element(const fs::path& device) {
  std::string element = format("<pci busid=\"{}\"", device.filename().string());
  constexpr std::pair<const char*, const char*> kAttributes[] = {
      {"class", "class"},
      {"vendor", "vendor"},
      {"device", "device"},
      {"subsystem_vendor", "subsystem_vendor"},
      {"subsystem_device", "subsystem_device"},
      {"link_width", "max_link_width"}};
  for (const auto& [attribute, file] : kAttributes)
    if (const auto value = word_of(device / file); !value.empty())
      element += format(" {}=\"{}\"", attribute, value);
  // Two or three words: "16.0 GT/s PCIe".
  if (auto speed = read_file(device / "max_link_speed", 256)) {
    speed->erase(std::min(speed->find('\n'), speed->size()));
    element += format(" link_speed=\"{}\"", *speed);
  }
  return element + ">";
}

std::string nic_element(const Nic& nic, int number, const LinkSpeed& to_leaf) {
  int speed = nic.speed;
  if (speed == 0 && to_leaf.bandwidth)
    speed = static_cast<int>(to_leaf.bandwidth->count() * 8 / 1'000'000);
  if (speed == 0) speed = kGigabitOfUnknown;
  std::string latency;
  if (to_leaf.latency)
    latency = format(" latency=\"{}.{:03}\"", to_leaf.latency->count() / 1000,
                     to_leaf.latency->count() % 1000);
  return format("<nic><net name=\"{}\" dev=\"{}\" speed=\"{}\" port=\"1\"{}/></nic>", nic.name,
                number, speed, latency);
}

// From /proc/cpuinfo: "model name\t: ..." has the label before the tab.
std::string cpu_value(const std::string& information, std::string_view label) {
  const auto at = information.find(format("{}\t", label));
  if (at == std::string::npos) return "";
  const auto colon = information.find(": ", at);
  if (colon == std::string::npos) return "";
  return information.substr(colon + 2, information.find('\n', colon) - colon - 2);
}

std::string cpu_element(int node, const fs::path& root) {
  utsname kernel{};
  const std::string machine = ::uname(&kernel) == 0 ? kernel.machine : "x86_64";
  std::string element = format("<cpu numaid=\"{}\" arch=\"{}\"", node, machine);
  const auto mask = word_of(root / format("sys/devices/system/node/node{}/cpumap", node));
  if (!mask.empty()) element += format(" affinity=\"{}\"", mask);
  const auto information = read_file(root / "proc/cpuinfo", 1 << 16).value_or("");
  constexpr std::pair<const char*, const char*> kAttributes[] = {
      {"vendor", "vendor_id"}, {"familyid", "cpu family"}, {"modelid", "model"}};
  for (const auto& [attribute, label] : kAttributes)
    if (const auto value = cpu_value(information, label); !value.empty())
      element += format(" {}=\"{}\"", attribute, value);
  return element + ">";
}

// Folders of /sys by NUMA node.
class Tree {
 public:
  void add(const fs::path& device, std::string element) {
    // A machine with one node may tell none.
    const int node = std::max(0, number_of(word_of(device / "numa_node"), 0));
    PciNode* place = &nodes_[node];
    for (const fs::path& each : branch_of(device)) {
      auto& below = place->below[each.string()];
      if (!below) below = std::make_unique<PciNode>();
      place = below.get();
    }
    place->leaves.push_back(std::move(element));
  }
  std::string text(const fs::path& root) const {
    std::string lines = "<system version=\"1\">\n";
    for (const auto& [node, below] : nodes_) {
      lines += format("  {}\n", cpu_element(node, root));
      append(below, 4, lines);
      lines += "  </cpu>\n";
    }
    return lines + "</system>";
  }

 private:
  static void append(const PciNode& node, std::size_t indent, std::string& lines) {
    const std::string space(indent, ' ');
    for (const auto& [device, below] : node.below) {
      lines += format("{}{}\n", space, pci_element(device));
      append(*below, indent + 2, lines);
      lines += format("{}</pci>\n", space);
    }
    for (const std::string& leaf : node.leaves) lines += format("{}{}\n", space, leaf);
  }

  std::map<int, PciNode> nodes_;
};

}  // namespace

Result<std::string> nccl_topology(const LinkSpeed& to_leaf, const fs::path& root) {
  Tree tree;
  int found = 0;
  for (const NvidiaGpu& gpu : usable_nvidia_gpus(root)) {
    std::error_code failed;
    const auto device = fs::canonical(root / "sys/bus/pci/devices" / gpu.pci, failed);
    if (gpu.pci.empty() || failed) continue;
    tree.add(device, format("<gpu dev=\"{}\"/>", gpu.number));
    ++found;
  }
  int number = 0;
  for (const Nic& nic : find_nics(root)) {
    tree.add(nic.device, nic_element(nic, number++, to_leaf));
    ++found;
  }
  if (found == 0)
    return Error{Code::not_found,
                 "this machine shows neither a GPU nor a network card on a PCI bus, of which "
                 "NCCL's topology consists: run the command on a host with GPUs"};
  return tree.text(root);
}

}  // namespace lockstep::map
