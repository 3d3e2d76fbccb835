// CallContext: the parts of the server that the handlers of several groups of routes share.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "net/loop_lag.h"
#include "platform/artifacts/artifacts.h"
#include "platform/core/model/audit_record.h"
#include "platform/core/model/state.h"
#include "platform/server/people/accounts.h"
#include "platform/server/people/gate.h"
#include "platform/server/people/reader.h"
#include "platform/server/principal.h"
#include "platform/server/route_call.h"
#include "platform/server/server.h"

namespace lockstep::server {

inline const std::filesystem::path& node_home_of(const ServerSetup& setup) {
  return setup.node_home.empty() ? setup.home.folder : setup.node_home;
}

class CallContext {
 public:
  // All outlive this.
  CallContext(const ServerSetup& setup, Accounts& accounts, artifacts::Artifacts& artifacts,
              const net::LoopLag& lag)
      : setup_(setup), accounts_(accounts), artifacts_(artifacts), lag_(lag) {}

  const ServerSetup& setup() const { return setup_; }
  controller::Controller& controller() const { return setup_.controller; }
  insight::Insight& insight() const { return setup_.insight; }
  Accounts& accounts() const { return accounts_; }
  artifacts::Artifacts& artifacts() const { return artifacts_; }
  const model::State& state() const { return setup_.controller.state(); }
  Time now() const { return setup_.clock.now(); }

  // A record of the call for the audit. Its target is of a project or, without one, of the cluster.
  struct Details {
    std::string target{}, project{}, before{}, after{};
  };
  template <const auto& kRoute>
  model::AuditRecord record(const RouteCall<kRoute>& call, Details details) const {
    return filled(record_of(call.caller, kRoute, now()), std::move(details));
  }
  // The same of a run, whose state it has as `before`.
  template <const auto& kRoute>
  model::AuditRecord run_record(const RouteCall<kRoute>& call, const model::RunId& run,
                                std::string after) const {
    return record(call, run_details(run, std::move(after)));
  }

  // Code::not_found: the store does not have the run.
  Result<const model::Run*> find_run(const model::RunId& id) const;
  // Without what the caller may not read.
  Result<api::RunView> view(const Principal& caller, const model::RunId& id) const;
  Result<api::RunView> brief_view(const Principal& caller, const model::RunId& id) const;
  template <class View>
  View limited(const Principal& caller, View view) const {
    reader(caller).limit(view);
    return view;
  }
  // The result of a request that may be refused because of other runs, which the error names.
  template <class T>
  Result<T> limited(const Principal& caller, Result<T> result) const {
    if (result) return result;
    return Error{result.error().code, reader(caller).without_names(result.error().message)};
  }
  // The projects whose runs it may read; none: all.
  std::optional<std::vector<std::string>> readable_projects(const Principal& caller) const {
    return reader(caller).projects();
  }
  // Notices to operators about the daemon itself.
  std::vector<std::string> problems() const;

 private:
  static model::AuditRecord filled(model::AuditRecord record, Details details);
  Details run_details(const model::RunId& run, std::string after) const;
  Reader reader(const Principal& caller) const {
    return {accounts_.directory(), caller.bearer, state()};
  }

  const ServerSetup& setup_;
  Accounts& accounts_;
  artifacts::Artifacts& artifacts_;
  const net::LoopLag& lag_;
};

}  // namespace lockstep::server
