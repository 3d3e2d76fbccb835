#include "train/engine/unit.h"

#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>
#include <c10/core/StorageImpl.h>

#include "base/check.h"
#include "base/format.h"
#include "train/gradient/copy_gradient.h"
#include "train/torch_versions.h"

namespace lockstep::train {
namespace {

at::Tensor view(const at::Tensor& flat, const ParameterLayout& parameter_layout) {
  return flat.narrow(0, parameter_layout.offset, parameter_layout.spec.elements())
      .view(parameter_layout.spec.shape);
}

void release_owner(void* owner) { delete static_cast<at::Tensor*>(owner); }

// Sets the memory of a tensor's storage, which all its views share, to that of `owner`, and keeps
// that.
void set_memory(const at::Tensor& tensor, const at::Tensor& owner) {
  auto* storage = tensor.storage().unsafeGetStorageImpl();
  set_readable_memory(*storage, at::DataPtr(owner.mutable_data_ptr(), new at::Tensor(owner),
                                            &release_owner, tensor.device()));
  storage->set_nbytes(tensor.nbytes());
}

// A read of a view of the tensor is then an error of torch's instead of a crash.
void remove_memory(const at::Tensor& tensor) {
  auto* storage = tensor.storage().unsafeGetStorageImpl();
  storage->set_data_ptr_noswap(at::DataPtr(nullptr, tensor.device()));
  storage->set_nbytes(0);
  storage->release_data_and_set_meta_custom_data_ptr_error_msg_(
      "this parameter is divided among the ranks and has memory only while its block runs: to save "
      "or print values, lockstep.state_dict(model) gathers them (every rank calls it); to compute "
      "with it elsewhere, choose a policy that divides no parameters, such as zero2");
}

// Memory that the device copies to and from without the host.
at::Tensor main_memory(std::int64_t elements, at::ScalarType type) {
  return at::zeros({elements}, at::TensorOptions().dtype(type).pinned_memory(true));
}

}  // namespace

Result<Unit> Unit::create(const Layout& layout, int index,
                          const std::vector<at::Tensor>& parameters, Mesh& mesh,
                          InitialValues values, bool offload) {
  const at::NoGradGuard no_grad;
  const auto& unit_layout = layout.units[static_cast<std::size_t>(index)];
  Unit unit;
  unit.index_ = index;
  unit.block_ = unit_layout.block;
  unit.trainable_ = unit_layout.trainable;
  unit.shard_group_ = mesh.shard().size() > 1;
  TRY(unit.create_whole(layout, parameters, mesh, values));
  TRY(unit.create_pieces(unit_layout, mesh));
  unit.master_ = unit.slice_;
  if (!unit.trainable_) return unit;
  TRY(unit.create_master(mesh, offload));
  TRY(unit.create_gradients(mesh));
  if (!unit.shard_group_)
    for (std::size_t i = 0; i < unit.members_.size(); ++i) {
      const auto& parameter_layout =
          layout.parameters[static_cast<std::size_t>(unit_layout.parameters[i])];
      unit.members_[i].gradient = view(unit.gradients_, parameter_layout);
    }
  unit.attach_gradients(/*new_sum=*/false);
  return unit;
}

Result<void> Unit::create_whole(const Layout& layout, const std::vector<at::Tensor>& parameters,
                                Mesh& mesh, InitialValues values) {
  const auto& unit_layout = layout.units[static_cast<std::size_t>(index_)];
  const auto device = parameters[static_cast<std::size_t>(unit_layout.parameters.front())].device();
  whole_ = TRY(mesh.world().allocate(unit_layout.elements, unit_layout.type, device));
  for (int number : unit_layout.parameters) {
    const auto i = static_cast<std::size_t>(number);
    auto parameter = parameters[i];
    const auto parameter_view = view(whole_, layout.parameters[i]);
    if (values == InitialValues::broadcast_from_rank_0) parameter_view.copy_(parameter);
    // The data, not the tensor: version counters do not change, and the module keeps its tensor.
    parameter.set_data(parameter_view);
    const auto offset = layout.parameters[i].offset;
    if (!members_.empty()) members_.back().next = offset;
    members_.push_back({parameter, {}, offset, unit_layout.elements});
  }
  if (values == InitialValues::deferred) return {};
  return mesh.world().broadcast(whole_, 0, format("parameters of unit {}", index_)).wait();
}

Result<void> Unit::create_pieces(const UnitLayout& unit_layout, Mesh& mesh) {
  const auto share = unit_layout.elements / mesh.shard().size();
  shard_ = whole_.narrow(0, mesh.shard().rank() * share, share);
  if (divided()) {
    auto own = TRY(mesh.world().allocate(share, unit_layout.type, whole_.device()));
    own.copy_(shard_);
    shard_ = std::move(own);
    remove_memory(whole_);
  }
  slice_ = shard_.narrow(0, unit_layout.slice.begin % share, unit_layout.slice.size());
  return {};
}

Result<void> Unit::create_master(Mesh& mesh, bool offload) {
  const auto type = accumulation_type(slice_.scalar_type());
  if (offload && !slice_.is_cpu()) {
    master_ = main_memory(slice_.numel(), type);
    master_.copy_(slice_);
    return {};
  }
  if (type == slice_.scalar_type()) return {};
  master_ = TRY(mesh.world().allocate(slice_.numel(), type, slice_.device()));
  master_.copy_(slice_);
  return {};
}

Result<void> Unit::create_gradients(Mesh& mesh) {
  auto& world = mesh.world();
  const auto type = master_.scalar_type();
  gradient_shard_ = TRY(world.allocate(shard_.numel(), type, whole_.device()));
  gradient_slice_ = gradient_shard_;
  if (slice_.numel() < shard_.numel())
    gradient_slice_ = TRY(world.allocate(slice_.numel(), type, whole_.device()));
  if (!shard_group_) gradients_ = gradient_shard_;
  const bool offloaded = master_.is_cpu() && !slice_.is_cpu();
  master_gradient_ = offloaded ? main_memory(slice_.numel(), type) : gradient_slice_;
  return {};
}

void Unit::fetch_gradient() {
  if (!master_gradient_.is_same(gradient_slice_))
    master_gradient_.copy_(gradient_slice_, /*non_blocking=*/true);
}

void Unit::round_master() {
  if (!master_.is_same(slice_)) slice_.copy_(master_);
}

at::Tensor Unit::owned_view(const at::Tensor& slice_like, const Layout& layout, int parameter) {
  const auto& parameter_layout = layout.parameters[static_cast<std::size_t>(parameter)];
  const auto& slice = layout.units[static_cast<std::size_t>(parameter_layout.unit)].slice;
  if (parameter_layout.owned.size() == 0) return slice_like.narrow(0, 0, 0);
  return slice_like.narrow(0, parameter_layout.offset + parameter_layout.owned.begin - slice.begin,
                           parameter_layout.owned.size());
}

void Unit::attach_buffer(at::Tensor buffer) {
  LS_CHECK(!has_memory());
  parameter_buffer_ = std::move(buffer);
  set_memory(whole_, parameter_buffer_);
}

at::Tensor Unit::detach_buffer() {
  LS_CHECK(divided() && has_memory());
  remove_memory(whole_);
  return std::exchange(parameter_buffer_, {});
}

void Unit::drop_buffers() {
  if (divided() && has_memory()) detach_buffer();
  if (has_gradient_buffer()) detach_gradient_buffer();
  // A transfer that was aborted may have left anything in its output. Padding is not written again.
  if (gradients_.defined()) zero_padding();
}

void Unit::attach_gradients(bool new_sum) {
  if (!trainable_) return;
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (new_sum || shard_group_)
      members_[i].parameter.mutable_grad().reset();
    else
      store_gradient(i, copy_gradient);
  }
}

void Unit::attach_gradient_buffer(at::Tensor buffer) {
  gradient_buffer_ = std::move(buffer);
  // It keeps the buffer: a transfer may hold it longer than this unit.
  gradients_ = at::from_blob(
      gradient_buffer_.mutable_data_ptr(), whole_.sizes(), [buffer = gradient_buffer_](void*) {},
      gradient_shard_.options());
  zero_padding();
}

// store_gradient() writes all of the members' own elements.
void Unit::zero_padding() {
  for (const auto& [parameter, none, offset, next] : members_) {
    const auto end = offset + parameter.numel();
    if (end < next) gradients_.narrow(0, end, next - end).zero_();
  }
}

void Unit::store_gradient(std::size_t member, const CopyGradient& move) {
  const auto& [parameter, view, offset, next] = members_[member];
  auto& gradient = parameter.mutable_grad();
  move(gradients_.narrow(0, offset, parameter.numel()).view(parameter.sizes()), gradient);
  gradient = view;
}

at::Tensor Unit::detach_gradient_buffer() {
  gradients_.reset();
  return std::exchange(gradient_buffer_, {});
}

}  // namespace lockstep::train
