#include "platform/server/mlflow/run_name.h"

#include "base/format.h"

namespace lockstep::mlflow {
namespace {

Error no_such_id(std::string_view name) {
  return {Code::not_found, format("there is no run {}", name)};
}

}  // namespace

std::string run_name(const model::RunId& run) {
  std::string name;
  for (const char letter : run.project) {
    if (letter == '_')
      name += "__";
    else if (letter == '.')
      name += "_d";
    else
      name += letter;
  }
  return format("{}-{}", name, run.number);
}

Result<model::RunId> parse_run_name(std::string_view name) {
  const auto end = name.rfind('-');
  if (end == std::string_view::npos) return no_such_id(name);
  std::string project;
  for (std::size_t i = 0; i < end; ++i) {
    if (name[i] != '_') {
      project += name[i];
      continue;
    }
    ++i;
    if (i == end || (name[i] != '_' && name[i] != 'd')) return no_such_id(name);
    project += name[i] == '_' ? '_' : '.';
  }
  auto run = model::parse_run_id(format("{}/{}", project, name.substr(end + 1)));
  return run ? std::move(run) : no_such_id(name);
}

}  // namespace lockstep::mlflow
