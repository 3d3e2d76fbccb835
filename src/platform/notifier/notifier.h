// Notifier: delivers one notice to one target, within a bound: by HTTP, by mail or by a program. It
// blocks, so it is called on threads other than the daemon's loop.
#pragma once

#include <atomic>
#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "platform/core/model/notice.h"
#include "platform/core/notice/target.h"
#include "platform/notifier/network.h"

namespace lockstep::notifier {

// The server that takes mails.
struct MailServer {
  std::string url;                 // smtp://host:port or smtps://host:port
  std::string from;                // an address
  std::string user{}, password{};  // empty: it needs none

  bool operator==(const MailServer&) const = default;
};

struct NotifierSetup {
  std::vector<Network> allowed{};             // besides public addresses, for webhooks
  std::optional<MailServer> mail{};           // none: no mail can be sent
  std::filesystem::path commands{};           // the folder of programs; empty: there are none
  Duration limit = std::chrono::seconds(10);  // of a webhook and a mail
  Duration command_limit = std::chrono::seconds(30);  // of a program
};

struct Delivery {
  notice::TargetKind kind = notice::TargetKind::webhook;
  std::string where;  // the URL, the address of the mail, or the program's name
  model::Notice notice;
};

struct Answer {
  bool is_delivered = false;
  bool is_refused = false;  // the receiver refuses this notice, and would refuse it again
  std::string words;        // one line without secrets: "answered 200 in 12 ms", or why not
};

class Notifier {
 public:
  explicit Notifier(NotifierSetup setup) : setup_(std::move(setup)) {}

  // From any thread.
  Answer deliver(const Delivery& delivery) const;
  // Ends all deliveries soon, and each later one at once.
  void stop() { is_stopped_ = true; }

  // Such a target can be used here; else Code::invalid or Code::unavailable.
  Result<void> check(notice::TargetKind kind, const std::string& where) const;

 private:
  const NotifierSetup setup_;
  std::atomic<bool> is_stopped_{false};
};

// Code::invalid: it is none of mail, such as ann@example.com.
Result<void> check_mail_address(const std::string& address);

// The part that users may see: the scheme, the host and the port of a URL, else all of it.
std::string shown_form(notice::TargetKind kind, const std::string& where);

}  // namespace lockstep::notifier
