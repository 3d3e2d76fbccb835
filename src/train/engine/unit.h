// Unit: the parameters that are communicated together, as one flat buffer, and their gradients as
// another. The module's own parameters are views of the flat buffer, so that one transfer serves
// many parameters without a copy, and the optimizer steps on few large tensors.
//
// whole: all elements. If the policy divides parameters, it has memory only while gathered.
// shard: this rank's share in its shard group; the only part kept between uses.
// slice: the part of the shard that this rank's optimizer steps.
//
// Each is a view of the one before if that always has memory. Only the storage is released: the
// tensors stay as they are. So what autograd saved of them is valid again after the next gather,
// and no version counter changes.
//
// For 16-bit floats the optimizer steps a 32-bit master of its slice, and the slice is a rounded
// copy of the master; their gradients are collected and reduced in 32 bits, too. For all other
// types the slice is its own master. If the policy offloads the optimizer, masters of all types are
// in main memory, and so are copies of the gradients' slices for the time of the step.
//
// Gradients have the same three forms. With a shard group, whole gradients exist from the first
// that arrives until they are reduced. Without one they always exist, and the module's gradients
// are views of them, to which micro-steps add.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/result.h"
#include "train/engine/layout.h"
#include "train/group/mesh.h"

namespace lockstep::train {

// The values of parameters and buffers after a module has been sharded.
enum class InitialValues {
  broadcast_from_rank_0,  // all ranks get its values
  deferred,               // none: they are written later, so no rank needs memory for them before
};

class Unit {
 public:
  // `parameters` are the module's, in the order of Layout::parameters. Gradients start at zero. A
  // divided unit is released. Collective for values of rank 0.
  static Result<Unit> create(const Layout& layout, int index,
                             const std::vector<at::Tensor>& parameters, Mesh& mesh,
                             InitialValues values = InitialValues::broadcast_from_rank_0,
                             bool offload = false);

  int index() const { return index_; }
  int block() const { return block_; }
  // True if parameters are gathered for use and released after it.
  bool divided() const { return block_ != ParameterSpec::kRoot; }
  // A frozen unit has no gradients, and its slice is the shard.
  bool trainable() const { return trainable_; }

  // All one-dimensional, in the backend's memory if the backend provides some. Padding is zero.
  const at::Tensor& whole() const { return whole_; }
  const at::Tensor& shard() const { return shard_; }
  const at::Tensor& slice() const { return slice_; }
  const at::Tensor& master() const { return master_; }
  const at::Tensor& gradients() const { return gradients_; }
  const at::Tensor& gradient_shard() const { return gradient_shard_; }
  const at::Tensor& gradient_slice() const { return gradient_slice_; }
  // The gradient of the master: the gradient slice, or its copy in main memory.
  const at::Tensor& master_gradient() const { return master_gradient_; }
  // Copies the gradient slice to main memory if the master is there. The copy is complete when the
  // device has done what is queued.
  void fetch_gradient();
  // Rounds the master into the slice, if they are separate tensors.
  void round_master();
  // The part of a parameter in the slice, or in a tensor of the same shape.
  static at::Tensor owned_view(const at::Tensor& slice_like, const Layout& layout, int parameter);

  // Attaches memory for a divided unit's parameters; detach_buffer() returns that memory.
  void attach_buffer(at::Tensor buffer);
  at::Tensor detach_buffer();
  // After an error: no buffer is attached any more. Transfers to or from them have ended.
  void drop_buffers();
  bool has_memory() const { return !divided() || parameter_buffer_.defined(); }

  // Before each backward. For units that start a new sum, and for all units with a shard group,
  // autograd's first gradient becomes the gradient. For the others, views that were replaced or
  // dropped (by zero_grad, for example) are put back, with their values.
  void attach_gradients(bool new_sum);

  // With a shard group: attaches memory for whole gradients; detach_gradient_buffer() returns it.
  void attach_gradient_buffer(at::Tensor buffer);
  bool has_gradient_buffer() const { return gradient_buffer_.defined(); }
  // Copies a parameter's gradient of this backward into the whole gradients, by copy(to, from);
  // `from` is undefined if there is none, and may be `to`. `to` is a view of gradients().
  using CopyGradient = std::function<void(const at::Tensor& to, const at::Tensor& from)>;
  void store_gradient(std::size_t member, const CopyGradient& move);
  at::Tensor detach_gradient_buffer();

  // Counts the parameters whose gradient is complete in this backward.
  void expect_all() { missing_ = static_cast<int>(members_.size()); }
  void count_gradient() { --missing_; }
  bool complete() const { return missing_ == 0; }

 private:
  struct Member {
    at::Tensor parameter;
    at::Tensor gradient;  // view of the whole gradients, if they always exist
    std::int64_t offset;
    std::int64_t next;  // the offset of the next member, or the end
  };

  Result<void> create_whole(const Layout& layout, const std::vector<at::Tensor>& parameters,
                            Mesh& mesh, InitialValues values);
  Result<void> create_pieces(const UnitLayout& unit_layout, Mesh& mesh);
  Result<void> create_master(Mesh& mesh, bool offload);
  Result<void> create_gradients(Mesh& mesh);
  void zero_padding();

  int index_ = 0;
  int block_ = ParameterSpec::kRoot;
  bool trainable_ = true;
  bool shard_group_ = false;
  at::Tensor whole_, shard_, slice_, master_;
  at::Tensor gradients_, gradient_shard_, gradient_slice_, master_gradient_;
  at::Tensor parameter_buffer_, gradient_buffer_;  // while they are attached
  std::vector<Member> members_;
  int missing_ = 0;
};

}  // namespace lockstep::train
