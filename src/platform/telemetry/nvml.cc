#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "base/format.h"
#include "platform/telemetry/device_sources.h"
#include "platform/telemetry/nvml_library.h"
#include "platform/telemetry/rates.h"

namespace lockstep::telemetry {
namespace {

// Numbers of NVML's enums.
constexpr int kSensorOfGpu = 0;
constexpr int kClockOfSm = 1, kClockOfMemory = 2;
constexpr int kCorrected = 0, kUncorrected = 1, kSinceDriverLoad = 0;
constexpr int kTransmit = 0, kReceive = 1;
constexpr Count kEventXid = 8;
constexpr unsigned kFieldMemoryTemperature = 82;
constexpr unsigned kFieldNvlinkTransmit = 138, kFieldNvlinkReceive = 139;  // KiB
constexpr unsigned kAllLinks = std::numeric_limits<unsigned>::max();
constexpr int kTypeDouble = 0, kTypeInt = 5, kTypeUnsigned = 1;

constexpr int kEventsAtOnce = 256;  // more wait for the next reading

std::optional<double> value_of(const NvmlField& field) {
  if (field.status != kNvmlSuccess) return std::nullopt;
  const auto all = std::bit_cast<std::uint64_t>(field.value);
  switch (field.type) {
    case kTypeDouble:
      return std::bit_cast<double>(field.value);
    case kTypeUnsigned:
      return static_cast<std::uint32_t>(all);
    case kTypeInt:
      return static_cast<std::int32_t>(static_cast<std::uint32_t>(all));
    default:
      return static_cast<double>(all);
  }
}

// One device while it is read: its readings, and whether a call has said that it is lost.
class DeviceReading {
 public:
  DeviceReading(NvmlDevice device, std::string prefix, Readings& readings)
      : device_(device), prefix_(std::move(prefix)), readings_(readings) {}

  bool lost() const { return lost_; }
  void set(const char* metric, double value) { readings_[prefix_ + metric] = value; }
  // True if the device has answered. Once it is lost, it is not asked again.
  template <class... Parameters, class... Arguments>
  bool ask(int (*function)(NvmlDevice, Parameters...), Arguments... arguments) {
    if (function == nullptr || lost_) return false;
    const int status = function(device_, arguments...);
    lost_ = status == kNvmlGpuIsLost;
    return status == kNvmlSuccess;
  }
  // The same for functions whose last parameter is a number.
  template <class Number, class... Parameters, class... Arguments>
  void add(const char* metric, double unit, int (*function)(NvmlDevice, Parameters...),
           Arguments... arguments) {
    Number number = 0;
    if (ask(function, arguments..., &number)) set(metric, static_cast<double>(number) * unit);
  }

 private:
  const NvmlDevice device_;
  const std::string prefix_;
  Readings& readings_;
  bool lost_ = false;
};

class Nvml : public Source {
 public:
  Nvml(std::unique_ptr<NvmlLibrary> library, const std::vector<GpuOfRun>& gpus)
      : library_(std::move(library)), call_(library_->call()) {
    for (const GpuOfRun& gpu : gpus) gpus_.push_back({gpu, format("device{}/", gpu.number)});
    if (call_.make_events != nullptr && call_.make_events(&events_) != kNvmlSuccess)
      events_ = nullptr;
  }

  void read(Duration now, Readings& readings) override {
    for (Gpu& gpu : gpus_) find(gpu);
    read_events();
    for (Gpu& gpu : gpus_) read(gpu, now, readings);
  }

 private:
  struct Gpu {
    GpuOfRun of_run;
    std::string prefix;
    NvmlDevice device = nullptr;     // none while it is lost
    NvmlDevice in_events = nullptr;  // stays: the XID error of a loss may come after it
    bool lost = false;
    bool watched = false;  // for XID errors
    double xids = 0;       // since this source began
    double last_xid = 0;   // its number; 0: none
  };

  // A lost device is looked up again: it may return after a reset.
  void find(Gpu& gpu) {
    if (gpu.device != nullptr) return;
    const std::string& uuid = gpu.of_run.uuid;
    const int status = !uuid.empty() && call_.by_uuid != nullptr
                           ? call_.by_uuid(uuid.c_str(), &gpu.device)
                           : call_.by_index(static_cast<unsigned>(gpu.of_run.number), &gpu.device);
    if (status != kNvmlSuccess) gpu.device = nullptr;
    // By UUID, NVML says that a GPU is lost if any of the machine is.
    const bool is_this_one = uuid.empty() && status == kNvmlGpuIsLost;
    gpu.lost = is_this_one || (gpu.lost && status != kNvmlSuccess);
    if (gpu.device != nullptr) gpu.in_events = gpu.device;
    if (gpu.device != nullptr && events_ != nullptr && call_.watch_events != nullptr)
      gpu.watched = call_.watch_events(gpu.device, kEventXid, events_) == kNvmlSuccess;
  }

  void read_events() {
    if (events_ == nullptr || call_.next_event == nullptr) return;
    NvmlEvent event;
    for (int i = 0; i < kEventsAtOnce; ++i) {
      if (call_.next_event(events_, &event, 0) != kNvmlSuccess) return;
      const auto gpu = std::ranges::find(gpus_, event.device, &Gpu::in_events);
      if (gpu == gpus_.end() || event.type != kEventXid) continue;
      gpu->xids += 1;
      gpu->last_xid = static_cast<double>(event.data);
    }
  }

  void read(Gpu& gpu, Duration now, Readings& readings) {
    DeviceReading reading(gpu.device, gpu.prefix, readings);
    if (gpu.device != nullptr) {
      read_use(reading);
      read_health(reading);
      read_traffic(gpu, reading, now);
      gpu.lost = reading.lost();
    }
    if (gpu.lost) {
      std::erase_if(readings,
                    [&](const auto& entry) { return entry.first.starts_with(gpu.prefix); });
      gpu.device = nullptr;
    }
    if (gpu.lost || gpu.device != nullptr) reading.set("lost", gpu.lost ? 1 : 0);
    if (!gpu.watched) return;
    reading.set("xid_errors_total", gpu.xids);
    if (gpu.last_xid > 0) reading.set("xid_last", gpu.last_xid);
  }

  void read_use(DeviceReading& reading) const {
    constexpr double kMilli = 1e-3, kMega = 1e6;
    if (NvmlUtilization use{}; reading.ask(call_.utilization, &use)) {
      reading.set("utilization_percent", use.gpu);
      reading.set("memory_utilization_percent", use.memory);
    }
    if (NvmlMemory memory{}; reading.ask(call_.memory, &memory)) {
      reading.set("memory_used_bytes", static_cast<double>(memory.used));
      reading.set("memory_total_bytes", static_cast<double>(memory.total));
    }
    reading.add<unsigned>("power_watts", kMilli, call_.power);
    reading.add<unsigned>("power_limit_watts", kMilli, call_.power_limit);
    reading.add<Count>("energy_joules_total", kMilli, call_.energy);
    reading.add<unsigned>("sm_clock_hertz", kMega, call_.clock, kClockOfSm);
    reading.add<unsigned>("memory_clock_hertz", kMega, call_.clock, kClockOfMemory);
  }

  void read_health(DeviceReading& reading) const {
    reading.add<unsigned>("temperature_celsius", 1, call_.temperature, kSensorOfGpu);
    reading.add<Count>("ecc_corrected_total", 1, call_.ecc_errors, kCorrected, kSinceDriverLoad);
    reading.add<Count>("ecc_uncorrected_total", 1, call_.ecc_errors, kUncorrected,
                       kSinceDriverLoad);
    reading.add<unsigned>("pcie_replays_total", 1, call_.pcie_replays);
    reading.add<Count>("clocks_event_reasons", 1, call_.clocks_event_reasons);
  }

  void read_traffic(const Gpu& gpu, DeviceReading& reading, Duration now) {
    constexpr double kKilo = 1e3, kKiB = 1024;
    reading.add<unsigned>("pcie_transmit_bytes_per_second", kKilo, call_.pcie_throughput,
                          kTransmit);
    reading.add<unsigned>("pcie_receive_bytes_per_second", kKilo, call_.pcie_throughput, kReceive);
    std::array<NvmlField, 3> fields;
    fields[0].id = kFieldMemoryTemperature;
    fields[1].id = kFieldNvlinkTransmit;
    fields[2].id = kFieldNvlinkReceive;
    fields[1].scope = fields[2].scope = kAllLinks;
    if (!reading.ask(call_.fields, static_cast<int>(fields.size()), fields.data())) return;
    if (const auto celsius = value_of(fields[0]))
      reading.set("memory_temperature_celsius", *celsius);
    const auto add_rate = [&](const char* metric, const NvmlField& field) {
      const auto sum = value_of(field);
      const auto rate = sum ? rates_.per_second(gpu.prefix + metric, *sum, now) : std::nullopt;
      if (rate) reading.set(metric, *rate * kKiB);
    };
    add_rate("nvlink_transmit_bytes_per_second", fields[1]);
    add_rate("nvlink_receive_bytes_per_second", fields[2]);
  }

  const std::unique_ptr<NvmlLibrary> library_;
  const NvmlCalls& call_;
  std::vector<Gpu> gpus_;
  NvmlEventSet events_ = nullptr;
  Rates rates_;
};

}  // namespace

std::unique_ptr<Source> nvml_source(const std::vector<GpuOfRun>& gpus, const std::string& library) {
  auto opened = NvmlLibrary::open(library);
  return opened ? std::make_unique<Nvml>(std::move(opened), gpus) : nullptr;
}

}  // namespace lockstep::telemetry
