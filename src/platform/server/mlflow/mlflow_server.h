// MlflowServer: MLflow's tracking API for clients that log to it. docs/design/mlflow.md.
//
// An experiment is a group of runs in a project. A run that a client makes is an external run whose
// agent is the daemon: it reports its rank until the client ends the run. All of it runs on the
// loop's thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "net/http/http.h"
#include "net/http/http_stream.h"
#include "net/loop.h"
#include "platform/artifacts/artifacts.h"
#include "platform/server/mlflow/access.h"
#include "platform/server/mlflow/logged_model_calls.h"
#include "platform/server/mlflow/messages.h"
#include "platform/server/mlflow/registry_calls.h"
#include "platform/server/mlflow/tracking.h"

namespace lockstep::mlflow {

// An answer in MLflow's form.
net::HttpResponse refusal(int status, const std::string& message);

class MlflowServer {
 public:
  MlflowServer(net::Loop& loop, const Setup& setup);

  // Below /api/2.0/mlflow.
  static bool is_for(const net::HttpRequest& request);
  net::HttpResponse handle(const net::HttpRequest& request, const Caller& caller);
  // Below /api/2.0/mlflow-artifacts/artifacts. An answer refuses the call.
  static bool is_for_artifacts(const net::HttpRequest& request);
  using Opened = std::variant<std::unique_ptr<net::HttpStream>, net::HttpResponse>;
  Opened open_artifacts(const net::HttpRequest& request, const Caller& caller);
  // Reports the ranks of runs that clients made, as their agent. Called by a timer.
  void report_ranks();

 private:
  // A run that clients may still log to.
  struct OpenRun {
    Duration last_call{};  // by the steady clock
  };
  using Answer = Result<Json>;
  struct Call {
    const net::HttpRequest& request;
    const Caller& caller;
    Json body;  // of a GET: its query
  };

  Answer dispatch(const Call& call);
  Answer experiment_call(std::string_view what, const Call& call);
  Answer run_call(std::string_view what, const Call& call);

  Answer create_experiment(const Call& call);
  Answer get_experiment(const Call& call);
  Answer find_experiment(const Call& call);
  Answer search_experiments(const Call& call);
  Answer update_experiment(const Call& call);
  Answer set_experiment_deleted(const Call& call, bool deleted);
  Answer tag_experiment(const Call& call);

  Answer create_run(const Call& call);
  Answer get_run(const Call& call);
  Answer update_run(const Call& call);
  Answer search_runs(const Call& call);
  Answer set_run_deleted(const Call& call, bool deleted);
  Answer log_metric(const Call& call);
  Answer log_param(const Call& call);
  Answer log_batch(const Call& call);
  Answer set_tag(const Call& call);
  Answer delete_tag(const Call& call);
  Answer history(const Call& call);

  static net::HttpResponse response_of(const Json& json);
  static net::HttpResponse response_of(const Error& error);
  using Stream = std::unique_ptr<net::HttpStream>;
  Result<Stream> artifact_call(const net::HttpRequest& request, const Caller& caller);
  Result<Stream> put_artifact(const Call& call, const std::string& path);
  Result<Stream> list_artifacts(const net::HttpRequest& request, const Caller& caller);

  // Code::denied: the caller may not start runs there.
  Result<std::string> project_of_run(const Caller& caller, const ExperimentRow& experiment) const;
  // An experiment that the caller may change.
  Result<ExperimentRow> changeable_experiment(const Caller& caller, const std::string& id);
  // The run of the call, which the caller may read, or change.
  Result<RunRow> readable_run(const Call& call);
  Result<RunRow> changeable_run(const Call& call);
  Result<Run> view_of(const RunRow& row);
  model::AuditRecord experiment_record(const Call& call, std::string_view action,
                                       const ExperimentRow& row, std::string after) const;
  // As LoggedModelCalls::MakeRun.
  Result<RunRow> make_run(const Caller& caller, const std::string& experiment,
                          const std::string& name);
  bool is_ended_by(const host::RankName& rank) const;
  bool takes_own_run(const Caller& caller, const CreateRun& request) const;
  Answer take_own_run(const Call& call, const CreateRun& request, const ExperimentRow& experiment);
  Result<void> put_batch(const RunRow& run, const LogBatch& batch, std::string_view body);
  Result<void> put_metrics(const RunRow& run, const std::vector<Metric>& metrics);
  Result<void> end_run(const RunRow& run, const std::string& status);
  // None: the run has ended.
  std::optional<model::NodeReport> report_of(const model::RunId& run,
                                             const model::Rank& rank) const;
  bool is_repeated(const model::RunId& run, std::string_view body);
  void expect_next_report();

  net::Loop& loop_;
  const Setup setup_;
  Tracking tracking_;
  Access access_;
  RegistryCalls models_;
  LoggedModelCalls logged_models_;
  artifacts::Artifacts& artifacts_;
  std::map<model::RunId, OpenRun> open_;
  std::map<model::RunId, std::deque<std::uint64_t>> recent_;  // hashes of batches
  std::vector<host::RankName> ended_by_;  // ranks whose clients have ended their own run
  std::set<model::RunId> unmade_;         // runs without rows, to be removed when they have ended
  net::Timer timer_;
};

}  // namespace lockstep::mlflow
