// Messages about notices; see messages.h. No answer has more of a webhook's URL than its host.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "platform/core/notice/target.h"
#include "text/record.h"

namespace lockstep::api {

struct NoticeTargetView {
  std::int64_t id = 0;
  notice::TargetKind kind = notice::TargetKind::webhook;
  std::string to;
  notice::Scope scope = notice::Scope::own;
  std::string project;
  std::string user;
  std::vector<notice::Cause> on;
  Time added{};
  std::int64_t waiting = 0;
  std::int64_t dropped = 0;
  std::optional<Time> delivered;
  std::string problem;
  std::optional<Time> next_try;

  static constexpr auto fields() {
    return record<NoticeTargetView>(
        field("id", &NoticeTargetView::id, "its number"),
        field("kind", &NoticeTargetView::kind, "how it is reached"),
        field("to", &NoticeTargetView::to,
              "the scheme and host of a webhook, an address of mail, or a command"),
        field("scope", &NoticeTargetView::scope, "the runs of its user, of a project, or all"),
        field("project", &NoticeTargetView::project, "only of this one; empty: of all"),
        field("user", &NoticeTargetView::user, "the user that added it"),
        field("on", &NoticeTargetView::on, "what it is told; ended includes failed"),
        field("added", &NoticeTargetView::added, "when it was added"),
        field("waiting", &NoticeTargetView::waiting, "notices that it is still to get"),
        field("dropped", &NoticeTargetView::dropped,
              "notices that it will never get: they were refused, too old or too many"),
        field("delivered", &NoticeTargetView::delivered, "when it last got one"),
        field("problem", &NoticeTargetView::problem, "why the last try failed; empty: it did not"),
        field("next_try", &NoticeTargetView::next_try, "of what waits; null: nothing waits"));
  }
};

struct NoticeTargetList {
  std::vector<NoticeTargetView> targets;

  static constexpr auto fields() {
    return record<NoticeTargetList>(
        field("targets", &NoticeTargetList::targets, "those that the caller may change, by id"));
  }
};

struct AddNoticeTargetRequest {
  notice::TargetKind kind = notice::TargetKind::webhook;
  std::string where;
  std::optional<notice::Scope> scope{};
  std::optional<std::string> project{};
  std::optional<std::vector<notice::Cause>> on{};

  static constexpr auto fields() {
    return record<AddNoticeTargetRequest>(
        required(field("kind", &AddNoticeTargetRequest::kind, "how it is reached")),
        required(field("where", &AddNoticeTargetRequest::where,
                       "the URL of a webhook, an address of mail, or the name of a command")),
        field("scope", &AddNoticeTargetRequest::scope,
              "absent: the caller's own runs, or with a project all of it"),
        field("project", &AddNoticeTargetRequest::project, "only of this one; absent: of all"),
        field("on", &AddNoticeTargetRequest::on, "absent: failed, budget and finding"));
  }
};

struct NoticeTestAnswer {
  bool delivered = false;
  std::string answer;

  static constexpr auto fields() {
    return record<NoticeTestAnswer>(
        field("delivered", &NoticeTestAnswer::delivered, "the target took it"),
        field("answer", &NoticeTestAnswer::answer, "what it answered, or why it got nothing"));
  }
};

}  // namespace lockstep::api
