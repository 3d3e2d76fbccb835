#include "platform/core/step/budget/personal.h"

#include "base/format.h"

namespace lockstep::step {
namespace {

constexpr std::string_view kWayOut = "; ask for less, or name a shared project with `--project`";

std::string second_text(Time time) {
  return text(Time(std::chrono::ceil<std::chrono::seconds>(time)));
}

}  // namespace

budget::Refill refill_of(const model::Settings& settings) {
  return {.an_hour = std::chrono::minutes(settings.personal_refill),
          .cap = std::chrono::minutes(settings.personal_cap)};
}

bool may_use_bucket(const Draft& draft, const model::Run& run) {
  return run.project_kind == model::ProjectKind::personal && draft.settings().personal_refill > 0;
}

budget::Bucket bucket_of(const Draft& draft, const std::string& project) {
  const budget::Bucket* found = draft.buckets.find(project);
  return found ? *found : budget::full_bucket(project, refill_of(draft.settings()), draft.now());
}

Result<void> check_fits_bucket(const Draft& draft, const model::Run& run,
                               budget::DeviceTime amount) {
  const model::Settings& settings = draft.settings();
  const auto refuse = [&](std::string_view field, const std::string& why) {
    return Error{Code::invalid,
                 format("{}: the personal project {} {}{}", field, run.spec.project, why, kWayOut)};
  };
  if (model::node_count(run.spec) > 1)
    return refuse("nodes",
                  format("runs on one node at a time, not on {}", model::node_count(run.spec)));
  if (const Duration limit = model::time_limit(run); limit > settings.personal_timeout_max)
    return refuse("timeout", format("has runs of at most {}, not {}",
                                    text(settings.personal_timeout_max), text(limit)));
  if (amount > refill_of(settings).cap)
    return refuse("timeout", format("has at most {}, and the run needs {}",
                                    budget::in_device_minutes(refill_of(settings).cap),
                                    budget::in_device_minutes(amount)));
  return {};
}

std::string bucket_wait_reason(const Draft& draft, const std::string& project,
                               budget::DeviceTime amount) {
  const budget::Refill refill = refill_of(draft.settings());
  const budget::Bucket bucket = bucket_of(draft, project);
  const auto enough = budget::time_of_level(bucket, refill, amount);
  return format("needs {} of the personal bucket of {}, which {}; see `lockstep budget show`",
                budget::in_device_minutes(amount), project,
                enough ? "has enough from " + second_text(*enough) + " on"
                       : "never has more than " + budget::in_device_minutes(refill.cap));
}

}  // namespace lockstep::step
