#include "platform/engine/k8s/k8s_engine.h"

#include <algorithm>
#include <utility>

#include "base/format.h"
#include "base/log.h"
#include "net/http/url.h"
#include "platform/engine/k8s/json_fields.h"

namespace lockstep::engine {
namespace {

using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr int kUnauthorized = 401;
constexpr int kNotFound = 404;
constexpr int kConflict = 409;
constexpr int kUnprocessable = 422;  // a field of the object is invalid
constexpr int kTooMany = 429;
constexpr int kServerError = 500;

constexpr Duration kFailedListed = std::chrono::minutes(10);
constexpr Duration kIdleInterval = seconds(1);
constexpr int kKillGraceSeconds = 1;

bool already_exists(const ApiReply& reply) {
  return reply.status == kConflict && text_of(reply.object, {"reason"}) == "AlreadyExists";
}

// Another call may succeed.
bool is_passing(const ApiReply& reply) {
  return reply.status == 0 || reply.status == kUnauthorized || reply.status == kTooMany ||
         reply.status >= kServerError;
}

std::string selector_of(const std::string& installation) {
  return format("?labelSelector={}",
                net::percent_encode(format("{}={}", kDaemonLabel, installation)));
}

Json delete_options(const std::string& uid) {
  return {{"apiVersion", "v1"}, {"kind", "DeleteOptions"}, {"preconditions", {{"uid", uid}}}};
}

std::string owner_of(const Json& object) {
  std::string uid;
  for (const Json& owner : items_of(object, {"metadata", "ownerReferences"}))
    uid = text_of(owner, {"uid"});
  return uid;
}

}  // namespace

K8sEngine::K8sEngine(Setup setup)
    : setup_(std::move(setup)),
      first_answer_(Deadline::after(setup_.first_answer_wait)),
      nodes_(setup_.options.gpu_resource),
      backoff_(setup_.bounds.pause_first, setup_.bounds.pause_max),
      pod_watch_({.server = setup_.pods,
                  .path = path_of("pods") + selector_of(setup_.options.installation),
                  .handlers = pod_handlers(),
                  .bounds = setup_.bounds}),
      node_watch_({.server = setup_.nodes,
                   .path = "/api/v1/nodes",
                   .handlers = node_handlers(),
                   .bounds = setup_.bounds}),
      thread_([this] { work(); }) {}

K8sEngine::~K8sEngine() {
  {
    const Lock lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  setup_.calls->stop();
  thread_.join();
}

void K8sEngine::announce(std::string daemon_file) {
  const Lock lock(mutex_);
  daemon_file_ = std::move(daemon_file);
  changed_.notify_all();
}

void K8sEngine::submit(Gang gang) {
  const Lock lock(mutex_);
  bool is_known = true;
  for (const NodePlacement& node : gang.nodes) is_known &= pods_.knows(node_name(gang, node));
  if (is_known || submissions_.contains(gang.attempt)) return;
  Submission& submission = submissions_[gang.attempt];
  submission.gang = std::make_shared<const Gang>(std::move(gang));
  if (auto checked = check_gang(*submission.gang, setup_.options); !checked) {
    submission.failure = model::EndBlame::refusal;
    submission.reason = checked.error().message;
    submission.forgotten = Deadline::after(kFailedListed);
  }
  changed_.notify_all();
}

void K8sEngine::kill(const model::NodeName& node) {
  const Lock lock(mutex_);
  const auto found = submissions_.find(node.attempt());
  if (found != submissions_.end()) found->second.killed.insert(node.id.index);
  kills_.insert(node);
  changed_.notify_all();
}

Result<EngineList> K8sEngine::list() {
  {
    const Lock lock(mutex_);
    while (!knows_owners_ && problem_.empty() && changed_.wait_until(mutex_, first_answer_)) {
    }
    if (!knows_owners_)
      return Error{Code::unavailable, format("the API server of Kubernetes does not answer: {}",
                                             problem_.empty() ? "no answer yet" : problem_)};
  }
  for (ObjectWatch* watch : {&pod_watch_, &node_watch_})
    if (auto current = watch->check_current(setup_.list_age_max, first_answer_); !current)
      return Error{Code::unavailable, format("the API server of Kubernetes does not answer: {}",
                                             current.error().message)};
  const Lock lock(mutex_);
  EngineList listed;
  for (auto& [node, seen] : observations()) {
    const auto record = records_.find(node);
    listed.nodes.push_back({.node = node,
                            .seen = std::move(seen),
                            .record = record == records_.end() ? nullptr : record->second});
  }
  nodes_.add_hosts_to(listed, steady_clock::now(), setup_.silent_after);
  listed.map = nodes_.map();
  return listed;
}

std::map<model::NodeName, model::Observation> K8sEngine::observations() const {
  std::map<model::NodeName, model::Observation> seen;
  for (const auto& [attempt, submission] : submissions_) list_submission(submission, seen);
  for (const auto& [node, list] : pods_.made())
    seen[node] = {.phase = model::NodePhase::pending, .reason = "its Pod was made"};
  for (const auto& [node, end] : pods_.ended()) seen[node] = end;
  for (const auto& [node, pod] : pods_.pods()) {
    seen[node] = pod.view.seen;
    if (pod.view.has_ended || !nodes_.was_deleted(pod.view.host)) continue;
    seen[node] = {.phase = model::NodePhase::gone,
                  .reason = format("Node {} was deleted from the cluster", pod.view.host),
                  .blame = model::EndBlame::host,
                  .handle = pod.view.name};
  }
  return seen;
}

void K8sEngine::list_submission(const Submission& submission,
                                std::map<model::NodeName, model::Observation>& seen) const {
  const Gang& gang = *submission.gang;
  for (std::size_t i = submission.next; i < gang.nodes.size(); ++i) {
    const NodePlacement& node = gang.nodes[i];
    if (!submission.failure && submission.killed.contains(node.index)) continue;
    const std::string reason =
        submission.reason.empty() ? "its Pod is being made" : submission.reason;
    seen[node_name(gang, node)] =
        submission.failure
            ? model::Observation{.phase = model::NodePhase::gone,
                                 .reason = reason,
                                 .blame = *submission.failure}
            : model::Observation{.phase = model::NodePhase::pending, .reason = reason};
  }
}

bool K8sEngine::is_running(const PodTable::Pod& pod) const {
  return !pod.view.has_ended && !nodes_.was_deleted(pod.view.host);
}

// --- In the threads of the watches ---

ObjectWatch::Handlers K8sEngine::pod_handlers() {
  return {.list_begins =
              [this] {
                const Lock lock(mutex_);
                pods_.begin_list();
              },
          .listed =
              [this](const Json& items) {
                const Lock lock(mutex_);
                pods_.replace(items, steady_clock::now());
                has_pods_ = true;
                changed_.notify_all();
              },
          .changed =
              [this](const std::string& type, const Json& object) {
                const Lock lock(mutex_);
                pods_.change(type, object, steady_clock::now());
                changed_.notify_all();
              }};
}

ObjectWatch::Handlers K8sEngine::node_handlers() {
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

// --- In the thread of calls ---

void K8sEngine::work() {
  for (;;) {
    Call call;
    {
      const Lock lock(mutex_);
      while (!ending_ && !(call = due_call())) {
        const auto pause = next_call_.passed() ? kIdleInterval : next_call_.remaining();
        changed_.wait_until(mutex_, Deadline::after(std::min<Duration>(pause, kIdleInterval)));
      }
      if (ending_) return;
    }
    call();
  }
}

K8sEngine::Call K8sEngine::due_call() {
  if (!next_call_.passed()) return {};
  if (!knows_owners_) return [this] { read_owners(); };
  if (!has_pods_) return {};
  if (Call call = due_kill()) return call;
  if (Call call = due_creation()) return call;
  if (Call call = due_warnings()) return call;
  return due_removal();
}

K8sEngine::Call K8sEngine::due_kill() {
  const PodTable::Pod* pod = pods_.give_up(steady_clock::now(), setup_.start_limit);
  while (!pod && !kills_.empty()) {
    pod = pods_.mark_killed(*kills_.begin());
    kills_.erase(kills_.begin());  // the controller repeats it
  }
  if (!pod) return {};
  return [this, name = pod->view.name, uid = pod->view.uid] { remove_pod(name, uid); };
}

K8sEngine::Call K8sEngine::due_creation() {
  if (daemon_file_.empty()) return {};
  for (auto entry = submissions_.begin(); entry != submissions_.end();) {
    Submission& submission = entry->second;
    skip_made_nodes(submission);
    const bool is_done = submission.next >= submission.gang->nodes.size();
    if (is_done || (submission.failure && submission.forgotten.passed())) {
      entry = submissions_.erase(entry);
      continue;
    }
    if (!submission.failure && submission.retry.passed()) return creation_of(submission);
    ++entry;
  }
  return {};
}

// Also those that are killed.
void K8sEngine::skip_made_nodes(Submission& submission) {
  const Gang& gang = *submission.gang;
  while (submission.next < gang.nodes.size()) {
    const NodePlacement& node = gang.nodes[submission.next];
    const bool is_to_make = node.index > submission.existing &&
                            !submission.killed.contains(node.index) &&
                            !pods_.knows(node_name(gang, node));
    if (submission.failure || is_to_make) return;
    ++submission.next;
    submission.has_secret = false;
  }
}

K8sEngine::Call K8sEngine::creation_of(Submission& submission) {
  const auto gang = submission.gang;
  if (submission.owner.uid.empty()) return [this, gang] { make_owner(gang); };
  const NodePlacement& node = gang->nodes[submission.next];
  const ObjectOwner owner = submission.owner;
  if (!submission.has_secret)
    return [this, gang, secret = secret_object(*gang, node, owner, setup_.options, daemon_file_)] {
      make_secret(gang, secret);
    };
  return [this, gang, owner, pod = pod_object(*gang, node, owner, setup_.options)] {
    make_pod(gang, pod, owner.uid);
  };
}

// One list serves all Pods of the namespace.
K8sEngine::Call K8sEngine::due_warnings() {
  if (!next_warnings_.passed() || !pods_.has_slow_start(steady_clock::now(), setup_.slow_start))
    return {};
  next_warnings_ = Deadline::after(setup_.warnings_interval);
  return [this] { read_warnings(); };
}

K8sEngine::Call K8sEngine::due_removal() {
  update_removals();
  for (const auto& entry : owners_)
    if (entry.second.removal && entry.second.removal->passed())
      return [this, name = entry.first, owner = entry.second] { remove_owner(name, owner); };
  return {};
}

void K8sEngine::update_removals() {
  std::set<std::string> running;
  std::set<model::AttemptName> kept;
  for (const auto& [node, pod] : pods_.pods())
    if (is_running(pod)) running.insert(pod.view.attempt_object);
  for (const auto& [node, list] : pods_.made()) kept.insert(node.attempt());
  for (const auto& [attempt, submission] : submissions_)
    if (!submission.failure) kept.insert(attempt);
  for (auto& [name, owner] : owners_) {
    if (running.contains(name) || kept.contains(owner.attempt))
      owner.removal.reset();
    else if (!owner.removal)
      owner.removal = Deadline::after(setup_.ended_kept);
  }
  for (const auto& [name, owner] : owners_) kept.insert(owner.attempt);
  pods_.keep_ends_of(kept);
}

void K8sEngine::read_owners() {
  const ApiReply reply =
      setup_.calls->get(path_of("configmaps") + selector_of(setup_.options.installation));
  const Lock lock(mutex_);
  if (!note_reply(reply)) return;
  for (const Json& item : items_of(reply.object, {"items"})) {
    const auto attempt = attempt_of_owner(item);
    if (!attempt) continue;
    owners_[text_of(item, {"metadata", "name"})] = {
        .attempt = *attempt,
        .uid = text_of(item, {"metadata", "uid"}),
        .removal = Deadline::after(setup_.unknown_kept)};
    for (auto& [node, record] : records_of_owner(item, setup_.options))
      records_[node] = std::make_shared<const LaunchRecord>(std::move(record));
  }
  knows_owners_ = true;
  changed_.notify_all();
}

void K8sEngine::read_warnings() {
  const std::string selector = net::percent_encode("involvedObject.kind=Pod,type=Warning");
  const ApiReply reply =
      setup_.calls->get(format("{}?fieldSelector={}", path_of("events"), selector));
  const Lock lock(mutex_);
  if (note_reply(reply))
    pods_.add_warnings(warnings_of_events(items_of(reply.object, {"items"})), steady_clock::now());
  if (is_passing(reply) || reply.ok() == may_list_events_) return;
  may_list_events_ = reply.ok();
  if (!may_list_events_)
    LS_LOG(warning, "a Pod that does not start is not explained: {}", reply.error);
}

void K8sEngine::remove_pod(const std::string& name, const std::string& uid) {
  Json options = delete_options(uid);
  options["gracePeriodSeconds"] = kKillGraceSeconds;
  const ApiReply reply = setup_.calls->remove(path_of("pods") + "/" + name, options);
  const Lock lock(mutex_);
  note_reply(reply);
}

void K8sEngine::remove_owner(const std::string& name, const Owner& owner) {
  Json options = delete_options(owner.uid);
  options["propagationPolicy"] = "Background";
  const ApiReply reply = setup_.calls->remove(path_of("configmaps") + "/" + name, options);
  const Lock lock(mutex_);
  if (!note_reply(reply)) {
    if (is_passing(reply)) return;
    if (reply.status != kNotFound) LS_LOG(warning, "deleting {}: {}", name, reply.error);
  }
  pods_.forget_attempt(owner.attempt, owner.uid);
  std::erase_if(records_,
                [&](const auto& entry) { return entry.first.attempt() == owner.attempt; });
  owners_.erase(name);
}

// After a conflict, the object that is there is read.
void K8sEngine::make_owner(const std::shared_ptr<const Gang>& gang) {
  const Json object = owner_object(*gang, setup_.options);
  const std::string name = text_of(object, {"metadata", "name"});
  ApiReply reply = setup_.calls->create(path_of("configmaps"), object);
  const bool existed = reply.status == kConflict;
  if (existed) reply = setup_.calls->get(path_of("configmaps") + "/" + name);
  const Lock lock(mutex_);
  Submission* submission = submission_of(*gang);
  if (!submission) return;
  if (existed && reply.status == kNotFound) reply.status = kServerError;  // it was just deleted
  if (!note_reply(reply)) return retry_or_fail(*submission, reply);
  if (attempt_of_owner(reply.object) != gang->attempt) {
    reply.error = format("another ConfigMap is called {}", name);
    reply.status = kConflict;
    return retry_or_fail(*submission, reply);
  }
  submission->owner = {.name = name, .uid = text_of(reply.object, {"metadata", "uid"})};
  submission->existing = existed ? pods_.highest_index(gang->attempt) : -1;
  submission->reason.clear();
  owners_[name] = {.attempt = gang->attempt, .uid = submission->owner.uid};
}

// Its name has the UID of the owner: one that exists has these contents.
void K8sEngine::make_secret(const std::shared_ptr<const Gang>& gang, const Json& secret) {
  ApiReply reply = setup_.calls->create(path_of("secrets"), secret);
  const bool existed = already_exists(reply);
  if (!existed && reply.status == kConflict) reply.status = kServerError;  // another call
  const Lock lock(mutex_);
  Submission* submission = submission_of(*gang);
  const bool is_there = note_reply(reply) || existed;
  if (!submission) return;
  if (!is_there) return retry_or_fail(*submission, reply);
  submission->has_secret = true;
}

void K8sEngine::make_pod(const std::shared_ptr<const Gang>& gang, const Json& pod,
                         const std::string& owner) {
  const std::string name = text_of(pod, {"metadata", "name"});
  ApiReply reply = setup_.calls->create(path_of("pods"), pod);
  const bool existed = reply.status == kConflict;
  if (existed) reply = setup_.calls->get(path_of("pods") + "/" + name);
  const Lock lock(mutex_);
  Submission* submission = submission_of(*gang);
  if (existed && reply.status == kNotFound) reply.status = kServerError;  // it was just deleted
  if (note_reply(reply) && existed && owner_of(reply.object) != owner)
    reply = {.status = kServerError,
             .error = format("Pod {} of an earlier attempt of that name still exists", name)};
  const auto node = node_of_pod(pod);
  if (reply.ok() && node) pods_.add_made(*node);
  if (!submission) return;
  if (!reply.ok()) return retry_or_fail(*submission, reply);
  submission->reason.clear();
}

K8sEngine::Submission* K8sEngine::submission_of(const Gang& gang) {
  const auto found = submissions_.find(gang.attempt);
  return found == submissions_.end() ? nullptr : &found->second;
}

// Nodes whose Pod is not made are gone after an error that another call would meet again.
void K8sEngine::retry_or_fail(Submission& submission, const ApiReply& reply) {
  submission.reason = reply.error;
  submission.retry = Deadline::after(setup_.bounds.pause_first);
  if (is_passing(reply)) return;
  LS_LOG(warning, "{}: {}", text(submission.gang->attempt.id), reply.error);
  submission.failure =
      reply.status == kUnprocessable ? model::EndBlame::refusal : model::EndBlame::engine;
  submission.forgotten = Deadline::after(kFailedListed);
}

// While the server fails, all calls wait. False: the reply is an error.
bool K8sEngine::note_reply(const ApiReply& reply) {
  changed_.notify_all();
  if (!is_passing(reply)) {
    problem_.clear();
    backoff_.reset();
    return reply.ok();
  }
  if (problem_ != reply.error) LS_LOG(warning, "{}", reply.error);
  problem_ = reply.error;
  next_call_ = Deadline::after(backoff_.next(reply.retry_after));
  return false;
}

std::string K8sEngine::path_of(std::string_view resource) const {
  return format("/api/v1/namespaces/{}/{}", setup_.in_namespace, resource);
}

}  // namespace lockstep::engine
