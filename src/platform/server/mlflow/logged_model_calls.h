// LoggedModelCalls: MLflow's calls of logged models, and of what runs read and make. A logged model
// is a folder of artifacts of the run that made it (docs/design/registry.md).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "platform/server/mlflow/access.h"
#include "platform/server/mlflow/model_messages.h"
#include "platform/server/mlflow/model_tables.h"
#include "text/json.h"

namespace lockstep::mlflow {

class LoggedModelCalls {
 public:
  // An ended run of this experiment and name, for a model that no run of its client makes.
  using MakeRun = std::function<Result<RunRow>(const Caller& caller, const std::string& experiment,
                                               const std::string& name)>;

  // All outlive this.
  LoggedModelCalls(const Setup& setup, Access& access, MakeRun make_run)
      : setup_(setup), access_(access), tables_(setup.database), make_run_(std::move(make_run)) {}

  // `what` is "logged-models/ID/tags" or "runs/outputs". None: there is no such call.
  std::optional<Result<Json>> handle(std::string_view method, const std::string& what,
                                     const Json& body, const Caller& caller);
  // Adds the links of a run to its view.
  Result<void> add_links(const model::RunId& run, Run& view);

 private:
  using Answer = Result<Json>;
  struct Call {
    const Caller& caller;
    const Json& body;
  };

  Answer create(const Call& call);
  Answer search(const Call& call);
  Answer finalize(const Call& call, LoggedModelRow model);
  Answer remove(const Call& call, LoggedModelRow model);
  Answer set_tags(const Call& call, LoggedModelRow model);
  Answer delete_tag(LoggedModelRow model, const std::string& key);
  Answer add_params(const Call& call, LoggedModelRow model);
  Answer log_outputs(const Call& call);
  Answer log_inputs(const Call& call);
  std::optional<Answer> model_call(std::string_view method, const std::string& rest,
                                   const Call& call);

  Result<LoggedModelRow> readable_model(const Caller& caller, const std::string& id);
  Result<LoggedModelRow> changeable_model(const Caller& caller, const std::string& id);
  Answer answer_of(const LoggedModelRow& model) const;
  Answer save(LoggedModelRow model);
  Result<void> log_models(const RunRow& run, LinkKind kind, const std::vector<ModelLink>& models);

  const Setup& setup_;
  Access& access_;
  ModelTables tables_;
  MakeRun make_run_;
};

}  // namespace lockstep::mlflow
