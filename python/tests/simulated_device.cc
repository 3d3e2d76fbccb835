// _simulated_device: the device of src/train/simulated_device for tests in Python, which import
// simulated_device.py. It is built with the tests and is no part of the package.
#include "train/simulated_device/simulated_device.h"

#include <chrono>
#include <memory>
#include <string>

#include <ATen/Context.h>
#include <pybind11/chrono.h>
#include <pybind11/stl.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/utils/pybind.h>

#include "train/simulated_device/memory.h"
#include "train/simulated_device/nccl_like.h"
#include "train/simulated_device/stream.h"

namespace lockstep::simulated_device_python {
namespace {

namespace py = pybind11;
namespace device = lockstep::train::simulated_device;

using ReleaseGil = py::call_guard<py::gil_scoped_release>;

// While it lives, the device's current stream of this thread runs nothing that is queued.
class Hold {
 public:
  explicit Hold(c10::DeviceIndex index) {
    device::queue_of(device::current_stream(index)).wait_for(event_);
  }
  ~Hold() { release(); }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;
  void release() { event_->set(); }

 private:
  const std::shared_ptr<device::Event> event_ = std::make_shared<device::Event>();
};

// A kernel of the current stream that fails, as a failed assertion on a GPU.
void fail(c10::DeviceIndex index, const std::string& message) {
  device::queue_of(device::current_stream(index)).push([message] { TORCH_CHECK(false, message); });
}

c10::intrusive_ptr<c10d::Backend> create_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                 int rank, int size,
                                                 std::chrono::milliseconds timeout) {
  auto options = c10d::ProcessGroupGloo::Options::create(timeout);
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  auto gloo = c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size, options);
  return c10::make_intrusive<device::NcclLikeBackend>(
      std::move(gloo), c10::make_intrusive<device::NcclLikeBackend::Options>(timeout));
}

void bind_host_waits(py::module& module) {
  py::class_<device::HostWaits>(module, "HostWaits")
      .def_readonly("reads", &device::HostWaits::reads)
      .def_readonly("writes", &device::HostWaits::writes)
      .def_readonly("synchronizes", &device::HostWaits::synchronizes)
      .def_readonly("timed", &device::HostWaits::timed)
      .def("all", &device::HostWaits::all);
  module.def("host_waits", &device::host_waits);
  module.def("reset_host_waits", &device::reset_host_waits);
}

void bind_device(py::module& module) {
  module.attr("DEVICES") = static_cast<int>(device::kDevices);
  module.def("install", &device::install);
  module.def("current_device", &device::current_device);
  module.def("set_device", &device::set_current_device);
  module.def("synchronize", &device::synchronize_device, ReleaseGil());
  module.def("default_generator", [](c10::DeviceIndex index) {
    return at::globalContext().defaultGenerator(device::device(index));
  });
  module.def("bytes_in_use", &device::bytes_in_use);
  module.def("bytes_in_use_max", &device::bytes_in_use_max);
  module.def("reset_bytes_in_use_max", &device::reset_bytes_in_use_max);
  module.def("inline_operators", &device::inline_operators);
}

}  // namespace
}  // namespace lockstep::simulated_device_python

PYBIND11_MODULE(_simulated_device, module) {
  namespace here = lockstep::simulated_device_python;
  here::bind_device(module);
  here::bind_host_waits(module);
  here::py::class_<here::Hold>(module, "Hold")
      .def(here::py::init<c10::DeviceIndex>())
      .def("release", &here::Hold::release);
  module.def("fail", &here::fail);
  module.def("create_backend", &here::create_backend, here::ReleaseGil());
  module.def("living_backends", &here::device::NcclLikeBackend::living);
}
