// Recovery as lockstep.Training sees it: the ranks' own connections, and what goes on when one
// dies.
#include "train/recovery/recovery.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "bound_model.h"
#include "comm/rendezvous/server.h"
#include "net/crypto.h"
#include "outcome.h"
#include "train.h"
#include "train/batch.h"
#include "train/first_error.h"
#include "train/hooked.h"
#include "train/sampler.h"
#include "train/stepper.h"

namespace lockstep {
namespace {

namespace py = pybind11;

using GiveUpLock = py::call_guard<py::gil_scoped_release>;

// An optimizer of torch's: the decisions are the model's, the state is what lockstep._checkpoints'
// Slots says of it. Called without Python's lock.
class PythonStepper : public Stepper {
 public:
  // Both must outlive it.
  PythonStepper(HookedModel& hooked, const py::object& slots) : hooked_(hooked), slots_(slots) {}

  std::int64_t decided() const override { return hooked_.decided(); }
  bool undecided() const override { return hooked_.undecided(); }
  double last_norm() const override { return hooked_.last_norm(); }
  Result<void> catch_up(double norm) override {
    hooked_.decide(norm);
    return take_step();
  }
  void set_decided(std::int64_t decided) override { hooked_.set_decided(decided); }
  // Of a decision that this rank has.
  Result<void> take_step() {
    hooked_.take_alone();
    return ask([&] { slots_.attr("step")(); });
  }

  std::string_view method() const override {
    note(ask([&] { method_ = slots_.attr("method").cast<std::string>(); }));
    return method_;
  }
  std::int64_t steps() const override {
    std::int64_t steps = 0;
    note(ask([&] { steps = slots_.attr("steps")().cast<std::int64_t>(); }));
    return steps;
  }
  void set_steps(std::int64_t steps) override {
    note(ask([&] { slots_.attr("set_steps")(steps); }));
  }
  Result<std::vector<NamedTensor>> flat_state() override {
    std::vector<NamedTensor> state;
    TRY(ask([&] {
      for (auto& [name, parameter, tensor] : slots_.attr("tensors")().cast<std::vector<Slot>>())
        state.push_back({name, tensor});
    }));
    return state;
  }
  Result<std::vector<OwnedTensor>> state_like(const std::vector<std::string>& names) override {
    std::vector<OwnedTensor> state;
    TRY(ask([&] {
      for (auto& [name, parameter, tensor] :
           slots_.attr("made_for")(names).cast<std::vector<Slot>>())
        state.push_back(hooked_.owned_like(name, parameter, tensor.view(-1)));
    }));
    return state;
  }
  Result<void> remake() override {
    return ask([&] { slots_.attr("remake")(); });
  }
  void scale_learning_rate(double factor) override {
    note(ask([&] { slots_.attr("scale_learning_rate")(factor); }));
  }

  // What went wrong in Python where no Result could be returned.
  Result<void> status() const { return error_.outcome(); }

 private:
  using Slot = std::tuple<std::string, std::size_t, at::Tensor>;

  template <class Question>
  Result<void> ask(Question&& question) const {
    const py::gil_scoped_acquire lock;
    try {
      question();
      return {};
    } catch (const std::exception& exception) {  // Python's, among others
      return Error{Code::invalid, exception.what()};
    }
  }
  void note(Result<void> outcome) const { error_.note(std::move(outcome)); }

  HookedModel& hooked_;
  const py::object& slots_;
  mutable std::string method_;
  mutable FirstError error_;
};

std::unique_ptr<BoundRecovery> start() {
  auto bound = std::make_unique<BoundRecovery>();
  bound->recovery = value_of(Recovery::start(value_of(recovery_options_from_environment())));
  return bound;
}

void set_up(BoundRecovery& bound, const std::string& checkpoints, bool rescale) {
  auto& options = bound.recovery->options();
  options.checkpoints = checkpoints;
  options.batch = rescale ? BatchOfFewer::rescaled : BatchOfFewer::kept;
}

void begin_step(BoundRecovery& bound, std::int64_t step, BoundModel& model, Sampler& sampler,
                const py::object& slots) {
  PythonStepper stepper(*model.hooked, slots);
  value_of(bound.recovery->begin_step(step, {model.hooked->model(), stepper, sampler}));
}

Recovered complete(BoundRecovery& bound, BoundModel& model, Sampler& sampler,
                   const py::object& slots) {
  PythonStepper stepper(*model.hooked, slots);
  auto done = value_of(bound.recovery->complete({model.hooked->model(), stepper, sampler}));
  value_of(stepper.status());
  return done;
}

// The engine knows better than the exception what befell it.
Error cause_of(const HookedModel& hooked, const std::string& message) {
  const auto status = hooked.model().status();
  return status ? Error{Code::peer_lost, message} : status.error();
}

Recovered recover(BoundRecovery& bound, BoundModel& model, Sampler& sampler,
                  const py::object& slots, const std::string& message) {
  auto& hooked = *model.hooked;
  const auto cause = cause_of(hooked, message);
  PythonStepper stepper(hooked, slots);
  // To have decided is to have taken: it needs nobody else.
  if (hooked.untaken()) value_of(stepper.take_step());
  auto recovered = value_of(bound.recovery->recover(cause, {hooked.model(), stepper, sampler}));
  value_of(stepper.status());
  hooked.forget_step();
  return recovered;
}

// This rank's parts of the next batch, with the weight of each one's mean loss in a sum over them.
std::vector<std::pair<std::vector<std::int64_t>, double>> share(const Sampler& sampler,
                                                                std::int64_t at_once,
                                                                BoundModel& model) {
  const auto parts = value_of(share_of_batch({sampler.global_batch(), at_once}, model.mesh().rank(),
                                             model.mesh().world_size()));
  std::vector<std::pair<std::vector<std::int64_t>, double>> shares;
  for (const auto& [begin, end, weight] : parts)
    shares.emplace_back(sampler.peek(begin, end), weight / static_cast<double>(parts.size()));
  return shares;
}

// As an agent holds it for its attempt: for tests, and who starts ranks without one.
std::unique_ptr<RendezvousServer> meeting_place(const std::string& host,
                                                const std::string& secret) {
  return value_of(RendezvousServer::start(host, 0, value_of(Secret::from_hex(secret))));
}

}  // namespace

void bind_recovery(py::module& module) {
  py::class_<Comm>(module, "Comm");
  py::class_<Recovered>(module, "Recovered")
      .def_readonly("leaves", &Recovered::leaves)
      .def_readonly("step", &Recovered::step)
      .def_readonly("story", &Recovered::story)
      .def_readonly("tells", &Recovered::tells);
  py::class_<BoundRecovery>(module, "Recovery")
      .def(py::init(&start), GiveUpLock())
      .def_property_readonly("joining",
                             [](const BoundRecovery& bound) { return bound.recovery->joining(); })
      .def_property_readonly(
          "generation", [](const BoundRecovery& bound) { return bound.recovery->generation(); })
      .def("set_up", &set_up)
      .def(
          "apart",
          [](BoundRecovery& bound, double seconds) {
            const auto bound_time = std::chrono::duration<double>(seconds);
            return value_of(
                bound.recovery->apart(std::chrono::duration_cast<Duration>(bound_time)));
          },
          GiveUpLock())
      .def("begin_step", &begin_step, GiveUpLock())
      .def("complete", &complete, GiveUpLock())
      .def("recover", &recover, GiveUpLock());
  py::class_<RendezvousServer>(module, "MeetingPlace")
      .def(py::init(&meeting_place), GiveUpLock())
      .def_property_readonly("port", &RendezvousServer::port);
  module.def("share_of_batch", &share);
}

}  // namespace lockstep
