// AuditRecord: what a user did, or was refused. It is stored with the change, and never changed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"

namespace lockstep::model {

struct AuditRecord {
  std::int64_t id = 0;  // given by the store; later records have higher ones
  Time time{};
  std::string user;
  std::string token{};    // the id of its token; empty: the one in the daemon's folder
  std::string address{};  // from which it called; empty: the daemon's machine
  std::string action;     // run.stop
  std::string target;     // demo/42
  std::string project{};  // empty: of the cluster
  std::string before{};   // no secrets and no specs
  std::string after{};
  bool refused = false;

  bool operator==(const AuditRecord&) const = default;
};

// Which records a list has.
struct AuditFilter {
  std::optional<std::string> user{}, action{};
  // Only of these projects; none: of all, and of the cluster.
  std::optional<std::vector<std::string>> projects{};
  std::optional<Time> since{}, until{};  // from, and before
  std::optional<bool> refused{};
  std::optional<std::int64_t> before{};  // only lower ids
  int limit = 100;
};

}  // namespace lockstep::model
