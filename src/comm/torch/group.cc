#include "comm/torch/group.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <unistd.h>

namespace lockstep {
namespace {

struct Registry {
  Mutex mutex;  // guards what follows
  std::vector<std::weak_ptr<Group>> groups LS_GUARDED_BY(mutex);
};

Registry& registry() {
  static auto* const all = new Registry;  // never destroyed: groups may outlive statics
  return *all;
}

}  // namespace

std::shared_ptr<Group> Group::create(std::unique_ptr<Communicator> communicator) {
  std::shared_ptr<Group> group(new Group(std::move(communicator)));
  Lock lock(registry().mutex);
  std::erase_if(registry().groups, [](const auto& each) { return each.expired(); });
  registry().groups.push_back(group);
  return group;
}

Group::Group(std::unique_ptr<Communicator> communicator)
    : pid_(::getpid()),
      finisher_(std::make_shared<Finisher>()),
      communicator_(std::move(communicator)) {}

std::shared_ptr<Communicator> Group::communicator() {
  finisher_->sweep();
  Lock lock(mutex_);
  return communicator_;
}

void Group::leave() {
  // A forked child has none of the threads that this would wait for.
  if (::getpid() != pid_) return;
  std::shared_ptr<Communicator> communicator;
  {
    Lock lock(mutex_);
    communicator.swap(communicator_);
  }
  communicator.reset();  // ends what is pending, which the finisher then brings to its end
  finisher_->stop();
  finisher_->sweep();
}

void Group::leave_all() {
  std::vector<std::weak_ptr<Group>> groups;
  {
    Lock lock(registry().mutex);
    groups.swap(registry().groups);
  }
  for (const auto& each : groups)
    if (const auto group = each.lock()) group->leave();
}

}  // namespace lockstep
