// The id of a run for MLflow's clients, which take letters, digits, '-' and '_': "demo-42" is
// demo/42. In the project, '_' is written "__" and '.' is written "_d".
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "platform/core/model/ids.h"

namespace lockstep::mlflow {

std::string run_name(const model::RunId& run);
// Code::not_found: it is the id of no run.
Result<model::RunId> parse_run_name(std::string_view name);

}  // namespace lockstep::mlflow
