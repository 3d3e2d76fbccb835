// Streams and events of a simulated device. A stream is a queue of kernels, which a thread of its
// own runs one after the other. The host that queues a kernel does not wait for it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

namespace lockstep::train::simulated_device {

inline constexpr c10::DeviceIndex kDevices = 8;

// Set once, when its stream reaches it.
class Event {
 public:
  void set();
  bool done() const;
  // Aborts the process after a minute: a test hangs nowhere.
  void wait() const;

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool done_ = false;
};

class StreamQueue {
 public:
  using Kernel = std::function<void()>;

  StreamQueue();
  // Any thread. An exception of a kernel is the error of the device, as on a GPU.
  void push(Kernel kernel);
  std::shared_ptr<Event> record();
  // Kernels pushed later wait for the event; the host does not.
  void wait_for(std::shared_ptr<Event> event);
  // The host waits until all kernels have run. Throws the first error of a kernel.
  void synchronize();
  // Throws the first error of a kernel, if one has failed by now.
  void check() const;
  bool idle() const;

 private:
  void run();

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable pushed_;
  std::deque<Kernel> kernels_;
  bool running_ = false;
  std::string error_;
  std::thread thread_;
};

// The queue of a stream; made at its first use, and kept to the process's end.
StreamQueue& queue_of(c10::Stream stream);
// The calling thread's.
c10::DeviceIndex current_device();
void set_current_device(c10::DeviceIndex device);
c10::Stream current_stream(c10::DeviceIndex device);
c10::Stream exchange_stream(c10::Stream stream);
c10::Stream default_stream(c10::DeviceIndex device);
c10::Stream new_stream(c10::DeviceIndex device);
// The host waits for all streams of the device.
void synchronize_device(c10::DeviceIndex device);

}  // namespace lockstep::train::simulated_device
