#include "comm/torch/backend_group.h"

#include <chrono>
#include <utility>
#include <vector>

#include <unistd.h>

namespace lockstep::comm {
namespace {

constexpr auto kDrainBound = std::chrono::seconds(2);

struct Registry {
  Mutex mutex;  // guards what follows
  std::vector<std::weak_ptr<BackendGroup>> groups LS_GUARDED_BY(mutex);
};

Registry& registry() {
  static auto* const all = new Registry;  // never destroyed: groups may outlive statics
  return *all;
}

}  // namespace

std::shared_ptr<BackendGroup> BackendGroup::create(std::unique_ptr<Communicator> communicator,
                                                   DeviceGroup::Options device) {
  std::shared_ptr<BackendGroup> group(new BackendGroup(std::move(communicator), std::move(device)));
  Lock lock(registry().mutex);
  std::erase_if(registry().groups, [](const auto& each) { return each.expired(); });
  registry().groups.push_back(group);
  return group;
}

BackendGroup::BackendGroup(std::unique_ptr<Communicator> communicator, DeviceGroup::Options device)
    : pid_(::getpid()),
      completion_thread_(std::make_shared<CompletionThread>()),
      device_group_(std::make_shared<DeviceGroup>(std::move(device), communicator->end())),
      communicator_(std::move(communicator)) {}

std::shared_ptr<Communicator> BackendGroup::communicator() {
  completion_thread_->destroy_completed();
  Lock lock(mutex_);
  return communicator_;
}

void BackendGroup::leave() {
  // A forked child has none of the threads that leaving would wait for.
  if (::getpid() != pid_) return;
  device_group_->drain(kDrainBound);
  std::shared_ptr<Communicator> communicator;
  {
    Lock lock(mutex_);
    communicator.swap(communicator_);
  }
  communicator.reset();  // ends pending calls, which the completion thread then completes
  completion_thread_->stop();
  completion_thread_->destroy_completed();
  device_group_->join();
}

void BackendGroup::leave_all() {
  std::vector<std::weak_ptr<BackendGroup>> groups;
  {
    Lock lock(registry().mutex);
    groups.swap(registry().groups);
  }
  for (const auto& each : groups)
    if (const auto group = each.lock()) group->leave();
}

}  // namespace lockstep::comm
