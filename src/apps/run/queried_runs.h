// Lists of runs by a query line, of as many answers as they take, and tables of their groups.
#pragma once

#include <string>

#include "base/result.h"
#include "platform/api/messages.h"
#include "platform/client/client.h"
#include "platform/run_query/query.h"

namespace lockstep::cli {

// All runs up to the limit, or all groups: an answer of the daemon covers those that it looked at.
Result<api::RunList> list_runs(client::Client& client, api::RunsQuery query);

// A row for each group; with the numbers of the field by which the line sorts.
std::string groups_table(const api::RunList& list, const run_query::Query& line);

}  // namespace lockstep::cli
