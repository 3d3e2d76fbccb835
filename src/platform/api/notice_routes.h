// The routes about notices.
#pragma once

#include "platform/api/notice_messages.h"
#include "platform/api/route.h"

namespace lockstep::api {

inline constexpr TypedRoute<None, None, NoticeTargetList> kNotices{
    "GET",
    "/api/v1/notices",
    Action::read_cluster,
    RouteErrors::none,
    "",
    "NoticeTargetList",
    "where notices go: the targets that the caller may change"};
inline constexpr TypedRoute<None, AddNoticeTargetRequest, NoticeTargetView> kAddNotice{
    "POST",
    "/api/v1/notices",
    {Action::submit_run, "notice.add"},
    RouteErrors::run_not_found_or_storage_full,
    "AddNoticeTargetRequest",
    "NoticeTargetView",
    "add a target; one that is there already is told of these causes from now on"};
inline constexpr TypedRoute<None, None, NoticeTargetList> kRemoveNotice{
    "POST",
    "/api/v1/notices/{notice}/remove",
    {Action::submit_run, "notice.remove"},
    RouteErrors::run_not_found_or_storage_full,
    "",
    "NoticeTargetList",
    "remove a target, with what it was still to get"};
inline constexpr TypedRoute<None, None, NoticeTestAnswer> kTestNotice{
    "POST",
    "/api/v1/notices/{notice}/test",
    Action::submit_run,
    RouteErrors::run_not_found,
    "",
    "NoticeTestAnswer",
    "deliver one notice now; answers after 30 s at most"};

}  // namespace lockstep::api
