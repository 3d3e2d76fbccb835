#include "platform/engine/k8s/namespace_pods.h"

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

NamespacePods::NamespacePods(Setup setup)
    : setup_(std::move(setup)),
      backoff_(setup_.bounds.watch.pause_first, setup_.bounds.watch.pause_max),
      pod_watch_({.server = setup_.access.pods,
                  .path = path_of("pods") + selector_of(setup_.options.installation),
                  .handlers = pod_handlers(),
                  .bounds = setup_.bounds.watch}),
      thread_([this] { work(); }) {}

NamespacePods::~NamespacePods() {
  {
    const Lock lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  setup_.access.calls->stop();
  thread_.join();
}

void NamespacePods::announce(std::string daemon_file) {
  const Lock lock(mutex_);
  daemon_file_ = std::move(daemon_file);
  changed_.notify_all();
}

bool NamespacePods::knows_all_of(const Gang& gang) {
  const Lock lock(mutex_);
  bool is_known = true;
  for (const NodePlacement& node : gang.nodes) is_known &= pods_.knows(node_name(gang, node));
  return is_known;
}

PodOptions NamespacePods::options_of(const Gang& gang) const {
  PodOptions options = setup_.options;
  if (auto project = k8s::pods_of_project(setup_.projects, gang.attempt.id.run.project))
    options.project = *std::move(project);
  return options;
}

Result<void> NamespacePods::check_submission(const Gang& gang) const {
  TRY(k8s::pods_of_project(setup_.projects, gang.attempt.id.run.project));
  return check_gang(gang, options_of(gang));
}

void NamespacePods::submit(Gang gang) {
  const Lock lock(mutex_);
  if (submissions_.contains(gang.attempt)) return;
  Submission& submission = submissions_[gang.attempt];
  submission.gang = std::make_shared<const Gang>(std::move(gang));
  submission.refused_until = Deadline::after(setup_.bounds.start_limit);
  if (auto checked = check_submission(*submission.gang); !checked)
    fail(submission, model::EndBlame::refusal, checked.error().message);
  changed_.notify_all();
}

void NamespacePods::kill(const model::NodeName& node) {
  const Lock lock(mutex_);
  const auto found = submissions_.find(node.attempt());
  if (found != submissions_.end()) found->second.killed.insert(node.id.index);
  kills_.insert(node);
  changed_.notify_all();
}

Result<void> NamespacePods::add_nodes_to(EngineList& listed, const Deadline& first_answer) {
  auto current = check_current(first_answer);
  const Lock lock(mutex_);
  for (auto& [node, seen] : observations()) {
    const auto record = records_.find(node);
    listed.nodes.push_back({.node = node,
                            .seen = std::move(seen),
                            .record = record == records_.end() ? nullptr : record->second});
  }
  return current;
}

Result<void> NamespacePods::check_current(const Deadline& first_answer) {
  {
    const Lock lock(mutex_);
    while (!knows_owners_ && problem_.empty() && changed_.wait_until(mutex_, first_answer)) {
    }
    if (!knows_owners_)
      return Error{Code::unavailable, problem_.empty() ? "no answer yet" : problem_};
  }
  return pod_watch_.check_current(setup_.bounds.list_age_max, first_answer);
}

std::map<model::NodeName, model::Observation> NamespacePods::observations() const {
  std::map<model::NodeName, model::Observation> seen;
  for (const auto& [attempt, submission] : submissions_) list_submission(submission, seen);
  for (const auto& [node, list] : pods_.made())
    seen[node] = {.phase = model::NodePhase::pending, .reason = "its Pod was made"};
  for (const auto& [node, end] : pods_.ended()) seen[node] = end;
  for (const auto& [node, pod] : pods_.pods()) {
    seen[node] = pod.view.seen;
    if (pod.view.has_ended || !setup_.nodes.was_deleted(pod.view.host)) continue;
    seen[node] = {.phase = model::NodePhase::gone,
                  .reason = format("Node {} was deleted from the cluster", pod.view.host),
                  .blame = model::EndBlame::host,
                  .handle = pod.view.name};
  }
  return seen;
}

void NamespacePods::list_submission(const Submission& submission,
                                    std::map<model::NodeName, model::Observation>& seen) const {
  const Gang& gang = *submission.gang;
  for (std::size_t i = submission.next; i < gang.nodes.size(); ++i) {
    const NodePlacement& node = gang.nodes[i];
    if (!submission.failure && submission.killed.contains(node.index)) continue;
    std::string reason = submission.reason;
    if (reason.empty() && !knows_owners_ && !problem_.empty())
      reason = format("the namespace {} cannot be listed: {}", setup_.access.name, problem_);
    if (reason.empty()) reason = "its Pod is being made";
    seen[node_name(gang, node)] =
        submission.failure
            ? model::Observation{.phase = model::NodePhase::gone,
                                 .reason = reason,
                                 .blame = *submission.failure}
            : model::Observation{.phase = model::NodePhase::pending, .reason = reason};
  }
}

bool NamespacePods::is_running(const PodTable::Pod& pod) const {
  return !pod.view.has_ended && !setup_.nodes.was_deleted(pod.view.host);
}

// --- In the thread of the watch ---

ObjectWatch::Handlers NamespacePods::pod_handlers() {
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

// --- In the thread of calls ---

void NamespacePods::work() {
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

NamespacePods::Call NamespacePods::due_call() {
  if (!next_call_.passed()) return {};
  if (!knows_owners_) return [this] { read_owners(); };
  if (!has_pods_) return {};
  if (Call call = due_kill()) return call;
  if (Call call = due_creation()) return call;
  if (Call call = due_warnings()) return call;
  return due_removal();
}

NamespacePods::Call NamespacePods::due_kill() {
  const PodTable::Pod* pod = pods_.give_up(steady_clock::now(), setup_.bounds.start_limit);
  while (!pod && !kills_.empty()) {
    pod = pods_.mark_killed(*kills_.begin());
    kills_.erase(kills_.begin());  // the controller repeats it
  }
  if (!pod) return {};
  return [this, name = pod->view.name, uid = pod->view.uid] { remove_pod(name, uid); };
}

NamespacePods::Call NamespacePods::due_creation() {
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
void NamespacePods::skip_made_nodes(Submission& submission) {
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

NamespacePods::Call NamespacePods::creation_of(Submission& submission) {
  const auto gang = submission.gang;
  if (submission.owner.uid.empty()) return [this, gang] { make_owner(gang); };
  const NodePlacement& node = gang->nodes[submission.next];
  const ObjectOwner owner = submission.owner;
  if (!submission.has_secret)
    return
        [this, gang, secret = secret_object(*gang, node, owner, options_of(*gang), daemon_file_)] {
          make_secret(gang, secret);
        };
  return [this, gang, owner, pod = pod_object(*gang, node, owner, options_of(*gang))] {
    make_pod(gang, pod, owner.uid);
  };
}

// One list serves all Pods of the namespace.
NamespacePods::Call NamespacePods::due_warnings() {
  if (!next_warnings_.passed() ||
      !pods_.has_slow_start(steady_clock::now(), setup_.bounds.slow_start))
    return {};
  next_warnings_ = Deadline::after(setup_.bounds.warnings_interval);
  return [this] { read_warnings(); };
}

NamespacePods::Call NamespacePods::due_removal() {
  update_removals();
  for (const auto& entry : owners_)
    if (entry.second.removal && entry.second.removal->passed())
      return [this, name = entry.first, owner = entry.second] { remove_owner(name, owner); };
  return {};
}

void NamespacePods::update_removals() {
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
      owner.removal = Deadline::after(setup_.bounds.ended_kept);
  }
  for (const auto& [name, owner] : owners_) kept.insert(owner.attempt);
  pods_.keep_ends_of(kept);
}

void NamespacePods::read_owners() {
  const ApiReply reply =
      setup_.access.calls->get(path_of("configmaps") + selector_of(setup_.options.installation));
  const Lock lock(mutex_);
  if (!note_reply(reply)) return note_refusal(reply);
  for (const Json& item : items_of(reply.object, {"items"})) {
    const auto attempt = attempt_of_owner(item);
    if (!attempt) continue;
    owners_[text_of(item, {"metadata", "name"})] = {
        .attempt = *attempt,
        .uid = text_of(item, {"metadata", "uid"}),
        .removal = Deadline::after(setup_.bounds.unknown_kept)};
    for (auto& [node, record] : records_of_owner(item, setup_.options))
      records_[node] = std::make_shared<const LaunchRecord>(std::move(record));
  }
  knows_owners_ = true;
  changed_.notify_all();
}

// The owners cannot be listed. Submissions wait for them, because their Pods may exist.
void NamespacePods::note_refusal(const ApiReply& reply) {
  if (is_passing(reply)) return;
  if (problem_ != reply.error) LS_LOG(warning, "namespace {}: {}", setup_.access.name, reply.error);
  problem_ = reply.error;
  next_call_ = Deadline::after(setup_.bounds.watch.pause_max);
  for (auto& [attempt, submission] : submissions_)
    if (submission.refused_until.passed()) fail(submission, model::EndBlame::engine, reply.error);
}

void NamespacePods::read_warnings() {
  const std::string selector = net::percent_encode("involvedObject.kind=Pod,type=Warning");
  const ApiReply reply =
      setup_.access.calls->get(format("{}?fieldSelector={}", path_of("events"), selector));
  const Lock lock(mutex_);
  if (note_reply(reply))
    pods_.add_warnings(warnings_of_events(items_of(reply.object, {"items"})), steady_clock::now());
  if (is_passing(reply) || reply.ok() == may_list_events_) return;
  may_list_events_ = reply.ok();
  if (!may_list_events_)
    LS_LOG(warning, "a Pod that does not start is not explained: {}", reply.error);
}

void NamespacePods::remove_pod(const std::string& name, const std::string& uid) {
  Json options = delete_options(uid);
  options["gracePeriodSeconds"] = kKillGraceSeconds;
  const ApiReply reply = setup_.access.calls->remove(path_of("pods") + "/" + name, options);
  const Lock lock(mutex_);
  note_reply(reply);
}

void NamespacePods::remove_owner(const std::string& name, const Owner& owner) {
  Json options = delete_options(owner.uid);
  options["propagationPolicy"] = "Background";
  const ApiReply reply = setup_.access.calls->remove(path_of("configmaps") + "/" + name, options);
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
void NamespacePods::make_owner(const std::shared_ptr<const Gang>& gang) {
  const Json object = owner_object(*gang, setup_.options);
  const std::string name = text_of(object, {"metadata", "name"});
  ApiReply reply = setup_.access.calls->create(path_of("configmaps"), object);
  const bool existed = reply.status == kConflict;
  if (existed) reply = setup_.access.calls->get(path_of("configmaps") + "/" + name);
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
void NamespacePods::make_secret(const std::shared_ptr<const Gang>& gang, const Json& secret) {
  ApiReply reply = setup_.access.calls->create(path_of("secrets"), secret);
  const bool existed = already_exists(reply);
  if (!existed && reply.status == kConflict) reply.status = kServerError;  // another call
  const Lock lock(mutex_);
  Submission* submission = submission_of(*gang);
  const bool is_there = note_reply(reply) || existed;
  if (!submission) return;
  if (!is_there) return retry_or_fail(*submission, reply);
  submission->has_secret = true;
}

void NamespacePods::make_pod(const std::shared_ptr<const Gang>& gang, const Json& pod,
                             const std::string& owner) {
  const std::string name = text_of(pod, {"metadata", "name"});
  ApiReply reply = setup_.access.calls->create(path_of("pods"), pod);
  const bool existed = reply.status == kConflict;
  if (existed) reply = setup_.access.calls->get(path_of("pods") + "/" + name);
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

NamespacePods::Submission* NamespacePods::submission_of(const Gang& gang) {
  const auto found = submissions_.find(gang.attempt);
  return found == submissions_.end() ? nullptr : &found->second;
}

// Nodes whose Pod is not made are gone after an error that another call would meet again.
void NamespacePods::retry_or_fail(Submission& submission, const ApiReply& reply) {
  submission.reason = reply.error;
  submission.retry = Deadline::after(setup_.bounds.watch.pause_first);
  if (is_passing(reply)) return;
  fail(submission,
       reply.status == kUnprocessable ? model::EndBlame::refusal : model::EndBlame::engine,
       reply.error);
}

void NamespacePods::fail(Submission& submission, model::EndBlame blame, std::string reason) {
  if (submission.failure) return;
  LS_LOG(warning, "{}: {}", text(submission.gang->attempt.id), reason);
  submission.failure = blame;
  submission.reason = std::move(reason);
  submission.forgotten = Deadline::after(kFailedListed);
}

// While the server fails, all calls wait. False: the reply is an error.
bool NamespacePods::note_reply(const ApiReply& reply) {
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

std::string NamespacePods::path_of(std::string_view resource) const {
  return format("/api/v1/namespaces/{}/{}", setup_.access.name, resource);
}

}  // namespace lockstep::engine
