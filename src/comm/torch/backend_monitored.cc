// monitored_barrier: a barrier whose error names the ranks that did not come.
//
//     ranks 1, 2, ... > rank 0:  "I am here"
//     rank 0 > all others:       which ranks had not come when its time was over; none: all pass
//
// Rank 0 sends its answer to the late ranks too. So each call of a rank takes one message from each
// side, and a late rank learns that the barrier failed. Then the group can be used on, and the next
// monitored_barrier has all ranks in step again. Until a late rank comes, a receive from it is
// pending, which the group's time-out bounds like every other.
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include "base/clock.h"
#include "base/format.h"
#include "comm/torch/backend.h"
#include "comm/torch/completion_thread.h"
#include "comm/torch/tensors.h"
#include "comm/torch/work.h"

namespace lockstep::comm {
namespace {

// Beside that of all_to_all.
constexpr int kMonitoredBarrierTag = Backend::kTagLimit + 1;
// Rank 0 may enter later than others, and answers when its own time is over.
constexpr Duration kAnswerGrace = std::chrono::seconds(1);

// The first late rank, or all; programs look for "failed to pass monitoredBarrier".
std::string failure_text(const std::vector<int>& late, bool name_all) {
  if (!name_all || late.size() == 1)
    return format(
        "Rank {} failed to pass monitoredBarrier, which it has not entered: see what it does "
        "instead",
        late.front());
  std::string ranks;
  for (const int rank : late) ranks += format("{}{}", ranks.empty() ? "" : ", ", rank);
  return format(
      "Ranks {} failed to pass monitoredBarrier, which they have not entered: see what they do "
      "instead",
      ranks);
}

}  // namespace

void Backend::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const Duration timeout = options.timeout.count() < 0 ? timeout_.load() : options.timeout;
  if (rank_ == 0)
    await_all_ranks(timeout, wait_all_ranks);
  else
    await_rank_0(timeout, wait_all_ranks);
}

void Backend::await_all_ranks(Duration timeout, bool name_all) {
  const auto deadline = Deadline::after(timeout);
  const auto communicator = this->communicator();
  std::vector<std::shared_ptr<PendingCall>> arrivals;
  for (int peer = 1; peer < size_; ++peer) {
    const at::Tensor arrival = at::empty({1}, at::kByte);
    arrivals.push_back(
        barrier_message(communicator->recv(bytes(arrival), peer, kMonitoredBarrierTag), arrival));
  }
  const at::Tensor is_late = at::zeros({size_}, at::kByte);
  for (int peer = 1; peer < size_; ++peer)
    bytes(is_late)[static_cast<std::size_t>(peer)] =
        std::byte{!is_done_by(deadline, arrivals[static_cast<std::size_t>(peer - 1)])};
  for (int peer = 1; peer < size_; ++peer)
    (void)is_done_by(
        deadline,
        barrier_message(communicator->send(bytes(is_late), peer, kMonitoredBarrierTag), is_late));
  if (const auto late = late_ranks(is_late); !late.empty())
    C10_THROW_ERROR(DistBackendError, format("Rank {} timed out in monitoredBarrier after {}: {}",
                                             members_.global_rank(rank_), lockstep::text(timeout),
                                             failure_text(late, name_all)));
}

void Backend::await_rank_0(Duration timeout, bool name_all) {
  const auto deadline = Deadline::after(timeout + kAnswerGrace);
  const auto communicator = this->communicator();
  const at::Tensor arrival = at::zeros({1}, at::kByte);
  const at::Tensor is_late = at::empty({size_}, at::kByte);
  const auto answer =
      barrier_message(communicator->recv(bytes(is_late), 0, kMonitoredBarrierTag), is_late);
  (void)is_done_by(
      deadline,
      barrier_message(communicator->send(bytes(arrival), 0, kMonitoredBarrierTag), arrival));
  const auto late =
      is_done_by(deadline, answer) ? late_ranks(is_late) : std::vector{members_.global_rank(0)};
  if (!late.empty())
    C10_THROW_ERROR(
        DistBackendError,
        format("Rank {} successfully reached monitoredBarrier, but received errors while waiting "
               "for send/recv from rank {}: {}",
               members_.global_rank(rank_), members_.global_rank(0), failure_text(late, name_all)));
}

std::shared_ptr<PendingCall> Backend::barrier_message(OperationFuture sent_or_received,
                                                      const at::Tensor& memory) {
  CallParts parts{.operation = "monitored_barrier"};
  parts.memory.push_back(memory);
  parts.futures.push_back(std::move(sent_or_received));
  // Shared by the caller and, if it is not done in time, the completion thread.
  return std::make_shared<PendingCall>(std::move(parts));
}

bool Backend::is_done_by(const Deadline& deadline, const std::shared_ptr<PendingCall>& message) {
  const auto result = message->wait_and_finish_until(deadline, deadline.remaining());
  if (result) return true;
  if (result.error().code != Code::timeout) raise_failure(result.error());
  CompletionThread::complete_when_ready(group_->completion_thread(), message, nullptr);
  return false;
}

std::vector<int> Backend::late_ranks(const at::Tensor& is_late) const {
  std::vector<int> late;
  for (int rank = 0; rank < size_; ++rank)
    if (bytes(is_late)[static_cast<std::size_t>(rank)] != std::byte{0})
      late.push_back(members_.global_rank(rank));
  return late;
}

}  // namespace lockstep::comm
