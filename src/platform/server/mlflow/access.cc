#include "platform/server/mlflow/access.h"

#include <charconv>
#include <utility>

#include "base/format.h"
#include "platform/core/step/ending/reason_text.h"
#include "platform/server/mlflow/run_name.h"
#include "platform/store/audit_table.h"

namespace lockstep::mlflow {

Result<std::int64_t> parse_number(const std::string& text, std::string_view what) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size() && number >= 0) return number;
  return Error{Code::invalid, format("{}: '{}' is not one of an answer", what, text)};
}

Result<std::string> Access::default_project(const Caller& caller) const {
  std::string project = identity::default_project(setup_.directory, caller.bearer);
  if (identity::can_read(setup_.directory, caller.bearer, project)) return project;
  return identity::no_such_project(project);
}

Result<ExperimentRow> Access::experiment_of(const Caller& caller, const std::string& id) {
  const Error none{Code::not_found, format("there is no experiment with the id {}", id)};
  const auto number = parse_number(id, "experiment_id");
  if (!number) return none;
  if (*number == kDefaultExperiment) return ExperimentRow{.project = TRY(default_project(caller))};
  auto found = TRY(tracking_.find_experiment(*number));
  if (!found || !identity::can_read(setup_.directory, caller.bearer, found->project)) return none;
  return *std::move(found);
}

Result<RunRow> Access::readable_run(const Caller& caller, const std::string& name) {
  if (name.empty()) return Error{Code::invalid, "run_id: is missing"};
  const model::RunId id = TRY(parse_run_name(name));
  const Error none{Code::not_found, format("there is no run {}", name)};
  if (!identity::can_read(setup_.directory, caller.bearer, id.project)) return none;
  auto row = TRY(tracking_.find_run(id));
  return row ? Result<RunRow>(*std::move(row)) : none;
}

Result<RunRow> Access::changeable_run(const Caller& caller, const std::string& name) {
  RunRow row = TRY(readable_run(caller, name));
  TRY(check(caller, identity::Action::control_run, row.id.project, row.owner));
  if (!caller.rank || row.id == caller.own_run() || row.parent == text(caller.own_run()))
    return row;
  return Error{Code::denied, format("a rank of {} changes its own run and those that it made, not "
                                    "{}: use a token of a user",
                                    text(caller.own_run()), text(row.id))};
}

Result<void> Access::check(const Caller& caller, identity::Action action, std::string_view project,
                           std::string_view owner) const {
  const identity::Target target{.project = project, .owner = owner};
  if (identity::may(setup_.directory, caller.bearer, action, target)) return {};
  return Error{Code::denied, identity::refusal(caller.bearer, action, target)};
}

Result<void> Access::change(const model::AuditRecord& record,
                            const std::function<Result<void>()>& work) {
  return setup_.database.transaction([&]() -> Result<void> {
    TRY(work());
    return store::add(setup_.database, record);
  });
}

model::AuditRecord Access::record(const Caller& caller, std::string_view action, std::string target,
                                  std::string project, std::string before,
                                  std::string after) const {
  return {.time = setup_.clock.now(),
          .user = caller.bearer.user,
          .token = caller.bearer.token,
          .address = caller.address,
          .action = std::string(action),
          .target = step::one_line(target),
          .project = std::move(project),
          .before = step::one_line(before),
          .after = step::one_line(after)};
}

}  // namespace lockstep::mlflow
