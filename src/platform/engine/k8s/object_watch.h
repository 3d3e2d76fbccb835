// ObjectWatch: keeps up with the objects of one path of the API server: a list, then a watch from
// its version, and both again after any failure. docs/design/kubernetes.md has the table.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "base/mutex.h"
#include "base/result.h"
#include "base/units.h"
#include "platform/engine/k8s/api_server.h"
#include "platform/engine/k8s/backoff.h"

namespace lockstep::engine {

struct WatchBounds {
  Duration limit = std::chrono::seconds(60);  // the server ends each watch after that time
  Duration idle = std::chrono::seconds(75);   // without a byte, the connection is taken for lost
  Duration pause_first = std::chrono::seconds(1), pause_max = std::chrono::seconds(30);
};

class ObjectWatch {
 public:
  // All are called in the thread of the watch.
  struct Handlers {
    std::function<void()> list_begins;
    std::function<void(const Json& items)> listed;  // all that exist
    std::function<void(const std::string& type, const Json& object)> changed;
  };
  struct Setup {
    std::shared_ptr<ApiServer> server;  // for this watch alone
    std::string path;                   // "/api/v1/nodes", also with a query
    Handlers handlers;
    WatchBounds bounds{};
  };

  explicit ObjectWatch(Setup setup);
  ~ObjectWatch();
  ObjectWatch(const ObjectWatch&) = delete;  // the thread refers to it
  ObjectWatch& operator=(const ObjectWatch&) = delete;

  // The handlers know all that the server knew `age` ago. Else an error that says why. Waits for
  // the first list, until `first_answer`.
  Result<void> check_current(Duration age, const Deadline& first_answer) LS_EXCLUDES(mutex_);

 private:
  void work() LS_EXCLUDES(mutex_);
  ApiReply read_list();
  ApiReply read_events();
  bool handle_event(const Json& event);
  void set_watching(bool is_watching) LS_EXCLUDES(mutex_);
  void note_answer() LS_EXCLUDES(mutex_);
  void note_failure(const ApiReply& reply) LS_EXCLUDES(mutex_);
  void pause(Duration duration) LS_EXCLUDES(mutex_);
  bool is_ending() LS_EXCLUDES(mutex_);

  const Setup setup_;

  // Only the thread uses these:
  std::string version_;  // the watch continues from it; empty: a list comes first
  ApiReply refusal_;     // as an event of the watch
  Backoff backoff_;

  Mutex mutex_;  // guards what follows
  Condition changed_;
  bool ending_ LS_GUARDED_BY(mutex_) = false;
  bool is_watching_ LS_GUARDED_BY(mutex_) = false;
  bool has_list_ LS_GUARDED_BY(mutex_) = false;
  std::chrono::steady_clock::time_point answered_ LS_GUARDED_BY(mutex_);
  std::string problem_ LS_GUARDED_BY(mutex_);  // of the last answer; empty: none

  std::thread thread_;  // the last member: it uses the others
};

}  // namespace lockstep::engine
