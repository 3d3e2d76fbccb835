#include "train/simulated_device/stream.h"

#include <array>
#include <atomic>
#include <chrono>
#include <map>
#include <utility>
#include <vector>

#include <ATen/Parallel.h>
#include <c10/util/Exception.h>

#include "base/check.h"

namespace lockstep::train::simulated_device {
namespace {

constexpr auto kBound = std::chrono::minutes(1);

// Never destroyed: kernels may run while the process ends.
struct Streams {
  std::mutex mutex;
  std::map<std::pair<c10::DeviceIndex, c10::StreamId>, std::unique_ptr<StreamQueue>> queues;
};

Streams& streams() {
  static auto* all = new Streams;
  return *all;
}

thread_local c10::DeviceIndex this_device = 0;
thread_local std::array<c10::StreamId, kDevices> this_streams{};

c10::Stream stream_of(c10::DeviceIndex device, c10::StreamId id) {
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(c10::kPrivateUse1, device), id);
}

}  // namespace

void Event::set() {
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  changed_.notify_all();
}

bool Event::done() const {
  const std::lock_guard lock(mutex_);
  return done_;
}

void Event::wait() const {
  std::unique_lock lock(mutex_);
  LS_CHECK(changed_.wait_for(lock, kBound, [&] { return done_; }), "an event is recorded in time");
}

StreamQueue::StreamQueue() : thread_([this] { run(); }) { thread_.detach(); }

void StreamQueue::push(Kernel kernel) {
  {
    const std::lock_guard lock(mutex_);
    kernels_.push_back(std::move(kernel));
  }
  pushed_.notify_one();
}

std::shared_ptr<Event> StreamQueue::record() {
  auto event = std::make_shared<Event>();
  push([event] { event->set(); });
  return event;
}

void StreamQueue::wait_for(std::shared_ptr<Event> event) {
  push([event = std::move(event)] { event->wait(); });
}

void StreamQueue::synchronize() {
  record()->wait();
  check();
}

void StreamQueue::check() const {
  const std::lock_guard lock(mutex_);
  TORCH_CHECK(error_.empty(), "simulated device: ", error_);
}

bool StreamQueue::idle() const {
  const std::lock_guard lock(mutex_);
  return kernels_.empty() && !running_;
}

void StreamQueue::run() {
  at::set_num_threads(1);
  std::unique_lock lock(mutex_);
  for (;;) {
    pushed_.wait(lock, [&] { return !kernels_.empty(); });
    auto kernel = std::move(kernels_.front());
    kernels_.pop_front();
    running_ = true;
    lock.unlock();
    std::string error;
    try {
      kernel();
    } catch (const std::exception& exception) {
      error = exception.what();
    }
    kernel = nullptr;
    lock.lock();
    running_ = false;
    if (error_.empty()) error_ = std::move(error);
  }
}

StreamQueue& queue_of(c10::Stream stream) {
  auto& [mutex, queues] = streams();
  const std::lock_guard lock(mutex);
  auto& queue = queues[{stream.device_index(), stream.id()}];
  if (!queue) queue = std::make_unique<StreamQueue>();
  return *queue;
}

c10::DeviceIndex current_device() { return this_device; }

void set_current_device(c10::DeviceIndex device) {
  TORCH_CHECK(device >= 0 && device < kDevices, "there is no simulated device ", int(device));
  this_device = device;
}

c10::Stream current_stream(c10::DeviceIndex device) {
  const auto index = device < 0 ? this_device : device;
  return stream_of(index, this_streams.at(static_cast<std::size_t>(index)));
}

c10::Stream exchange_stream(c10::Stream stream) {
  const auto before = current_stream(stream.device_index());
  this_streams.at(static_cast<std::size_t>(stream.device_index())) = stream.id();
  return before;
}

c10::Stream default_stream(c10::DeviceIndex device) {
  return stream_of(device < 0 ? this_device : device, 0);
}

c10::Stream new_stream(c10::DeviceIndex device) {
  static std::atomic<c10::StreamId> next{1};
  return stream_of(device < 0 ? this_device : device, next++);
}

void synchronize_device(c10::DeviceIndex device) {
  std::vector<StreamQueue*> of_device;
  {
    auto& [mutex, queues] = streams();
    const std::lock_guard lock(mutex);
    for (auto& [key, queue] : queues)
      if (key.first == device) of_device.push_back(queue.get());
  }
  for (auto* queue : of_device) queue->synchronize();
}

}  // namespace lockstep::train::simulated_device
