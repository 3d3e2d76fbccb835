#include "platform/server/notices/notice_outbox.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/check.h"
#include "base/format.h"
#include "base/log.h"
#include "platform/core/notice/backoff.h"
#include "platform/crypto/sealed_text.h"
#include "platform/identity/rights.h"

namespace lockstep::server {
namespace {

constexpr Duration kLookInterval = std::chrono::milliseconds(500);
constexpr std::size_t kNowMax = 8;  // tests that wait

store::FailedTry failed_try(const store::DueNotice& due, const notifier::Answer& answer, Time now) {
  const bool is_old = now - due.made > notice::kGivenUpAfter;
  return {.problem = answer.words,
          .next_try = answer.is_refused ? now : now + notice::pause_after(due.target.failures + 1),
          .is_dropped = answer.is_refused || is_old};
}

}  // namespace

bool may_get(const identity::Directory& directory, const notice::Target& target,
             const model::Notice& notice) {
  const identity::Bearer user{.user = target.user};
  const bool is_for_admins =
      target.scope == notice::Scope::all || target.kind == notice::TargetKind::command;
  if (is_for_admins) return identity::is_admin(directory, user);
  return identity::can_read(directory, user, notice.project);
}

NoticeOutbox::NoticeOutbox(net::Loop& loop, store::NoticeStore& store,
                           const notifier::NotifierSetup& setup, const Accounts& accounts,
                           const host::Keys& keys, const Clock& clock)
    : loop_(loop),
      store_(store),
      accounts_(accounts),
      keys_(keys),
      clock_(clock),
      notifier_(setup),
      log_(clock),
      now_(loop, kNowMax) {
  for (std::size_t i = 0; i < kThreads; ++i) {
    threads_.push_back(std::make_unique<LoopTasks>(loop, 1));
    idle_.push_back(i);
  }
}

std::string NoticeOutbox::seal(const std::string& where) const {
  return crypto::seal(where, keys_.notice_key());
}

Result<std::string> NoticeOutbox::open(const store::NoticeTarget& target) const {
  return crypto::open_sealed(target.sealed, keys_.notice_key());
}

void NoticeOutbox::start() {
  timer_ = loop_.after(kLookInterval, [this] { start(); });
  send_due();
}

void NoticeOutbox::finish() {
  is_finished_ = true;
  notifier_.stop();
  timer_.cancel();
}

void NoticeOutbox::report(const char* subject, const Result<void>& result) {
  if (result) {
    if (log_.clear(subject)) LS_LOG(info, "{}: works again", subject);
  } else if (log_.should_log(subject, result.error().message)) {
    LS_LOG(warning, "{}: {}", subject, result.error().message);
  }
}

void NoticeOutbox::send_due() {
  record_ended();
  if (idle_.empty() || is_finished_) return;
  auto due = store_.due(clock_.now(), static_cast<int>(idle_.size()), busy_);
  report("reading notices", due ? Result<void>() : Result<void>(due.error()));
  if (!due) return;
  for (store::DueNotice& one : *due) begin(std::move(one));
}

void NoticeOutbox::begin(store::DueNotice due) {
  if (!may_get(accounts_.directory(), due.target.target, due.notice))
    return report("dropping a notice", store_.withdraw(due));
  busy_.push_back(due.target.target.id);
  auto where = open(due.target);
  if (!where) return end({std::move(due), {.words = where.error().message}});
  const std::size_t thread = idle_.back();
  idle_.pop_back();
  const bool runs = threads_[thread]->run([this, thread, due = std::move(due),
                                           where = *std::move(where)]() -> LoopTasks::Continuation {
    const notifier::Answer answer =
        notifier_.deliver({.kind = due.target.target.kind, .where = where, .notice = due.notice});
    return [this, thread, ended = Ended{due, answer}] {
      if (is_finished_) return;  // it was cut short, and is no failure of the target
      idle_.push_back(thread);
      end(ended);
      send_due();
    };
  });
  LS_CHECK(runs, "an idle thread has no work");
}

void NoticeOutbox::end(const Ended& ended) {
  unrecorded_.push_back(ended);
  record_ended();
}

// A target whose result is not recorded stays busy: it would get the same notice again.
void NoticeOutbox::record_ended() {
  std::erase_if(unrecorded_, [&](const Ended& ended) {
    const auto recorded = record(ended);
    report("recording what became of a notice", recorded);
    if (recorded) std::erase(busy_, ended.due.target.target.id);
    return recorded.has_value();
  });
}

Result<void> NoticeOutbox::record(const Ended& ended) {
  const Time now = clock_.now();
  return ended.answer.is_delivered
             ? store_.record_delivery(ended.due, now)
             : store_.record_failure(ended.due, failed_try(ended.due, ended.answer, now));
}

bool NoticeOutbox::deliver_now(const store::NoticeTarget& target, const model::Notice& notice,
                               const Then& then) {
  auto where = open(target);
  if (!where) {
    then({.words = where.error().message});
    return true;
  }
  return now_.run([this, then,
                   delivery = notifier::Delivery{.kind = target.target.kind,
                                                 .where = *std::move(where),
                                                 .notice = notice}]() -> LoopTasks::Continuation {
    return [then, answer = notifier_.deliver(delivery)] { then(answer); };
  });
}

}  // namespace lockstep::server
