#include "map/discover/nvml.h"

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>

#include <dlfcn.h>

#include "base/format.h"

namespace lockstep::map {
namespace {

// From NVIDIA's API reference of NVML, whose functions keep their meaning under a versioned name.
using NvmlHandle = struct NvmlDevice*;
struct NvmlMemory {
  unsigned long long total, free, used;
};
struct NvmlPciInfo {
  std::array<char, 16> legacy_address;
  unsigned domain, bus, device, device_id, subsystem_id;
  std::array<char, 32> address;
};
constexpr int kNvmlSuccess = 0;
constexpr int kNvmlGpuIsLost = 15;
constexpr int kNvmlUncorrected = 1;  // the kind of memory errors
constexpr int kNvmlSinceDriver = 0;  // their counter since the driver was loaded
constexpr unsigned kNvmlEnabled = 1;
constexpr unsigned kLinksMax = 18;
constexpr unsigned kUuidSize = 96;

struct NvmlFunctions {
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*handle)(const char* pci, NvmlHandle*) = nullptr;
  // Null in a driver that lacks them.
  int (*uuid)(NvmlHandle, char*, unsigned size) = nullptr;
  int (*memory)(NvmlHandle, NvmlMemory*) = nullptr;
  int (*mig_mode)(NvmlHandle, unsigned* current, unsigned* pending) = nullptr;
  int (*link_state)(NvmlHandle, unsigned link, unsigned* active) = nullptr;
  int (*link_end)(NvmlHandle, unsigned link, NvmlPciInfo*) = nullptr;
  int (*errors)(NvmlHandle, int kind, int counter, unsigned long long* count) = nullptr;
};

struct LibraryCloser {
  void operator()(void* library) const { ::dlclose(library); }
};
using Library = std::unique_ptr<void, LibraryCloser>;

template <class Function>
void find(const Library& library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library.get(), name));
}

NvmlFunctions functions_of(const Library& library) {
  NvmlFunctions found;
  if (!library) return found;
  find(library, "nvmlInit_v2", found.init);
  find(library, "nvmlShutdown", found.shutdown);
  find(library, "nvmlDeviceGetHandleByPciBusId_v2", found.handle);
  find(library, "nvmlDeviceGetUUID", found.uuid);
  find(library, "nvmlDeviceGetMemoryInfo", found.memory);
  find(library, "nvmlDeviceGetMigMode", found.mig_mode);
  find(library, "nvmlDeviceGetNvLinkState", found.link_state);
  find(library, "nvmlDeviceGetNvLinkRemotePciInfo_v2", found.link_end);
  find(library, "nvmlDeviceGetTotalEccErrors", found.errors);
  return found;
}

// The library, initialized for the life of the object.
class Nvml {
 public:
  explicit Nvml(const std::string& library)
      : library_(::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL)),
        call_(functions_of(library_)),
        ready_(call_.init != nullptr && call_.shutdown != nullptr && call_.handle != nullptr &&
               call_.init() == kNvmlSuccess) {}
  ~Nvml() {
    if (ready_) call_.shutdown();
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  NvmlGpu gpu_at(const std::string& pci) const {
    NvmlHandle device = nullptr;
    if (!ready_ || pci.empty()) return {};
    const int status = call_.handle(pci.c_str(), &device);
    if (status == kNvmlGpuIsLost) return {.uuid = "", .memory = {}, .links = {}, .lost = true};
    if (status != kNvmlSuccess) return {};
    return {uuid_of(device), memory_of(device), is_mig(device), links_of(device),
            uncorrected_of(device)};
  }

 private:
  std::string uuid_of(NvmlHandle device) const {
    std::array<char, kUuidSize> uuid{};
    if (call_.uuid == nullptr || call_.uuid(device, uuid.data(), kUuidSize) != kNvmlSuccess)
      return "";
    return uuid.data();
  }

  std::optional<Bytes> memory_of(NvmlHandle device) const {
    NvmlMemory memory{};
    if (call_.memory == nullptr || call_.memory(device, &memory) != kNvmlSuccess ||
        memory.total == 0)
      return std::nullopt;
    return Bytes(static_cast<std::int64_t>(memory.total));
  }

  bool is_mig(NvmlHandle device) const {
    unsigned current = 0, pending = 0;
    return call_.mig_mode != nullptr &&
           call_.mig_mode(device, &current, &pending) == kNvmlSuccess && current == kNvmlEnabled;
  }

  std::optional<std::int64_t> uncorrected_of(NvmlHandle device) const {
    unsigned long long count = 0;
    if (call_.errors == nullptr ||
        call_.errors(device, kNvmlUncorrected, kNvmlSinceDriver, &count) != kNvmlSuccess)
      return std::nullopt;
    return static_cast<std::int64_t>(count);
  }

  std::vector<std::string> links_of(NvmlHandle device) const {
    std::vector<std::string> ends;
    if (call_.link_state == nullptr || call_.link_end == nullptr) return ends;
    for (unsigned link = 0; link < kLinksMax; ++link) {
      unsigned active = 0;
      NvmlPciInfo end{};
      if (call_.link_state(device, link, &active) == kNvmlSuccess && active == kNvmlEnabled &&
          call_.link_end(device, link, &end) == kNvmlSuccess)
        ends.push_back(format("{:04x}:{:02x}:{:02x}.0", end.domain, end.bus, end.device));
    }
    return ends;
  }

  const Library library_;
  const NvmlFunctions call_;
  const bool ready_;
};

// The representative of a set of joined indices.
std::size_t root_of(const std::vector<std::size_t>& parents, std::size_t index) {
  while (parents[index] != index) index = parents[index];
  return index;
}

}  // namespace

std::vector<NvmlGpu> query_nvml(const std::vector<std::string>& pci, const std::string& library) {
  const Nvml nvml(library);
  std::vector<NvmlGpu> gpus;
  for (const std::string& address : pci) gpus.push_back(nvml.gpu_at(address));
  return gpus;
}

std::vector<std::optional<int>> nvlink_domains(const std::vector<std::string>& pci,
                                               const std::vector<NvmlGpu>& gpus) {
  std::vector<std::size_t> parents(gpus.size());
  std::iota(parents.begin(), parents.end(), 0);
  std::map<std::string, std::size_t> owners;  // a GPU by its own address or that of a link's end
  for (std::size_t i = 0; i < gpus.size(); ++i)
    if (!pci[i].empty()) owners.emplace(pci[i], i);
  for (std::size_t i = 0; i < gpus.size(); ++i)
    for (const std::string& end : gpus[i].links)
      parents[root_of(parents, i)] = root_of(parents, owners.emplace(end, i).first->second);

  std::vector<int> sizes(gpus.size());
  for (std::size_t i = 0; i < gpus.size(); ++i) ++sizes[root_of(parents, i)];
  std::vector<std::optional<int>> domains;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    const std::size_t root = root_of(parents, i);
    domains.push_back(sizes[root] > 1 ? std::optional(static_cast<int>(root)) : std::nullopt);
  }
  return domains;
}

}  // namespace lockstep::map
