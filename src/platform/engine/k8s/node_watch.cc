#include "platform/engine/k8s/node_watch.h"

#include <chrono>
#include <utility>

namespace lockstep::engine {

using std::chrono::steady_clock;

NodeWatch::NodeWatch(std::shared_ptr<ApiServer> server, const std::string& device_resource,
                     const WatchBounds& bounds)
    : nodes_(device_resource),
      watch_({.server = std::move(server),
              .path = "/api/v1/nodes",
              .handlers = handlers(),
              .bounds = bounds}) {}

ObjectWatch::Handlers NodeWatch::handlers() {
  return {.list_begins = [] {},
          .listed =
              [this](const Json& items) {
                const Lock lock(mutex_);
                nodes_.replace(items, steady_clock::now());
              },
          .changed =
              [this](const std::string& type, const Json& object) {
                const Lock lock(mutex_);
                nodes_.change(type, object, steady_clock::now());
              }};
}

Result<void> NodeWatch::check_current(Duration age, const Deadline& first_answer) {
  return watch_.check_current(age, first_answer);
}

bool NodeWatch::was_deleted(const std::string& node) {
  const Lock lock(mutex_);
  return nodes_.was_deleted(node);
}

void NodeWatch::add_hosts_to(EngineList& listed, Duration silent_after) {
  const Lock lock(mutex_);
  nodes_.add_hosts_to(listed, steady_clock::now(), silent_after);
  listed.map = nodes_.map();
}

}  // namespace lockstep::engine
