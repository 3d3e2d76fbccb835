#include "platform/engine/k8s/object_watch.h"

#include <utility>

#include "base/format.h"
#include "base/log.h"
#include "platform/engine/k8s/json_fields.h"

namespace lockstep::engine {
namespace {

using std::chrono::steady_clock;

constexpr int kGone = 410;  // the version is older than what the server keeps

std::string with_query(const std::string& path, const std::string& query) {
  return format("{}{}{}", path, path.find('?') == std::string::npos ? '?' : '&', query);
}

}  // namespace

ObjectWatch::ObjectWatch(Setup setup)
    : setup_(std::move(setup)),
      backoff_(setup_.bounds.pause_first, setup_.bounds.pause_max),
      thread_([this] { work(); }) {}

ObjectWatch::~ObjectWatch() {
  {
    const Lock lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  setup_.server->stop();
  thread_.join();
}

Result<void> ObjectWatch::check_current(Duration age, const Deadline& first_answer) {
  const Lock lock(mutex_);
  while (!has_list_ && problem_.empty() && changed_.wait_until(mutex_, first_answer)) {
  }
  const bool is_young = is_watching_ || steady_clock::now() - answered_ < age;
  if (has_list_ && is_young) return {};
  return Error{Code::unavailable, problem_.empty() ? "no answer yet" : problem_};
}

void ObjectWatch::work() {
  while (!is_ending()) {
    const auto begun = steady_clock::now();
    const bool lists = version_.empty();
    const ApiReply reply = lists ? read_list() : read_events();
    if (is_ending()) return;
    if (reply.status == kGone) {
      version_.clear();
      pause(setup_.bounds.pause_first);
    } else if (!reply.ok()) {
      note_failure(reply);
      pause(backoff_.next(reply.retry_after));
    } else {
      backoff_.reset();
      note_answer();
      // A server that ends each watch at once is not called all the time.
      const bool was_short = steady_clock::now() - begun < setup_.bounds.pause_first;
      if (was_short && !lists) pause(setup_.bounds.pause_first);
    }
  }
}

ApiReply ObjectWatch::read_list() {
  setup_.handlers.list_begins();
  ApiReply reply = setup_.server->get(setup_.path);
  if (!reply.ok()) return reply;
  version_ = text_of(reply.object, {"metadata", "resourceVersion"});
  setup_.handlers.listed(items_of(reply.object, {"items"}));
  const Lock lock(mutex_);
  has_list_ = true;
  answered_ = steady_clock::now();
  changed_.notify_all();
  return reply;
}

ApiReply ObjectWatch::read_events() {
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(setup_.bounds.limit).count();
  const std::string path =
      with_query(setup_.path,
                 format("watch=true&allowWatchBookmarks=true&timeoutSeconds={}&resourceVersion={}",
                        seconds, version_));
  refusal_ = {};
  set_watching(true);
  ApiReply reply = setup_.server->watch(path, setup_.bounds.idle,
                                        [this](const Json& event) { return handle_event(event); });
  set_watching(false);
  return refusal_.status == 0 ? reply : refusal_;
}

// False: the server has said that the watch is over.
bool ObjectWatch::handle_event(const Json& event) {
  const std::string type = text_of(event, {"type"});
  const Json& object = field_of(event, {"object"});
  if (type == "ERROR") {
    const Json& code = field_of(object, {"code"});
    refusal_.status = code.is_number_integer() ? code.get<int>() : 500;
    refusal_.error = text_of(object, {"message"});
    return false;
  }
  note_answer();
  if (type != "BOOKMARK") setup_.handlers.changed(type, object);
  version_ = text_of(object, {"metadata", "resourceVersion"});
  return !is_ending();
}

void ObjectWatch::set_watching(bool is_watching) {
  const Lock lock(mutex_);
  is_watching_ = is_watching;
}

void ObjectWatch::note_answer() {
  const Lock lock(mutex_);
  answered_ = steady_clock::now();
  if (!problem_.empty()) LS_LOG(info, "{}: the API server answers again", setup_.path);
  problem_.clear();
}

void ObjectWatch::note_failure(const ApiReply& reply) {
  const Lock lock(mutex_);
  if (problem_ != reply.error) LS_LOG(warning, "{}: {}", setup_.path, reply.error);
  problem_ = reply.error;
  changed_.notify_all();
}

void ObjectWatch::pause(Duration duration) {
  const auto end = Deadline::after(duration);
  const Lock lock(mutex_);
  while (!ending_ && changed_.wait_until(mutex_, end)) {
  }
}

bool ObjectWatch::is_ending() {
  const Lock lock(mutex_);
  return ending_;
}

}  // namespace lockstep::engine
