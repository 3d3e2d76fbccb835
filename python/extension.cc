// lockstep._lockstep: the compiled part of the Python package. Its functions give up Python's lock,
// as they wait for other ranks.
#include <chrono>
#include <cstring>
#include <string>
#include <vector>

#include <pybind11/chrono.h>
#include <pybind11/stl.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/utils/pybind.h>

#include "comm/flight/label.h"
#include "comm/group/members.h"
#include "comm/torch/connect.h"
#include "comm/torch/group.h"
#include "comm/torch/work.h"
#include "train.h"
#include "train/faults.h"

namespace lockstep {
namespace {

c10::intrusive_ptr<c10d::Backend> create_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                 int rank, int size,
                                                 std::chrono::milliseconds timeout,
                                                 std::string group, std::vector<int> global_ranks) {
  report_faults();
  // torch names no ranks of the group of all.
  auto members = global_ranks.empty() ? Members::world(size) : Members{"", std::move(global_ranks)};
  auto backend = connect_through(store, {.rank = rank,
                                         .size = size,
                                         .group = std::move(group),
                                         .members = std::move(members),
                                         .timeout = timeout});
  if (!backend) raise(backend.error());
  return *std::move(backend);
}

// This thread's label from now on, for lockstep.label; what it was before.
pybind11::bytes set_label(const pybind11::bytes& label) {
  const auto before = FlightLabel::exchange(FlightLabel::words_of(std::string(label)));
  const auto* const words = reinterpret_cast<const char*>(before.data());
  return pybind11::bytes(words, ::strnlen(words, FlightLabel::kBytes));
}

}  // namespace
}  // namespace lockstep

PYBIND11_MODULE(_lockstep, module) {
  using GiveUpLock = pybind11::call_guard<pybind11::gil_scoped_release>;
  module.def("create_backend", &lockstep::create_backend, GiveUpLock());
  module.def("set_label", &lockstep::set_label);
  module.def("shutdown_all", &lockstep::Group::leave_all, GiveUpLock());
  lockstep::bind_train(module);
  lockstep::bind_recovery(module);
  lockstep::bind_checkpoints(module);
}
