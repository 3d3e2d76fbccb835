// NamespacePods: the Pods of attempts in one namespace, and the objects with them
// (docs/design/kubernetes.md).
//
// A thread keeps up with the Pods, and another one makes and deletes objects. The daemon's thread
// reads the state that they share, and leaves requests.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>

#include "base/clock.h"
#include "base/mutex.h"
#include "platform/core/model/ids.h"
#include "platform/core/model/observation.h"
#include "platform/engine/engine.h"
#include "platform/engine/k8s/api_server.h"
#include "platform/engine/k8s/attempt_objects.h"
#include "platform/engine/k8s/backoff.h"
#include "platform/engine/k8s/node_watch.h"
#include "platform/engine/k8s/object_watch.h"
#include "platform/engine/k8s/pod_table.h"
#include "platform/k8s/project_table.h"

namespace lockstep::engine {

// The bounds of the engine.
struct PodBounds {
  Duration start_limit{};   // a Pod that cannot start is deleted after that time
  Duration silent_after{};  // an attempt waits so long for a Node that is not ready
  Duration list_age_max = std::chrono::seconds(10);
  Duration first_answer_wait = std::chrono::seconds(3);
  Duration ended_kept = std::chrono::seconds(10);   // the objects of an attempt, after its end
  Duration unknown_kept = std::chrono::minutes(1);  // those that an earlier daemon has left
  Duration slow_start = std::chrono::seconds(5);    // after it the engine lists warnings
  Duration warnings_interval = std::chrono::seconds(10);  // between two of those lists
  WatchBounds watch{};
};

struct NamespaceAccess {
  std::string name;
  std::shared_ptr<ApiServer> calls, pods;  // one for each thread
};

class NamespacePods {
 public:
  struct Setup {
    NamespaceAccess access;
    PodOptions options;
    const k8s::ProjectTable& projects;
    PodBounds bounds;
    NodeWatch& nodes;
  };
  explicit NamespacePods(Setup setup);
  // Objects that are not made yet are not made. Ends the call that is under way.
  ~NamespacePods();
  NamespacePods(const NamespacePods&) = delete;  // the threads refer to it
  NamespacePods& operator=(const NamespacePods&) = delete;

  // The text of the file with which agents find the daemon. Submissions wait for it.
  void announce(std::string daemon_file) LS_EXCLUDES(mutex_);

  // All nodes of the gang have a Pod, or had one.
  bool knows_all_of(const Gang& gang) LS_EXCLUDES(mutex_);
  // As Engine has them.
  void submit(Gang gang) LS_EXCLUDES(mutex_);
  void kill(const model::NodeName& node) LS_EXCLUDES(mutex_);
  // Adds the nodes of the namespace. Code::unavailable if there is no list of it that is young
  // enough: then nodes may exist that are not added.
  Result<void> add_nodes_to(EngineList& listed, const Deadline& first_answer) LS_EXCLUDES(mutex_);

 private:
  // A gang of which not all Pods are made.
  struct Submission {
    std::shared_ptr<const Gang> gang;
    ObjectOwner owner{};      // an empty UID: it is not made yet
    std::size_t next = 0;     // the first node whose Pod is not made
    int existing = -1;        // Pods up to this index were made before
    bool has_secret = false;  // of that node
    std::set<int> killed{};   // nodes that are not to be made
    Deadline refused_until = Deadline::after(
        Duration(0));      // until then it waits for a namespace that refuses to be listed
    std::string reason{};  // why it waits, or has failed
    // Set if no further Pod is made: whose fault that is.
    std::optional<model::EndBlame> failure{};
    Deadline retry = Deadline::after(Duration(0));
    Deadline forgotten = Deadline::after(Duration(0));  // failed: listed until then
  };
  // The owner of the objects of an attempt.
  struct Owner {
    model::AttemptName attempt;
    std::string uid;
    std::optional<Deadline> removal{};  // when it is deleted, since none of its Pods runs
  };
  // A call of the API server, made without the lock.
  using Call = std::function<void()>;

  // In the thread:
  void work() LS_EXCLUDES(mutex_);
  Call due_call() LS_REQUIRES(mutex_);
  Call due_kill() LS_REQUIRES(mutex_);
  Call due_warnings() LS_REQUIRES(mutex_);
  Call due_removal() LS_REQUIRES(mutex_);
  Call due_creation() LS_REQUIRES(mutex_);
  Call creation_of(Submission& submission) LS_REQUIRES(mutex_);
  void read_owners() LS_EXCLUDES(mutex_);
  void read_warnings() LS_EXCLUDES(mutex_);
  void remove_pod(const std::string& name, const std::string& uid) LS_EXCLUDES(mutex_);
  void remove_owner(const std::string& name, const Owner& owner) LS_EXCLUDES(mutex_);
  void make_owner(const std::shared_ptr<const Gang>& gang) LS_EXCLUDES(mutex_);
  void make_secret(const std::shared_ptr<const Gang>& gang, const Json& secret) LS_EXCLUDES(mutex_);
  void make_pod(const std::shared_ptr<const Gang>& gang, const Json& pod, const std::string& owner)
      LS_EXCLUDES(mutex_);
  // Null: it was forgotten meanwhile.
  Submission* submission_of(const Gang& gang) LS_REQUIRES(mutex_);
  void skip_made_nodes(Submission& submission) LS_REQUIRES(mutex_);
  bool note_reply(const ApiReply& reply) LS_REQUIRES(mutex_);
  void retry_or_fail(Submission& submission, const ApiReply& reply) LS_REQUIRES(mutex_);
  void update_removals() LS_REQUIRES(mutex_);
  std::string path_of(std::string_view resource) const;

  ObjectWatch::Handlers pod_handlers();
  PodOptions options_of(const Gang& gang) const;
  Result<void> check_submission(const Gang& gang) const;
  Result<void> check_current(const Deadline& first_answer) LS_EXCLUDES(mutex_);
  void fail(Submission& submission, model::EndBlame blame, std::string reason) LS_REQUIRES(mutex_);
  void note_refusal(const ApiReply& reply) LS_REQUIRES(mutex_);
  bool is_running(const PodTable::Pod& pod) const LS_REQUIRES(mutex_);
  void list_submission(const Submission& submission,
                       std::map<model::NodeName, model::Observation>& seen) const
      LS_REQUIRES(mutex_);
  std::map<model::NodeName, model::Observation> observations() const LS_REQUIRES(mutex_);

  const Setup setup_;

  Mutex mutex_;  // guards what follows
  Condition changed_;
  bool ending_ LS_GUARDED_BY(mutex_) = false;
  std::string daemon_file_ LS_GUARDED_BY(mutex_);
  std::map<model::AttemptName, Submission> submissions_ LS_GUARDED_BY(mutex_);
  std::set<model::NodeName> kills_ LS_GUARDED_BY(mutex_);
  PodTable pods_ LS_GUARDED_BY(mutex_);
  bool knows_owners_ LS_GUARDED_BY(mutex_) = false;
  bool has_pods_ LS_GUARDED_BY(mutex_) = false;
  std::map<std::string, Owner> owners_ LS_GUARDED_BY(mutex_);  // by name
  // Attempts of an earlier daemon have them.
  std::map<model::NodeName, std::shared_ptr<const LaunchRecord>> records_ LS_GUARDED_BY(mutex_);
  std::string problem_ LS_GUARDED_BY(mutex_);  // of the last call; empty: none
  Deadline next_warnings_ LS_GUARDED_BY(mutex_) = Deadline::after(Duration(0));
  bool may_list_events_ LS_GUARDED_BY(mutex_) = true;
  Deadline next_call_ LS_GUARDED_BY(mutex_) = Deadline::after(Duration(0));
  Backoff backoff_ LS_GUARDED_BY(mutex_);

  // The last members: their threads use the others.
  ObjectWatch pod_watch_;
  std::thread thread_;
};

}  // namespace lockstep::engine
