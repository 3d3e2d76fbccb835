#include "train/checkpoint/load.h"

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>

#include "base/format.h"
#include "base/units.h"
#include "train/checkpoint/random_state.h"
#include "train/checkpoint/state.h"

namespace lockstep::train {
namespace {

constexpr Bytes kBatch = 256_MiB;
constexpr std::size_t kNamed = 5;

// The first few errors, in one line.
Result<void> refuse_all(const std::vector<std::string>& wrong) {
  if (wrong.empty()) return {};
  const auto count = std::min(wrong.size(), kNamed);
  auto message = joined(std::vector(wrong.begin(), wrong.begin() + static_cast<long>(count)), "; ");
  if (wrong.size() > count) message += lockstep::format("; and {} more", wrong.size() - count);
  return Error{Code::invalid, std::move(message)};
}

std::map<std::string_view, const SavedTensor*> by_name(const Manifest& manifest) {
  std::map<std::string_view, const SavedTensor*> index;
  for (const auto& tensor : manifest.tensors) index[tensor.name] = &tensor;
  return index;
}

// The mismatch between the two; empty if there is none.
std::string misfit(const SavedTensor* saved, const OwnedTensor& wanted) {
  if (!saved) return lockstep::format("the checkpoint has no {}", wanted.name);
  const auto type = data_type_of(wanted.tensor.scalar_type());
  if (type != saved->type)
    return lockstep::format(
        "{} is {} in the checkpoint and {} in the model", wanted.name,
        lockstep::name_of(saved->type),
        type ? lockstep::name_of(*type) : c10::toString(wanted.tensor.scalar_type()));
  if (saved->shape != wanted.shape)
    return lockstep::format("{} has shape [{}] in the checkpoint and [{}] in the model",
                            wanted.name, joined(saved->shape, ", "), joined(wanted.shape, ", "));
  return {};
}

// Tensors that are read together, each directly to its destination if that is in the host's memory.
class Batch {
 public:
  explicit Batch(const SavedCheckpoint& checkpoint) : checkpoint_(checkpoint) {}

  Result<void> add(const OwnedTensor& tensor, const SavedTensor& saved) {
    if (tensor.owned.begin == tensor.owned.end) return {};
    auto into = tensor.tensor;
    if (!into.is_cpu()) {
      into = at::empty_like(tensor.tensor, tensor.tensor.options().device(at::kCPU));
      staged_.emplace_back(tensor.tensor, into);
      bytes_ += Bytes(static_cast<std::int64_t>(into.nbytes()));
    }
    wanted_.push_back({&saved,
                       tensor.owned.begin,
                       tensor.owned.end,
                       {static_cast<char*>(into.mutable_data_ptr()), into.nbytes()}});
    if (bytes_ >= kBatch) return flush();
    return {};
  }

  Result<void> flush() {
    TRY(checkpoint_.read(wanted_));
    for (const auto& [to, from] : staged_) to.copy_(from);
    wanted_.clear();
    staged_.clear();
    bytes_ = Bytes(0);
    return {};
  }

 private:
  const SavedCheckpoint& checkpoint_;
  std::vector<TensorRead> wanted_;
  std::vector<std::pair<at::Tensor, at::Tensor>> staged_;
  Bytes bytes_;
};

}  // namespace

Result<void> check_fits(const Manifest& manifest, const std::vector<OwnedTensor>& tensors) {
  const auto saved = by_name(manifest);
  std::vector<std::string> wrong;
  for (const auto& tensor : tensors) {
    const auto found = saved.find(tensor.name);
    auto what = misfit(found == saved.end() ? nullptr : found->second, tensor);
    if (!what.empty()) wrong.push_back(std::move(what));
  }
  return refuse_all(wrong);
}

Result<void> check_complete(const Manifest& manifest, const std::vector<OwnedTensor>& tensors) {
  std::set<std::string_view> names;
  for (const auto& tensor : tensors) names.insert(tensor.name);
  std::vector<std::string> wrong;
  for (const auto& tensor : manifest.tensors)
    if (!names.contains(tensor.name) && !tensor.name.starts_with(kRandomPrefix))
      wrong.push_back(lockstep::format("the checkpoint has {}, the model has not", tensor.name));
  return refuse_all(wrong);
}

Result<void> load(const SavedCheckpoint& checkpoint, const std::vector<OwnedTensor>& tensors) {
  const at::NoGradGuard no_grad;
  const auto saved = by_name(checkpoint.manifest());
  Batch batch(checkpoint);
  for (const auto& tensor : tensors) TRY(batch.add(tensor, *saved.at(tensor.name)));
  return batch.flush();
}

}  // namespace lockstep::train
