#include <array>
#include <atomic>
#include <memory>
#include <vector>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/Allocator.h>
#include <c10/core/DeviceType.h>
#include <c10/core/Storage.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "train/simulated_device/kernels.h"
#include "train/simulated_device/memory.h"
#include "train/simulated_device/simulated_device.h"
#include "train/simulated_device/stream.h"

namespace lockstep::train::simulated_device {
namespace {

struct Counters {
  std::atomic<std::int64_t> reads{0}, writes{0}, synchronizes{0}, timed{0};
};

Counters& counters(c10::DeviceIndex device) {
  static auto* all = new std::array<Counters, kDevices>;
  return all->at(static_cast<std::size_t>(device));
}

std::shared_ptr<Event>& event_at(void* event) {
  return *static_cast<std::shared_ptr<Event>*>(event);
}

class Guard : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return c10::kPrivateUse1; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const auto before = getDevice();
    setDevice(device);
    return before;
  }
  c10::Device getDevice() const override { return simulated_device::device(current_device()); }
  void setDevice(c10::Device device) const override {
    if (device.has_index()) set_current_device(device.index());
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.has_index()) set_current_device(device.index());
  }
  c10::DeviceIndex deviceCount() const noexcept override { return kDevices; }

  c10::Stream getStream(c10::Device device) const override {
    return current_stream(device.index());
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return default_stream(device.index());
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    return new_stream(device.index());
  }
  c10::Stream getNewStream(c10::Device device, int) const override {
    return new_stream(device.index());
  }
  c10::Stream exchangeStream(c10::Stream stream) const override { return exchange_stream(stream); }
  bool queryStream(const c10::Stream& stream) const override { return queue_of(stream).idle(); }
  void synchronizeStream(const c10::Stream& stream) const override {
    count_host_wait(stream.device_index(), HostWait::synchronize);
    queue_of(stream).synchronize();
  }
  void synchronizeDevice(const c10::DeviceIndex device) const override {
    count_host_wait(device, HostWait::synchronize);
    synchronize_device(device);
  }
  void recordDataPtrOnStream(const c10::DataPtr& pointer,
                             const c10::Stream& stream) const override {
    record_stream(pointer.get(), stream);
  }

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex,
              const c10::EventFlag) const override {
    if (!*event) *event = new std::shared_ptr<Event>;
    event_at(*event) = queue_of(stream).record();
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event) queue_of(stream).wait_for(event_at(event));
  }
  bool queryEvent(void* event) const override { return !event || event_at(event)->done(); }
  void synchronizeEvent(void* event) const override {
    if (!event) return;
    count_host_wait(current_device(), HostWait::synchronize);
    event_at(event)->wait();
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    delete static_cast<std::shared_ptr<Event>*>(event);
  }
};

// Draws on the host, so a kernel that needs random numbers is not queued.
class Generator : public at::CPUGeneratorImpl {
 public:
  explicit Generator(c10::DeviceIndex index) {
    device_ = simulated_device::device(index);
    key_set_ = c10::DispatchKeySet(c10::DispatchKey::PrivateUse1);
  }
};

class Hooks : public at::PrivateUse1HooksInterface {
 public:
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return kDevices; }
  void setCurrentDevice(c10::DeviceIndex device) const override { set_current_device(device); }
  c10::DeviceIndex getCurrentDevice() const override { return current_device(); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override {
    const auto before = current_device();
    set_current_device(device);
    return before;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override {
    return device < 0 ? current_device() : exchangeDevice(device);
  }
  at::Device getDeviceFromPtr(void* data) const override {
    return simulated_device::device(index_of(data));
  }
  bool isPinnedPtr(const void* data) const override { return is_pinned(data); }
  c10::Allocator* getPinnedMemoryAllocator() const override { return &pinned_allocator(); }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override {
    static auto* all = [] {
      auto* generators = new std::vector<at::Generator>;
      for (c10::DeviceIndex i = 0; i < kDevices; ++i)
        generators->push_back(at::make_generator<Generator>(i));
      return generators;
    }();
    return all->at(static_cast<std::size_t>(index < 0 ? current_device() : index));
  }
  at::Generator getNewGenerator(c10::DeviceIndex index) const override {
    return at::make_generator<Generator>(index < 0 ? current_device() : index);
  }
  void resizePrivateUse1Bytes(const c10::Storage& storage, std::size_t bytes) const override {
    auto larger = device_allocator().allocate(bytes);
    const auto kept = std::min(bytes, storage.nbytes());
    if (kept > 0) device_allocator().copy_data(larger.get(), storage.data(), kept);
    auto* implementation = storage.unsafeGetStorageImpl();
    implementation->set_data_ptr_noswap(std::move(larger));
    implementation->set_nbytes(bytes);
  }
};

}  // namespace

HostWaits host_waits(c10::DeviceIndex device) {
  const auto& of = counters(device);
  return {of.reads, of.writes, of.synchronizes, of.timed};
}

void reset_host_waits(c10::DeviceIndex device) {
  auto& of = counters(device);
  of.reads = of.writes = of.synchronizes = of.timed = 0;
}

void count_host_wait(c10::DeviceIndex device, HostWait kind) {
  auto& of = counters(device);
  switch (kind) {
    case HostWait::read:
      ++of.reads;
      break;
    case HostWait::write:
      ++of.writes;
      break;
    case HostWait::synchronize:
      ++of.synchronizes;
      break;
    case HostWait::timed:
      ++of.timed;
      break;
  }
}

void install() {
  static const bool once = [] {
    static const Guard guard;
    static const c10::impl::DeviceGuardImplRegistrar registrar(c10::kPrivateUse1, &guard);
    static Hooks hooks;
    at::RegisterPrivateUse1HooksInterface(&hooks);
    c10::register_privateuse1_backend("simulated");
    c10::SetAllocator(c10::kPrivateUse1, &device_allocator());
    register_kernels();
    return true;
  }();
  static_cast<void>(once);
}

}  // namespace lockstep::train::simulated_device
