// RankRecords: what agents deliver about ranks and no table keeps. The calls of agents write it,
// those of users read it.
#pragma once

#include "platform/server/flight_record_cache.h"
#include "platform/server/profile_requests.h"
#include "platform/server/unfinished_lines.h"

namespace lockstep::server {

struct RankRecords {
  FlightRecordCache flight;
  ProfileRequests profiles;
  UnfinishedLines unfinished{};
};

}  // namespace lockstep::server
