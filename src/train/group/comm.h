// Comm: one group of ranks, as the training engine uses it: a thin layer over c10d::ProcessGroup,
// so that our own backend, Gloo or NCCL can carry it. This is the only code that catches c10d's
// exceptions: each becomes an Error that names the transfer, its contents and the rank.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

#include "base/result.h"
#include "base/units.h"
#include "comm/group/group_ranks.h"
#include "comm/reduction/types.h"

namespace c10d {
class ProcessGroup;
}  // namespace c10d

namespace lockstep::train {

// A transfer in flight. It keeps its tensors. Its outputs must not be read until wait() has
// returned, and what its tensors are views of must keep its memory until then.
//
// On the CPU wait() returns when the transfer is complete. On a device it returns at once, and the
// current stream waits: what the caller queues there afterwards sees the outputs. A transfer that
// is dropped without wait() makes the current stream wait, too.
class Transfer {
 public:
  // A completed transfer.
  Transfer() = default;

  // Returns within the bound of the Comm that made it. Further calls return the same result.
  Result<void> wait();
  // The same, and the host waits until the outputs are there, also on a device.
  Result<void> wait_on_host();
  // True if wait() would return at once with the transferred data. Never for a device: the ranks
  // would see it at different times, and start the next transfers in different orders.
  bool done() const;

 private:
  friend class Comm;
  struct State;
  // Null if there is nothing to wait for.
  std::shared_ptr<State> state_;
  std::optional<Error> error_;
};

class Comm {
 public:
  // Longer than the timeouts of the groups, whose errors name the rank that is late. For tensors of
  // a device nine tenths of its group's time-out, because c10d ends the process then.
  static constexpr Duration kBound = std::chrono::minutes(15);

  // A group of one: every operation is done at once, without a process group.
  Comm() = default;
  // Its members are those that the group's backend reports; else all ranks of the run.
  explicit Comm(c10::intrusive_ptr<c10d::ProcessGroup> group, Duration bound = kBound);

  int rank() const { return rank_; }
  int size() const { return size_; }
  // The global ranks of the members, for messages.
  const comm::GroupRanks& members() const { return members_; }
  // This rank's number in the run.
  int global_rank() const { return members_.global_rank(rank_); }
  // The device that single numbers travel on: the CPU, or the one of use_device().
  at::Device device() const { return device_; }

  // The model's device, for this group and for parts that are made of it later. An error if the
  // group has no backend for it.
  Result<void> use_device(at::Device device);

  // `label` names the contents, for errors and the flight record: "unit 2". If the group serves a
  // device only, tensors of the CPU travel through that device, and wait() waits on the host.

  // Every rank's tensor becomes the reduction over all ranks.
  Transfer all_reduce(at::Tensor tensor, ReduceOp op, std::string_view label);
  // Every rank's tensor becomes that of `root`.
  Transfer broadcast(at::Tensor tensor, int root, std::string_view label);
  // `whole` becomes the ranks' parts, one after the other; `part` may be a view of its slot in
  // `whole`.
  Transfer all_gather(at::Tensor whole, at::Tensor part, std::string_view label);
  // `part` becomes this rank's slice of the sum of the ranks' `whole`.
  Transfer reduce_scatter(at::Tensor part, at::Tensor whole, std::string_view label);
  // Each rank sends a part of `input` to each rank, and gets a part from each into `output`: both
  // one-dimensional, with the parts in the order of the ranks. The sizes are in elements, by rank.
  Transfer all_to_all(at::Tensor output, std::vector<std::int64_t> output_sizes, at::Tensor input,
                      std::vector<std::int64_t> input_sizes, std::string_view label);
  // Between two ranks of the group, without the others: each send matches a receive of the same
  // size, in the same order.
  Transfer send(at::Tensor tensor, int to, std::string_view label);
  Transfer receive(at::Tensor tensor, int from, std::string_view label);

  // Reduces one number, and waits on the host.
  Result<double> all_reduce(double value, ReduceOp op, std::string_view label);
  // Each rank's number, by rank.
  Result<std::vector<std::int64_t>> all_gather(std::int64_t value, std::string_view label);

  // The group of these of our ranks, in this order; this rank is among them. Each rank of ours
  // calls it once with its own new group. `name` is the group's name, and differs from that of any
  // other group of these ranks: "shard 1".
  Result<Comm> split(const std::vector<int>& ranks, const std::string& name) const;

  // True for copies of each other, and for two groups of one.
  bool is_same_group(const Comm& other) const { return group_ == other.group_; }

  // Ends transfers in flight, with an error, and leaves the group, within seconds. Afterwards none
  // of the group's transfers moves data, whether or not its ranks live; later ones fail. Does
  // nothing in a group of one, and nothing over backends that do not support it (Gloo).
  void leave();

  // A zeroed one-dimensional tensor. On the CPU it is in the backend's own memory if the backend
  // provides some, which saves a copy on every transfer. On a device it is torch's: NCCL's own
  // allocator takes memory that activations cannot use, and needs a communicator first.
  Result<at::Tensor> allocate(std::int64_t elements, at::ScalarType type, at::Device device);

 private:
  struct Staged;

  Staged stage(const at::Tensor& tensor, bool is_output) const;
  template <class Start>
  Transfer start(std::string_view verb, std::string_view label, std::vector<Staged> tensors,
                 Start&& start_work);

  // Shared by the copies of a Comm; null in a group of one.
  std::shared_ptr<c10::intrusive_ptr<c10d::ProcessGroup>> group_;
  Duration bound_ = kBound;
  Duration device_bound_ = kBound;
  at::Device device_ = at::kCPU;
  bool serves_cpu_ = true;
  int rank_ = 0;
  int size_ = 1;
  comm::GroupRanks members_ = comm::GroupRanks::world(1);
};

}  // namespace lockstep::train
