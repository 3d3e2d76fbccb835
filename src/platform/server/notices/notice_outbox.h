// NoticeOutbox: takes what is due from the store, has it delivered on threads of its own, and
// records the results. All of it but the deliveries runs on the loop's thread.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/rate_limited_log.h"
#include "net/loop.h"
#include "platform/host/keys.h"
#include "platform/notifier/notifier.h"
#include "platform/server/login/loop_tasks.h"
#include "platform/server/people/accounts.h"
#include "platform/store/notice_store.h"

namespace lockstep::server {

class NoticeOutbox {
 public:
  // All outlive this.
  NoticeOutbox(net::Loop& loop, store::NoticeStore& store, const notifier::NotifierSetup& setup,
               const Accounts& accounts, const host::Keys& keys, const Clock& clock);
  ~NoticeOutbox() { finish(); }

  // Looks for what is due, now and then again.
  void start();
  // Begins the deliveries that are due.
  void send_due();
  // Delivers this one now, besides the queue; false: too many of these wait.
  using Then = std::function<void(const notifier::Answer& answer)>;
  bool deliver_now(const store::NoticeTarget& target, const model::Notice& notice,
                   const Then& then);
  // Ends the deliveries: what they were to deliver is delivered by the next daemon.
  void finish();

  const notifier::Notifier& notifier() const { return notifier_; }
  std::string seal(const std::string& where) const;
  // Code::corrupt: it was sealed by another daemon.
  Result<std::string> open(const store::NoticeTarget& target) const;

 private:
  static constexpr std::size_t kThreads = 4;
  struct Ended {
    store::DueNotice due;
    notifier::Answer answer;
  };
  void begin(store::DueNotice due);
  void end(const Ended& ended);
  Result<void> record(const Ended& ended);
  void record_ended();
  void report(const char* subject, const Result<void>& result);

  net::Loop& loop_;
  store::NoticeStore& store_;
  const Accounts& accounts_;
  const host::Keys& keys_;
  const Clock& clock_;
  notifier::Notifier notifier_;
  std::vector<std::int64_t> busy_;  // targets of tries that run, or are not recorded
  std::vector<Ended> unrecorded_;   // the store has refused them
  bool is_finished_ = false;
  RateLimitedLog log_;
  net::Timer timer_;
  std::vector<std::size_t> idle_;  // threads
  // The last members: their work uses the others.
  std::vector<std::unique_ptr<LoopTasks>> threads_;
  LoopTasks now_;
};

// The target's user may know of the notice, by its rights of now.
bool may_get(const identity::Directory& directory, const notice::Target& target,
             const model::Notice& notice);

}  // namespace lockstep::server
