#include "platform/server/events/event_hub.h"

#include <algorithm>
#include <charconv>
#include <type_traits>
#include <utility>
#include <variant>

#include "base/format.h"
#include "net/crypto.h"
#include "text/convert.h"

namespace lockstep::server {
namespace {

constexpr std::size_t kListenersMax = 1000;
constexpr std::size_t kSubjectsMax = 10'000;
constexpr int kDaemonIdBytes = 8;
// A single change is told at once, many of them together.
constexpr Duration kEventSoon = std::chrono::milliseconds(50);
constexpr Duration kEventInterval = std::chrono::milliseconds(500);
// Proxies close connections without traffic; rights are checked again at each.
constexpr Duration kEventPing = std::chrono::seconds(15);
// A listener that takes nothing for so long is closed; it connects again.
constexpr Duration kEventWriteMax = std::chrono::seconds(30);
// So long changes are kept for a listener that connects again.
constexpr Duration kEventsKept = std::chrono::minutes(1);

template <class T, class... Any>
constexpr bool kIsOneOf = (std::same_as<T, Any> || ...);

std::optional<ChangeKind> changed_kind(const model::Change& change) {
  return std::visit(
      []<class T>(const T&) -> std::optional<ChangeKind> {
        if constexpr (kIsOneOf<T, model::HostRow, model::MeasuredRow, model::Orphan>)
          return ChangeKind::hosts;
        else if constexpr (kIsOneOf<T, budget::Budget, budget::Rate, budget::Posting,
                                    budget::Bucket>)
          return ChangeKind::budgets;
        else if constexpr (kIsOneOf<T, model::LimitRow>)
          return ChangeKind::queue;
        else
          return std::nullopt;
      },
      change);
}

std::string event_text(const std::string& id, const api::Changes& changes) {
  return format("id: {}\ndata: {}\n\n", id, dump_json(to_json(changes)));
}

bool has_no_change(const api::Changes& changes) {
  return !changes.all && changes.runs.empty() && changes.points.empty() && changes.lines.empty() &&
         !changes.queue && !changes.hosts && !changes.budgets;
}

void add_subject(api::Changes& changes, const Subject& subject) {
  switch (subject.kind) {
    case ChangeKind::run:
      return changes.runs.push_back(text(subject.run));
    case ChangeKind::points:
      return changes.points.push_back(text(subject.run));
    case ChangeKind::lines:
      return changes.lines.push_back(text(subject.run));
    case ChangeKind::queue:
      changes.queue = true;
      return;
    case ChangeKind::hosts:
      changes.hosts = true;
      return;
    case ChangeKind::budgets:
      changes.budgets = true;
  }
}

}  // namespace

EventHub::EventHub(net::Loop& loop, const ServerSetup& setup, Accounts& accounts)
    : loop_(loop),
      setup_(setup),
      accounts_(accounts),
      start_(net::random_hex(kDaemonIdBytes)),
      book_(kSubjectsMax) {}

Result<void> EventHub::open(const RouteCall<api::kEvents>& call, const Reply<api::Changes>& reply) {
  if (!reply.takes_events())
    return Error{Code::invalid,
                 "the answer is a stream of events; ask with the header Accept: "
                 "text/event-stream"};
  erase_gone();
  if (ended_ || listeners_.size() >= kListenersMax)
    return Error{Code::unavailable, "the daemon has no room for a further reader; try again later"};
  reply.send_events([this, bearer = call.caller.bearer,
                     last_id = call.last_event_id](net::UpgradedConnection connection) {
    if (!ended_) add(bearer, last_id, std::move(connection));
  });
  return {};
}

// A reader without an id has read nothing yet that could have changed.
void EventHub::add(identity::Bearer bearer, const std::string& last_id,
                   net::UpgradedConnection connection) {
  if (!is_listened_to()) book_.clear();
  const auto seen = last_id.empty() ? book_.newest() : number_of(last_id);
  if (listeners_.empty()) ping_timer_ = loop_.after(kEventPing, [this] { send_pings(); });
  const auto [entry, is_new] = listeners_.try_emplace(
      next_++, Listener{.bearer = std::move(bearer),
                        .seen = seen.value_or(-1),
                        .writer = net::EventWriter::start(loop_, std::move(connection))});
  Listener& listener = entry->second;
  std::string first = next_event(listener);
  if (first.empty()) first = event_text(id_of(listener.seen), {});
  send(listener, "retry: 1000\n" + first);
}

bool EventHub::is_listened_to() const {
  return !listeners_.empty() || setup_.clock.now() - idle_since_ < kEventsKept;
}

void EventHub::handle_run(const model::RunId& run, std::int64_t version) {
  if (!is_listened_to()) return;
  std::int64_t& known = versions_[run];
  if (std::exchange(known, version) == version) return;
  if (!setup_.controller.state().open.contains(run)) versions_.erase(run);
  note({.kind = ChangeKind::run, .run = run});
  note({.kind = ChangeKind::queue});
}

void EventHub::handle_changes(const std::vector<model::Change>& changes) {
  if (!is_listened_to()) return;
  for (const model::Change& change : changes)
    if (const auto kind = changed_kind(change)) note({.kind = *kind});
}

void EventHub::handle_reports(const model::RunId& run, bool has_lines, bool has_points) {
  if (!is_listened_to()) return;
  if (has_lines) note({.kind = ChangeKind::lines, .run = run});
  if (has_points) note({.kind = ChangeKind::points, .run = run});
}

void EventHub::note(const Subject& subject) {
  book_.add(subject);
  if (std::exchange(is_due_, true)) return;
  const Duration since = setup_.clock.now() - sent_;
  send_timer_ = loop_.after(std::clamp(kEventInterval - since, kEventSoon, kEventInterval),
                            [this] { send_changes(); });
}

// A listener that still takes the last text gets these changes with a later one.
void EventHub::send_changes() {
  is_due_ = false;
  sent_ = setup_.clock.now();
  erase_gone();
  bool is_late = false;
  for (auto& [id, listener] : listeners_) {
    if (!listener.writer.is_ready()) {
      is_late = true;
      continue;
    }
    send(listener, next_event(listener));
  }
  if (!is_late) return;
  is_due_ = true;
  send_timer_ = loop_.after(kEventInterval, [this] { send_changes(); });
}

void EventHub::send_pings() {
  std::erase_if(listeners_,
                [this](const auto& entry) { return !is_permitted(entry.second.bearer); });
  erase_gone();
  for (auto& [id, listener] : listeners_)
    if (listener.writer.is_ready()) send(listener, ": \n\n");
  if (!listeners_.empty()) ping_timer_ = loop_.after(kEventPing, [this] { send_pings(); });
}

void EventHub::send(Listener& listener, std::string text) {
  if (text.empty()) return;
  listener.busy_since = setup_.clock.now();
  listener.writer.write(std::move(text));
}

std::string EventHub::next_event(Listener& listener) {
  const std::int64_t since = std::exchange(listener.seen, book_.newest());
  if (since == listener.seen) return "";
  const api::Changes changes = changes_for(listener, since);
  return has_no_change(changes) ? "" : event_text(id_of(listener.seen), changes);
}

api::Changes EventHub::changes_for(const Listener& listener, std::int64_t since) const {
  if (!is_permitted(listener.bearer)) return {};  // closed at the next ping
  const auto subjects = book_.since(since);
  if (!subjects) return {.all = true};
  api::Changes changes;
  for (const Subject& subject : *subjects)
    if (subject.run.project.empty() ||
        identity::can_read(accounts_.directory(), listener.bearer, subject.run.project))
      add_subject(changes, subject);
  return changes;
}

bool EventHub::is_permitted(const identity::Bearer& bearer) const {
  const identity::Directory& directory = accounts_.directory();
  if (!bearer.token.empty()) {
    const auto token = directory.tokens.find(bearer.token);
    if (token == directory.tokens.end() ||
        (token->second.ends && *token->second.ends <= setup_.clock.now()))
      return false;
  }
  return identity::may(directory, bearer, api::kEvents.action);
}

void EventHub::erase_gone() {
  const Time now = setup_.clock.now();
  const std::size_t before = listeners_.size();
  std::erase_if(listeners_, [now](const auto& entry) {
    const net::EventWriter& writer = entry.second.writer;
    return writer.has_ended() ||
           (!writer.is_ready() && now - entry.second.busy_since > kEventWriteMax);
  });
  if (before > 0 && listeners_.empty()) {
    idle_since_ = now;
    versions_.clear();
  }
}

void EventHub::finish() {
  ended_ = true;
  listeners_.clear();
}

std::string EventHub::id_of(std::int64_t number) const { return format("{}-{}", start_, number); }

std::optional<std::int64_t> EventHub::number_of(const std::string& id) const {
  const std::string prefix = start_ + "-";
  if (!id.starts_with(prefix)) return std::nullopt;
  std::int64_t number = 0;
  const char* end = id.data() + id.size();
  const auto read = std::from_chars(id.data() + prefix.size(), end, number);
  if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
  return number;
}

}  // namespace lockstep::server
