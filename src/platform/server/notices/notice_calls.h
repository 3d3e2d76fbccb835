// NoticeCalls: the handlers of the routes about notices.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "platform/api/notice_routes.h"
#include "platform/server/calls/call_context.h"
#include "platform/server/notices/notice_outbox.h"
#include "platform/server/route_call.h"

namespace lockstep::server {

class NoticeCalls {
 public:
  // Both outlive this.
  NoticeCalls(net::Loop& loop, const CallContext& context);

  Result<api::NoticeTargetList> list(const RouteCall<api::kNotices>& call);
  Result<api::NoticeTargetView> add(const RouteCall<api::kAddNotice>& call);
  Result<api::NoticeTargetList> remove(const RouteCall<api::kRemoveNotice>& call);
  Result<void> test(const RouteCall<api::kTestNotice>& call,
                    const Reply<api::NoticeTestAnswer>& reply);

  NoticeOutbox& outbox() { return outbox_; }

 private:
  store::NoticeStore& store() const { return context_.setup().notices; }
  Result<api::NoticeTargetList> list_for(const Principal& caller) const;
  Result<notice::Target> target_of(const Principal& caller,
                                   const api::AddNoticeTargetRequest& request) const;
  Result<void> check_right(const identity::Bearer& bearer, const notice::Target& target) const;
  bool may_change(const identity::Bearer& bearer, const notice::Target& target) const;
  // One that the caller may change; Code::not_found.
  Result<store::NoticeTarget> find(const Principal& caller,
                                   const std::vector<std::string>& path_parameters) const;
  // The one that is there already, and is reached at the same place.
  const store::NoticeTarget* same_as(const std::vector<store::NoticeTarget>& targets,
                                     const notice::Target& target, const std::string& where) const;

  const CallContext& context_;
  NoticeOutbox outbox_;
};

}  // namespace lockstep::server
