// Unit: the parameters that are communicated together, as one flat buffer, and their gradients as
// another. The module's own parameters are views of the flat buffer, so that one transfer serves
// many parameters without a copy, and the optimizer steps on few large tensors.
//
//   whole    all elements. Where the policy divides parameters, it has memory only while gathered
//   shard    this rank's share in its shard group; all that is left of the whole between uses
//   slice    of the shard, what this rank's optimizer steps
//
// Each is a view of the one before where that has memory all the time. Released is a matter of the
// storage: the tensors stay as they are, so what autograd saved of them is there again after the
// next gather, and no version counter moves.
//
// Of 16-bit floats the optimizer steps a master of its slice in 32 bits, of which the slice is a
// rounded copy; their gradients are collected and reduced in 32 bits, too. Of all other types the
// slice is its own master.
//
// Gradients have the same three. With a shard group, whole ones exist from the first that arrives
// until they are reduced; without, they are there all the time and the module's gradients are views
// of them, to which micro-steps add.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/result.h"
#include "train/layout.h"
#include "train/mesh.h"

namespace lockstep {

// What parameters and buffers hold when a module has been sharded.
enum class Values {
  of_rank_0,  // its values become everybody's
  to_come,    // none: somebody writes them afterwards, so nobody has to have memory for them before
};

class Unit {
 public:
  // `parameters` are the module's, in the order of Layout::parameters. Gradients start at zero. A
  // divided unit is released. Collective for values of rank 0.
  static Result<Unit> create(const Layout& layout, int index,
                             const std::vector<at::Tensor>& parameters, Mesh& mesh,
                             Values values = Values::of_rank_0);

  int index() const { return index_; }
  int block() const { return block_; }
  // Whether parameters are gathered for use and released after it.
  bool divided() const { return block_ != ParameterSpec::kRoot; }
  // A frozen unit has no gradients, and its slice is the shard.
  bool trainable() const { return trainable_; }

  // All one-dimensional, in the backend's memory where it lends some. Padding is zero.
  const at::Tensor& whole() const { return whole_; }
  const at::Tensor& shard() const { return shard_; }
  const at::Tensor& slice() const { return slice_; }
  const at::Tensor& master() const { return master_; }
  const at::Tensor& gradients() const { return gradients_; }
  const at::Tensor& gradient_shard() const { return gradient_shard_; }
  const at::Tensor& gradient_slice() const { return gradient_slice_; }
  // Rounds the master into the slice, where they are two.
  void round_master();
  // What of a parameter lies in the slice, or in a tensor that is like it.
  static at::Tensor owned(const at::Tensor& slice_like, const Layout& layout, int parameter);

  // Memory for a divided unit's parameters, and that memory back.
  void hold(at::Tensor buffer);
  at::Tensor release();
  // After an error: nothing is lent any more. What transferred to or from it has ended.
  void drop_buffers();
  bool has_memory() const { return !divided() || parameter_buffer_.defined(); }

  // Before each backward. Those that begin anew, and all with a shard group, get what autograd
  // computes first as their gradient. The others' views are put back where somebody replaced or
  // dropped one (zero_grad does), keeping its values.
  void attach_gradients(bool anew);

  // With a shard group: memory for whole gradients, and that memory back.
  void collect_into(at::Tensor buffer);
  bool collecting() const { return gradient_buffer_.defined(); }
  // A parameter's gradient of this backward to its place among the whole ones, by move(to, from);
  // `from` is undefined where there is none, and may be `to`. `to` is of gradients().
  using Move = std::function<void(const at::Tensor& to, const at::Tensor& from)>;
  void take_gradient(std::size_t member, const Move& move);
  at::Tensor end_collecting();

  // Counts the parameters whose gradient is complete in this backward.
  void expect_all() { missing_ = static_cast<int>(members_.size()); }
  void arrived() { --missing_; }
  bool complete() const { return missing_ == 0; }

 private:
  struct Member {
    at::Tensor parameter;
    at::Tensor gradient;  // view of the whole gradients, where they are there all the time
    std::int64_t offset;
    std::int64_t next;  // the offset of the member behind it, or the end
  };

  Result<void> create_whole(const Layout& layout, const std::vector<at::Tensor>& parameters,
                            Mesh& mesh, Values values);
  Result<void> create_pieces(const UnitPlace& place, Mesh& mesh);
  Result<void> create_master(Mesh& mesh);
  Result<void> create_gradients(Mesh& mesh);
  void zero_padding();

  int index_ = 0;
  int block_ = ParameterSpec::kRoot;
  bool trainable_ = true;
  bool shard_group_ = false;
  at::Tensor whole_, shard_, slice_, master_;
  at::Tensor gradients_, gradient_shard_, gradient_slice_;
  at::Tensor parameter_buffer_, gradient_buffer_;  // while they are lent
  std::vector<Member> members_;
  int missing_ = 0;
};

}  // namespace lockstep
