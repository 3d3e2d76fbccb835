// Access: which projects, experiments and runs a client may read and change, and the records of its
// changes for the audit.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/steady_clock.h"
#include "platform/artifacts/artifacts.h"
#include "platform/controller/controller.h"
#include "platform/core/model/audit_record.h"
#include "platform/host/rank_token.h"
#include "platform/identity/rights.h"
#include "platform/insight/insight.h"
#include "platform/server/mlflow/tracking.h"
#include "platform/store/database.h"

namespace lockstep::mlflow {

struct Setup {
  controller::Controller& controller;  // all outlive the server
  insight::Insight& insight;
  store::Database& database;
  const identity::Directory& directory;
  const Clock& clock;
  const SteadyClock& steady;
  artifacts::Artifacts& artifacts;
};

struct Caller {
  identity::Bearer bearer;
  std::string address{};  // from which another machine calls; empty: this machine calls
  // This rank calls. It changes its own run, and those that the run has made.
  std::optional<host::RankName> rank{};

  // The run of the rank.
  const model::RunId& own_run() const { return rank->attempt.id.run; }
};

class Access {
 public:
  // Both outlive this.
  Access(const Setup& setup, Tracking& tracking) : setup_(setup), tracking_(tracking) {}

  // Code::not_found: the caller may not read it.
  Result<std::string> default_project(const Caller& caller) const;
  Result<ExperimentRow> experiment_of(const Caller& caller, const std::string& id);
  Result<RunRow> readable_run(const Caller& caller, const std::string& name);
  // Code::denied, too.
  Result<RunRow> changeable_run(const Caller& caller, const std::string& name);
  // Code::denied. `owner` as in identity::Target.
  Result<void> check(const Caller& caller, identity::Action action, std::string_view project,
                     std::string_view owner = {}) const;
  bool can_read(const Caller& caller, std::string_view project) const {
    return identity::can_read(setup_.directory, caller.bearer, project);
  }

  // Stores the record with what `work` stores, or nothing.
  Result<void> change(const model::AuditRecord& record, const std::function<Result<void>()>& work);
  // With the time and the caller.
  model::AuditRecord record(const Caller& caller, std::string_view action, std::string target,
                            std::string project, std::string before = {},
                            std::string after = {}) const;

 private:
  const Setup& setup_;
  Tracking& tracking_;
};

// "3", which an answer had; Code::invalid.
Result<std::int64_t> parse_number(const std::string& text, std::string_view what);

}  // namespace lockstep::mlflow
