// Calls of torch that the backend lacks: the error says which, and what to do.
#include <functional>
#include <memory>
#include <string_view>

#include <c10/util/Exception.h>

#include "base/os/environment.h"
#include "comm/torch/backend.h"

namespace lockstep::comm {
namespace {

[[noreturn]] void refuse(std::string_view call, std::string_view remedy) {
  const auto variables = own_environment();
  const auto replaced = variables.find("LOCKSTEP_REPLACE_BACKEND");
  const bool is_replaced = replaced != variables.end() && !replaced->second.empty();
  C10_THROW_ERROR(NotImplementedError,
                  c10::str("the backend lockstep does not implement ", call, ": ", remedy,
                           is_replaced ? ", or run the program without --replace-backend" : ""));
}

}  // namespace

void Backend::registerOnCompletionHook(
    std::function<void(std::shared_ptr<c10d::WorkInfo>)>&& /*hook*/) {
  refuse("_register_on_completion_hook",
         "take the times of calls from torch.profiler, or wait for the handles of the calls");
}

void Backend::waitForPendingWorks() {
  refuse("_wait_for_pending_works", "wait for the handles of the calls");
}

std::shared_ptr<c10::Allocator> Backend::getMemAllocator() {
  refuse("mem_allocator", "allocate_tensor gives memory that is sent without a copy");
}

}  // namespace lockstep::comm
