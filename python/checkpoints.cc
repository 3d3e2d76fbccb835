// Checkpoints in the engine's own format, the data's order, and the headers of safetensors files.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include <pybind11/functional.h>
#include <pybind11/stl.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "base/os/environment.h"
#include "base/units.h"
#include "bound_model.h"
#include "comm/torch/connect.h"
#include "outcome.h"
#include "train.h"
#include "train/checkpoint/checkpointer.h"
#include "train/checkpoint/format/tensor_file/safetensors.h"
#include "train/checkpoint/resume.h"
#include "train/data/sampler.h"
#include "train/group/comm.h"

namespace lockstep::python {
namespace {

namespace py = pybind11;

using ReleaseGil = py::call_guard<py::gil_scoped_release>;
// Optimizer state: its name in the checkpoint, the parameter by whose element it is, and this
// rank's elements of it. Or its shape, and all of its elements or none.
using OptimizerTensor =
    std::tuple<std::string, std::variant<std::size_t, std::vector<std::int64_t>>, at::Tensor>;
// Name, shape, type: "float32".
using SavedTensor = std::tuple<std::string, std::vector<std::int64_t>, std::string>;

constexpr Duration kSavingBound = std::chrono::minutes(30);
constexpr Duration kConnectingBound = std::chrono::minutes(2);

std::vector<train::OwnedTensor> owned(const BoundModel& model,
                                      const std::vector<OptimizerTensor>& slots) {
  std::vector<train::OwnedTensor> tensors;
  for (const auto& [name, form, tensor] : slots) {
    if (const auto* parameter = std::get_if<std::size_t>(&form))
      tensors.push_back(model.engine->owned_like(name, *parameter, tensor.view(-1)));
    else
      tensors.push_back({name,
                         std::get<1>(form),
                         {0, tensor.numel()},
                         tensor.view(-1),
                         /*copies_equal=*/true,
                         /*stable_between_steps=*/true});
  }
  return tensors;
}

// The thread that saves may need Python's lock: no caller waits for it while holding that lock.
struct BoundCheckpointer {
  explicit BoundCheckpointer(std::unique_ptr<train::Checkpointer> opened)
      : checkpointer(std::move(opened)) {}
  BoundCheckpointer(const BoundCheckpointer&) = delete;
  BoundCheckpointer& operator=(const BoundCheckpointer&) = delete;
  std::unique_ptr<train::Checkpointer> checkpointer;

  ~BoundCheckpointer() {
    const py::gil_scoped_release give_up_lock;
    checkpointer.reset();
  }
};

using SavedCallback = std::function<void(std::int64_t, const std::string&)>;
using RejectedCallback = std::function<void(const std::string& fault, const std::string& why)>;

std::unique_ptr<BoundCheckpointer> open(const std::string& folder, train::ClaimTime claim_time,
                                        std::int64_t recoveries, int keep, train::Comm group,
                                        const SavedCallback& saved,
                                        const RejectedCallback& kept_out) {
  const py::gil_scoped_release give_up_lock;
  train::CheckpointOptions options;
  options.folder = folder;
  options.writer = train::writer_from_environment(own_environment(), recoveries);
  options.claim_time = claim_time;
  options.keep = keep;
  options.host = train::host_of_folder(options.folder, own_environment());
  options.on_rejected = [kept_out](report::Fault fault, const std::string& why) {
    kept_out(std::string(name_of(fault)), why);
  };
  options.on_saved = [saved](std::int64_t step, const std::filesystem::path& path) {
    saved(step, path.string());
  };
  auto checkpointer = value_of(train::Checkpointer::open(std::move(options), std::move(group)));
  // Not before: the thread could not end without Python's lock.
  return std::make_unique<BoundCheckpointer>(std::move(checkpointer));
}

std::unique_ptr<BoundCheckpointer> open_over(
    const std::string& folder, train::ClaimTime claim_time, std::int64_t recoveries, int keep,
    const std::optional<c10::intrusive_ptr<c10d::ProcessGroup>>& group, const SavedCallback& saved,
    const RejectedCallback& kept_out) {
  return open(folder, claim_time, recoveries, keep,
              group ? train::Comm(*group, kSavingBound) : train::Comm(), saved, kept_out);
}

bool serves_cpu_only(const c10d::ProcessGroup& group) {
  const auto devices = group.getDeviceTypes();
  return std::all_of(devices.begin(), devices.end(),
                     [](const auto& device) { return device.is_cpu(); });
}

// Another group of the same ranks, for the CPU alone. Collective.
c10::intrusive_ptr<c10d::ProcessGroup> connect_on_cpu(
    const c10::intrusive_ptr<c10d::ProcessGroup>& group) {
  auto store = c10::make_intrusive<c10d::PrefixStore>("checkpoints", group->getStore());
  comm::ConnectOptions options{.rank = group->getRank(),
                               .size = group->getSize(),
                               .group = "checkpoints",
                               .members = train::Comm(group).members(),
                               .timeout = kSavingBound,
                               .rendezvous_timeout = kConnectingBound};
  auto result = c10::make_intrusive<c10d::ProcessGroup>(store, options.rank, options.size);
  result->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::CUSTOM,
                     value_of(comm::connect_through_store(store, options)));
  result->setDefaultBackend(c10d::ProcessGroup::BackendType::CUSTOM);
  result->setGroupName(options.group);
  return result;
}

double save(BoundCheckpointer& bound, const BoundModel& model, std::int64_t step,
            const std::string& optimizer, std::int64_t optimizer_steps,
            const std::vector<OptimizerTensor>& slots, const train::Sampler& sampler,
            const std::map<std::string, std::string>& notes) {
  train::TrainingState state;
  state.step = step;
  state.optimizer = optimizer;
  state.optimizer_steps = optimizer_steps;
  state.sampler = sampler.state();
  state.notes = notes;
  state.tensors = model.engine->model().state();
  state.snapshot_copies = model.engine->model().snapshot_copies();
  for (auto& tensor : owned(model, slots)) state.tensors.push_back(std::move(tensor));
  return std::chrono::duration<double>(value_of(bound.checkpointer->save(state))).count();
}

std::vector<SavedTensor> saved_tensors_of(const train::Manifest& manifest) {
  std::vector<SavedTensor> saved;
  for (const auto& tensor : manifest.tensors)
    saved.emplace_back(tensor.name, tensor.shape, std::string(name_of(tensor.type)));
  return saved;
}

// slots: creates this rank's state of the optimizer for tensors of these names.
std::int64_t resume_from(
    const std::string& folder, BoundModel& model, const std::string& optimizer,
    const std::function<std::vector<OptimizerTensor>(const std::vector<SavedTensor>&)>& slots,
    const std::function<void(std::int64_t)>& set_steps, train::Sampler& sampler) {
  const train::OptimizerCallbacks resumed{
      optimizer,
      [&](const train::Manifest& manifest) -> Result<std::vector<train::OwnedTensor>> {
        try {
          return owned(model, slots(saved_tensors_of(manifest)));
        } catch (const std::exception& exception) {  // from Python
          return Error{Code::invalid, exception.what()};
        }
      },
      set_steps};
  return value_of(train::resume(folder, model.engine->model(), resumed, sampler));
}

using PythonSafeTensor =
    std::tuple<std::string, std::string, std::vector<std::int64_t>, std::int64_t, std::int64_t>;

std::vector<PythonSafeTensor> safetensors_header(const std::string& words, std::int64_t bytes) {
  std::vector<PythonSafeTensor> tensors;
  for (const auto& one : value_of(train::parse_safetensors(words, bytes)).tensors)
    tensors.emplace_back(one.name, std::string(name_of(one.type)), one.shape, one.begin, one.end);
  return tensors;
}

}  // namespace

void bind_checkpoints(py::module& module) {
  py::enum_<train::ClaimTime>(module, "ClaimTime")
      .value("at_save", train::ClaimTime::at_save)
      .value("at_open", train::ClaimTime::at_open)
      .value("never", train::ClaimTime::never);
  py::class_<BoundCheckpointer>(module, "Checkpointer")
      .def("save", &save, ReleaseGil())
      .def(
          "finish", [](BoundCheckpointer& bound) { value_of(bound.checkpointer->finish()); },
          ReleaseGil());
  module.def("serves_cpu_only", &serves_cpu_only);
  module.def("connect_on_cpu", &connect_on_cpu, ReleaseGil());
  module.def("open_checkpointer", &open);  // over our own connections
  module.def("open_checkpointer", &open_over);
  module.def("resume", &resume_from, ReleaseGil());
  py::class_<train::Sampler>(module, "Sampler")
      .def(py::init([](std::int64_t samples, std::int64_t global_batch, std::uint64_t seed) {
        return value_of(train::Sampler::create(samples, global_batch, seed));
      }))
      .def("next", [](train::Sampler& sampler, int rank,
                      int ranks) { return value_of(sampler.next(rank, ranks)); })
      .def_property_readonly("seed",
                             [](const train::Sampler& sampler) { return sampler.state().seed; })
      .def("advance", &train::Sampler::advance)
      .def("seek", &train::Sampler::seek)
      .def_property_readonly("global_batch", &train::Sampler::global_batch)
      .def_property_readonly("cursor",
                             [](const train::Sampler& sampler) { return sampler.state().cursor; });
  module.def("safetensors_header", &safetensors_header);
}

}  // namespace lockstep::python
