// The JSON of the API's messages for the server, the client and every subcommand with --json:
// compiled once, in json.cc. Include this instead of text/convert.h where messages are converted.
#pragma once

#include "map/map.h"
#include "platform/api/agent_messages.h"
#include "platform/api/messages.h"
#include "platform/api/queue_messages.h"
#include "text/convert.h"  // IWYU pragma: export

#define LS_MESSAGES(EACH)              \
  EACH(lockstep::map::ClusterMap)      \
  EACH(lockstep::model::RunSpec)       \
  EACH(lockstep::api::Health)          \
  EACH(lockstep::api::Heartbeat)       \
  EACH(lockstep::api::HeartbeatAnswer) \
  EACH(lockstep::api::HoldRequest)     \
  EACH(lockstep::api::HostList)        \
  EACH(lockstep::api::HostRequest)     \
  EACH(lockstep::api::LimitList)       \
  EACH(lockstep::api::LimitRequest)    \
  EACH(lockstep::api::LogLine)         \
  EACH(lockstep::api::LogMatch)        \
  EACH(lockstep::api::LogMatches)      \
  EACH(lockstep::api::LogPage)         \
  EACH(lockstep::api::PlanView)        \
  EACH(lockstep::api::PriorityRequest) \
  EACH(lockstep::api::ExtendRequest)   \
  EACH(lockstep::api::QueueView)       \
  EACH(lockstep::api::ReleaseRequest)  \
  EACH(lockstep::api::ResumeRequest)   \
  EACH(lockstep::api::RunList)         \
  EACH(lockstep::api::RunView)         \
  EACH(lockstep::api::SeriesList)      \
  EACH(lockstep::api::StopRequest)     \
  EACH(lockstep::api::SubmitRequest)   \
  EACH(lockstep::api::Version)

LS_MESSAGES(LS_DECLARE_CONVERSION)
