// Snapshot: a copy in memory of the data that this rank will write, laid out as in its file. The
// next snapshot reuses its memory.
//
// State on a device is copied into pinned memory, on a stream of the snapshot's own. The thread
// that trains queues the copies and does not wait for them: streams order them after the
// computation of the state, and before its next change.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include "base/result.h"
#include "train/checkpoint/save_plan.h"

namespace lockstep::train {

class Snapshot {
 public:
  // exhausted: there is no memory for it.
  Result<void> allocate(const SavePlan& plan, at::Device device);
  // On the thread that trains: copies the tensors that are not stable, and queues the copies of
  // those on a device. The current stream waits for the copies of tensors there that are not
  // stable. Tensors have the plan's form.
  void begin(const SavePlan& plan, const std::vector<OwnedTensor>& tensors);
  // Completes when the copies of the device's tensors are done; null if there are none.
  std::shared_ptr<const c10::Event> device_copies() const;
  // On another thread, copies the rest, in the order of the file, while others wait for its first
  // bytes.
  void finish(const SavePlan& plan, const std::vector<OwnedTensor>& tensors);
  // Starts at a page boundary, as DataWriter requires.
  std::string_view bytes() const { return {memory_, size_}; }
  // The number of bytes copied, from the beginning on; waits for `count` while a copy is in flight.
  std::size_t wait_for_bytes(std::size_t count) const;

 private:
  struct Free {
    void operator()(char* memory) const { std::free(memory); }
  };
  // A copy is done if its event is.
  struct QueuedCopy {
    std::size_t slice;  // of the plan
    std::shared_ptr<c10::Event> done;
  };

  char* allocate_pinned(std::size_t bytes);
  void queue(const SavePlan& plan, const std::vector<OwnedTensor>& tensors, bool stable);
  void notify_copied(std::size_t bytes);

  char* memory_ = nullptr;
  std::unique_ptr<char, Free> pageable_;
  at::Tensor pinned_;  // in place of it, for a device
  std::size_t size_ = 0;
  std::optional<c10::Stream> stream_;  // of the copies from a device
  std::vector<QueuedCopy> queued_;
  std::atomic<std::size_t> copied_bytes_ = 0;
};

}  // namespace lockstep::train
