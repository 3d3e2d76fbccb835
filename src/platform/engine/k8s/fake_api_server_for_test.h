// An API server in memory: objects by their path, watches that end after each event, and the next
// answers as a test wants them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
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
  // Until the empty text, each call of a path that begins so is answered by 403.
  void refuse(const std::string& place, const std::string& why) {
    const Lock lock(mutex_);
    refused_ = place;
    refusal_ = why;
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

  ApiReply get(const std::string& path) {
    const Lock lock(mutex_);
    const auto fault = begin_call("GET " + path);
    if (fault && !fault->does) return fault->reply;
    ApiReply reply = read(path.substr(0, path.find('?')));
    return fault ? fault->reply : reply;
  }
  ApiReply create(const std::string& path, const Json& object) {
    const Lock lock(mutex_);
    const auto fault = begin_call("POST " + path);
    if (fault && !fault->does) return fault->reply;
    ApiReply reply = make(path, object);
    return fault ? fault->reply : reply;
  }
  ApiReply remove(const std::string& path, const Json& options) {
    const Lock lock(mutex_);
    const auto fault = begin_call("DELETE " + path);
    if (fault && !fault->does) return fault->reply;
    last_options_ = options;
    ApiReply reply = erase(path);
    return fault ? fault->reply : reply;
  }

 private:
  friend class FakeApiServer;
  struct Fault {
    std::string call;
    ApiReply reply;
    bool does = false;
  };

  static bool is_collection(const std::string& path) {
    return path.ends_with("/pods") || path.ends_with("/configmaps") || path.ends_with("/nodes") ||
           path.ends_with("/events");
  }
  // Nullopt: the call is answered as usual.
  std::optional<Fault> begin_call(const std::string& call) LS_REQUIRES(mutex_) {
    calls_.push_back(call);
    if (!away_.empty()) return Fault{.call = call, .reply = {.error = away_}};
    if (!refusal_.empty() && call.substr(call.find(' ') + 1).starts_with(refused_))
      return Fault{.call = call, .reply = {.status = 403, .error = refusal_}};
    for (auto next = faults_.begin(); next != faults_.end(); ++next) {
      if (!call.starts_with(next->call)) continue;
      Fault fault = std::move(*next);
      faults_.erase(next);
      return fault;
    }
    return std::nullopt;
  }
  ApiReply read(const std::string& path) LS_REQUIRES(mutex_) {
    const auto found = objects_.find(path);
    if (found != objects_.end()) return {.status = 200, .object = found->second};
    if (!is_collection(path)) return {.status = 404, .error = path + " not found"};
    Json items = Json::array();
    for (const auto& [name, object] : objects_)
      if (name.starts_with(path + "/")) items.push_back(object);
    return {
        .status = 200,
        .object = {{"metadata", {{"resourceVersion", format("{}", version_)}}}, {"items", items}}};
  }
  ApiReply make(const std::string& path, Json object) LS_REQUIRES(mutex_) {
    const std::string place = path + "/" + text_of(object, {"metadata", "name"});
    if (objects_.contains(place))
      return {.status = 409,
              .object = {{"reason", "AlreadyExists"}},
              .error = place + " already exists"};
    object["metadata"]["uid"] = format("uid-{}", ++uids_);
    if (path.ends_with("/pods")) object["status"] = {{"phase", "Pending"}};
    add_event("ADDED", path, object);
    objects_[place] = object;
    return {.status = 201, .object = object};
  }
  ApiReply erase(const std::string& path) LS_REQUIRES(mutex_) {
    const auto found = objects_.find(path);
    if (found == objects_.end()) return {.status = 404, .error = path + " not found"};
    add_event("DELETED", path.substr(0, path.rfind('/')), found->second);
    objects_.erase(found);
    return {.status = 200};
  }
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
  std::string away_, refused_, refusal_;
  Json last_options_;
};

// A connection to it.
class FakeApiServer : public ApiServer {
 public:
  explicit FakeApiServer(FakeCluster& cluster) : cluster_(cluster) {}

  ApiReply get(const std::string& path) override { return cluster_.get(path); }
  ApiReply create(const std::string& path, const Json& object) override {
    return cluster_.create(path, object);
  }
  ApiReply remove(const std::string& path, const Json& options) override {
    return cluster_.remove(path, options);
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
  FakeCluster& cluster_;
  bool is_stopped_ = false;
};

}  // namespace lockstep::engine
