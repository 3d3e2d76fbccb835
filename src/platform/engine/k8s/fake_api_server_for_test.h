// An API server in memory: objects by their path, watches that end after each event, and the next
// answers as a test wants them.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "base/format.h"
#include "base/mutex.h"
#include "platform/engine/k8s/api_server.h"
#include "platform/engine/k8s/json_fields.h"

namespace lockstep::engine {

class FakeCluster {
 public:
  struct Event {
    int version = 0;
    std::string collection;  // "/api/v1/nodes"
    Json event;
  };

  // A node or a change of one, as the test makes it.
  void put(const std::string& collection, Json object) {
    const Lock lock(mutex_);
    const std::string path = collection + "/" + text_of(object, {"metadata", "name"});
    add_event(objects_.contains(path) ? "MODIFIED" : "ADDED", collection, object);
    objects_[path] = std::move(object);
  }
  void drop(const std::string& collection, const std::string& name) {
    const Lock lock(mutex_);
    const auto found = objects_.find(collection + "/" + name);
    if (found == objects_.end()) return;
    add_event("DELETED", collection, found->second);
    objects_.erase(found);
  }
  // The object with the fields of `status`.
  void set_status(const std::string& path, Json status) {
    const Lock lock(mutex_);
    Json& object = objects_.at(path);
    object["status"] = std::move(status);
    add_event("MODIFIED", path.substr(0, path.rfind('/')), object);
  }
  // Watches from before are answered by 410.
  void forget() {
    const Lock lock(mutex_);
    oldest_ = ++version_;
    events_.clear();
    changed_.notify_all();
  }
  // The next call that begins so, such as "POST /api/v1/nodes", is answered by `reply`. With `does`
  // it has its effect all the same.
  void fail_next(const std::string& call, ApiReply reply, bool does = false) {
    const Lock lock(mutex_);
    faults_.push_back({call, std::move(reply), does});
  }
  // Until the empty text, no call is answered.
  void set_away(const std::string& why) {
    const Lock lock(mutex_);
    away_ = why;
    changed_.notify_all();
  }

  std::vector<std::string> paths(const std::string& collection) {
    const Lock lock(mutex_);
    std::vector<std::string> found;
    for (const auto& [path, object] : objects_)
      if (path.starts_with(collection + "/")) found.push_back(path);
    return found;
  }
  Json object(const std::string& path) {
    const Lock lock(mutex_);
    const auto found = objects_.find(path);
    return found == objects_.end() ? Json() : found->second;
  }
  std::ptrdiff_t count(const std::string& call) {
    const Lock lock(mutex_);
    return std::ranges::count_if(calls_,
                                 [&](const std::string& each) { return each.starts_with(call); });
  }
  Json last_options() {
    const Lock lock(mutex_);
    return last_options_;
  }

 private:
  friend class FakeApiServer;
  struct Fault {
    std::string call;
    ApiReply reply;
    bool does = false;
  };

  void add_event(const std::string& type, const std::string& collection, Json& object)
      LS_REQUIRES(mutex_) {
    object["metadata"]["resourceVersion"] = format("{}", ++version_);
    events_.push_back({version_, collection, {{"type", type}, {"object", object}}});
    changed_.notify_all();
  }

  Mutex mutex_;
  Condition changed_;
  int version_ = 100, oldest_ = 0, uids_ = 0;
  std::map<std::string, Json> objects_;
  std::vector<Event> events_;
  std::vector<Fault> faults_;
  std::vector<std::string> calls_;
  std::string away_;
  Json last_options_;
};

// A connection to it.
class FakeApiServer : public ApiServer {
 public:
  explicit FakeApiServer(FakeCluster& cluster) : cluster_(cluster) {}

  ApiReply get(const std::string& path) override {
    return answer("GET", path, [&](FakeCluster& c) LS_REQUIRES(c.mutex_) -> ApiReply {
      const std::string place = path.substr(0, path.find('?'));
      const auto found = c.objects_.find(place);
      if (found != c.objects_.end()) return {.status = 200, .object = found->second};
      if (!is_collection(place)) return {.status = 404, .error = place + " not found"};
      Json items = Json::array();
      for (const auto& [name, object] : c.objects_)
        if (name.starts_with(place + "/")) items.push_back(object);
      return {.status = 200,
              .object = {{"metadata", {{"resourceVersion", format("{}", c.version_)}}},
                         {"items", items}}};
    });
  }
  ApiReply create(const std::string& path, const Json& object) override {
    return answer("POST", path, [&](FakeCluster& c) LS_REQUIRES(c.mutex_) -> ApiReply {
      const std::string place = path + "/" + text_of(object, {"metadata", "name"});
      if (c.objects_.contains(place))
        return {.status = 409,
                .object = {{"reason", "AlreadyExists"}},
                .error = place + " already exists"};
      Json made = object;
      made["metadata"]["uid"] = format("uid-{}", ++c.uids_);
      if (path.ends_with("/pods")) made["status"] = {{"phase", "Pending"}};
      c.add_event("ADDED", path, made);
      c.objects_[place] = made;
      return {.status = 201, .object = made};
    });
  }
  ApiReply remove(const std::string& path, const Json& options) override {
    return answer("DELETE", path, [&](FakeCluster& c) LS_REQUIRES(c.mutex_) -> ApiReply {
      c.last_options_ = options;
      const auto found = c.objects_.find(path);
      if (found == c.objects_.end()) return {.status = 404, .error = path + " not found"};
      c.add_event("DELETED", path.substr(0, path.rfind('/')), found->second);
      c.objects_.erase(found);
      return {.status = 200};
    });
  }
  ApiReply watch(const std::string& path, Duration idle,
                 const std::function<bool(const Json& event)>& on_event) override {
    const std::string place = path.substr(0, path.find('?'));
    int seen = std::stoi(path.substr(path.rfind('=') + 1));
    const auto end = Deadline::after(idle);
    {
      const Lock lock(cluster_.mutex_);
      cluster_.calls_.push_back("WATCH " + path);
    }
    for (;;) {
      std::vector<FakeCluster::Event> events;
      {
        const Lock lock(cluster_.mutex_);
        while (!is_stopped_ && cluster_.away_.empty() && cluster_.version_ <= seen &&
               cluster_.changed_.wait_until(cluster_.mutex_, end)) {
        }
        if (is_stopped_) return {.status = 200};
        if (!cluster_.away_.empty()) return {.error = cluster_.away_};
        if (cluster_.version_ <= seen) return {.error = "the watch is silent"};
        if (seen < cluster_.oldest_) {
          events.push_back({0, place, {{"type", "ERROR"}, {"object", {{"code", 410}}}}});
        } else {
          for (const FakeCluster::Event& event : cluster_.events_)
            if (event.version > seen && event.collection == place) events.push_back(event);
          seen = cluster_.version_;
        }
      }
      for (const FakeCluster::Event& event : events)
        if (!on_event(event.event)) return {.status = 200};
    }
  }
  void stop() override {
    const Lock lock(cluster_.mutex_);
    is_stopped_ = true;
    cluster_.changed_.notify_all();
  }

 private:
  static bool is_collection(const std::string& path) {
    return path.ends_with("/pods") || path.ends_with("/configmaps") || path.ends_with("/nodes");
  }
  template <class Act>
  ApiReply answer(const std::string& method, const std::string& path, Act act) {
    const Lock lock(cluster_.mutex_);
    cluster_.calls_.push_back(method + " " + path);
    if (!cluster_.away_.empty()) return {.error = cluster_.away_};
    auto& faults = cluster_.faults_;
    const auto next = std::ranges::find_if(faults, [&](const FakeCluster::Fault& fault) {
      return cluster_.calls_.back().starts_with(fault.call);
    });
    if (next == faults.end()) return act(cluster_);
    const FakeCluster::Fault fault = *next;
    faults.erase(next);
    if (fault.does) (void)act(cluster_);
    return fault.reply;
  }

  FakeCluster& cluster_;
  bool is_stopped_ = false;
};

}  // namespace lockstep::engine
