// The JSON of the API's messages for the server, the client and every subcommand with --json:
// compiled once, in json.cc. Include this instead of text/convert.h where messages are converted.
#pragma once

#include "map/map.h"
#include "platform/api/agent_messages.h"
#include "platform/api/messages.h"
#include "platform/api/queue_messages.h"
#include "text/convert.h"  // IWYU pragma: export

namespace lockstep {

#define LS_MESSAGES(EACH)    \
  EACH(ClusterMap)           \
  EACH(RunSpec)              \
  EACH(api::Health)          \
  EACH(api::Heartbeat)       \
  EACH(api::HeartbeatAnswer) \
  EACH(api::HoldRequest)     \
  EACH(api::HostList)        \
  EACH(api::HostRequest)     \
  EACH(api::LimitList)       \
  EACH(api::LimitRequest)    \
  EACH(api::LogLine)         \
  EACH(api::LogPage)         \
  EACH(api::PlanView)        \
  EACH(api::PriorityRequest) \
  EACH(api::QueueView)       \
  EACH(api::ReleaseRequest)  \
  EACH(api::ResumeRequest)   \
  EACH(api::RunList)         \
  EACH(api::RunView)         \
  EACH(api::SeriesList)      \
  EACH(api::StopRequest)     \
  EACH(api::SubmitRequest)   \
  EACH(api::Version)

LS_MESSAGES(LS_DECLARE_CONVERSION)

}  // namespace lockstep
