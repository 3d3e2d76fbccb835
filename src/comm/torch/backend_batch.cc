// How a call that was begun goes on: waited for here, in a batch, or as a Work.
#include <utility>

#include <c10/util/Exception.h>

#include "comm/torch/backend.h"
#include "comm/torch/work.h"

namespace lockstep {

Backend::WorkPtr Backend::start(c10d::OpType type, CallParts parts) {
  if (parts.mode == CallMode::nonblocking)
    return add_to_batch(parts) ? nullptr : work_of(type, std::move(parts));
  ++sequence_;
  if (const auto result = PendingCall(std::move(parts)).settle(); !result)
    raise_failure(result.error());
  return nullptr;
}

Backend::WorkPtr Backend::work_of(c10d::OpType type, CallParts parts) {
  const std::uint64_t sequence = ++sequence_;
  const auto allowed = parts.allowed;
  // Shared by the handle and, when nobody waits, the finisher.
  auto call = std::make_shared<PendingCall>(std::move(parts));
  return c10::make_intrusive<Work>(rank_, type, sequence, allowed, std::move(call),
                                   group_->finisher());
}

void Backend::startCoalescing() {
  // A Work that is dropped goes on without its handle.
  if (auto given_up = take_batch()) work_of(c10d::OpType::COALESCED, *std::move(given_up));
  Lock lock(batches_mutex_);
  batches_.insert_or_assign(std::this_thread::get_id(), CallParts{.what = "batch"});
}

Backend::WorkPtr Backend::endCoalescing() {
  auto batch = take_batch();
  TORCH_CHECK_VALUE(batch, "this thread ends a batch that it has not begun");
  return work_of(c10d::OpType::COALESCED, *std::move(batch));
}

bool Backend::in_batch() {
  Lock lock(batches_mutex_);
  return batches_.contains(std::this_thread::get_id());
}

bool Backend::add_to_batch(CallParts& parts) {
  Lock lock(batches_mutex_);
  const auto batch = batches_.find(std::this_thread::get_id());
  if (batch == batches_.end()) return false;
  batch->second.append(std::move(parts));
  return true;
}

std::optional<CallParts> Backend::take_batch() {
  Lock lock(batches_mutex_);
  auto batch = batches_.extract(std::this_thread::get_id());
  if (batch.empty()) return std::nullopt;
  return std::move(batch.mapped());
}

}  // namespace lockstep
