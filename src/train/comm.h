// Comm: one group of ranks, as the training engine sees it: a thin layer over c10d::ProcessGroup,
// so that our own backend, Gloo or NCCL carries it. This is the only place where c10d's exceptions
// are met: each becomes an Error that names the transfer, what it carried and the rank.
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
#include "comm/group/members.h"

namespace c10d {
class ProcessGroup;
class Work;
}  // namespace c10d

namespace lockstep {

enum class Reduction { sum, maximum, minimum };

// A transfer under way. Its tensors must stay alive, and those it writes must not be read, until
// wait() has returned. On a GPU wait() orders the current stream behind the transfer.
class Transfer {
 public:
  // One that is done already.
  Transfer() = default;

  // Returns within the bound of the Comm that made it. Waiting again gives the same answer.
  Result<void> wait();
  // Whether wait() would return at once with what was transferred; on a GPU, whose stream waits
  // instead of this thread, it is not asked.
  bool done() const;

 private:
  friend class Comm;
  // Null once waited for. In a box, as the group below, to keep c10d's header (9 s) out of this
  // one.
  std::shared_ptr<c10::intrusive_ptr<c10d::Work>> work_;
  std::string what_;
  Duration bound_{0};
  bool on_cpu_ = true;
  std::optional<Error> error_;
};

class Comm {
 public:
  // Longer than the groups' own bounds, whose errors name the rank that is behind.
  static constexpr Duration kBound = std::chrono::minutes(15);

  // A group of one: every operation is done at once, without a process group.
  Comm() = default;
  // Its members are those that the group's backend knows; else all ranks of the run.
  explicit Comm(c10::intrusive_ptr<c10d::ProcessGroup> group, Duration bound = kBound);

  int rank() const { return rank_; }
  int size() const { return size_; }
  // The ranks by their numbers in the run, for messages.
  const Members& members() const { return members_; }
  // This rank's number in the run.
  int number() const { return members_.number_of(rank_); }

  // `label` names what is carried, for errors and the flight record: "unit 2".
  // Every rank's tensor becomes the reduction over all ranks.
  Transfer reduce(at::Tensor tensor, Reduction reduction, std::string_view label);
  // Every rank's tensor becomes that of `root`.
  Transfer broadcast(at::Tensor tensor, int root, std::string_view label);
  // `whole` becomes the ranks' parts, one after the other; `part` may be its place in `whole`.
  Transfer gather(at::Tensor whole, at::Tensor part, std::string_view label);
  // `part` becomes this rank's piece of the sum of the ranks' `whole`.
  Transfer reduce_scatter(at::Tensor part, at::Tensor whole, std::string_view label);
  // Between two ranks of the group, of which the others know nothing: what one sends the other
  // receives, as large, in the same order.
  Transfer send(at::Tensor tensor, int to, std::string_view label);
  Transfer receive(at::Tensor tensor, int from, std::string_view label);

  // One number, reduced and waited for.
  Result<double> reduce(double value, Reduction reduction, std::string_view label);
  // Each rank's number, by rank.
  Result<std::vector<std::int64_t>> gather(std::int64_t value, std::string_view label);

  // The group of these of our ranks, in this order; this rank is among them. Each rank of ours
  // calls it once with the group that it is to be in. `name` is what the group is called, and
  // unlike that of any other group of these ranks: "shard 1".
  Result<Comm> split(const std::vector<int>& ranks, const std::string& name) const;

  // Ends what is under way, with an error, and leaves the group, within seconds. Whoever dies or
  // lives on in it, none of its transfers moves anything any more; later ones fail. Nothing in a
  // group of one, and nothing over backends that know of no such end (Gloo).
  void leave();

  // A zeroed one-dimensional tensor: in the backend's own memory where it lends some, which saves
  // it a copy on every transfer.
  Result<at::Tensor> allocate(std::int64_t elements, at::ScalarType type, at::Device device);

 private:
  template <class Start>
  Transfer start(std::string_view verb, std::string_view label, const at::Tensor& tensor,
                 Start&& start_work);

  // Shared by the copies of a Comm; null in a group of one.
  std::shared_ptr<c10::intrusive_ptr<c10d::ProcessGroup>> group_;
  Duration bound_ = kBound;
  at::Device device_ = at::kCPU;  // where single numbers are carried
  int rank_ = 0;
  int size_ = 1;
  Members members_ = Members::world(1);
};

}  // namespace lockstep
