// ProfileRelay: passes the daemon's order for traces on to the ranks, and their traces to the
// daemon.
//
// By files in a folder of the node, because a rank is asked rarely, and looks at each step:
//   order.json      the ProfileOrder in force; a rank compares its time of change
//   rank-R.json     how far rank R is, from its first step on: a RankTrace
//   rank-R.gz       its complete trace
// A socket would need a thread or a poll in each rank; a file is seen at the cost of one stat, also
// by a rank that is started later. Only the thread that calls the daemon uses this.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "platform/api/profile_messages.h"

namespace lockstep::agent {

class ProfileRelay {
 public:
  explicit ProfileRelay(std::filesystem::path folder) : folder_(std::move(folder)) {}

  // For the next call; empty without an order.
  std::optional<api::ProfileReport> report() const;
  // The order of the answer to it, if any. True if the daemon has taken bytes of that report and
  // waits for more.
  bool pass_on(const std::optional<api::ProfileOrder>& order);

 private:
  api::TraceReport report_of(const api::TraceOrder& order) const;
  void add_part(api::TraceReport& report) const;
  std::filesystem::path file_of(int rank, std::string_view extension) const;

  const std::filesystem::path folder_;
  std::optional<api::ProfileOrder> order_;
};

}  // namespace lockstep::agent
