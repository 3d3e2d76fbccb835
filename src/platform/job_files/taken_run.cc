#include "platform/job_files/taken_run.h"

#include "text/convert.h"
#include "text/document.h"

namespace lockstep::job_files {
namespace {

// The fields that have the same values in both.
void drop_equal(Json& value, const Json& usual) {
  for (const auto& [name, other] : usual.items())
    if (value.contains(name) && value[name] == other) value.erase(name);
}

}  // namespace

std::string run_file_text(const model::RunSpec& spec) {
  model::RunSpec shown = spec;
  for (auto& [name, value] : shown.env) value = "...";
  Json all = to_json(shown);
  const Json usual = to_json(model::RunSpec{});
  drop_equal(all["needs"], usual["needs"]);
  drop_equal(all, usual);
  if (all["needs"].empty()) all.erase("needs");
  return dump_yaml(all);
}

}  // namespace lockstep::job_files
