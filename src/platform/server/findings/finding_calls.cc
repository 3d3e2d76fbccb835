#include "platform/server/findings/finding_calls.h"

#include <algorithm>
#include <ranges>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/format.h"
#include "platform/identity/rights.h"
#include "platform/insight/device_use.h"

namespace lockstep::server {
namespace {

api::FindingView finding_view(const store::StoredFinding& stored) {
  const model::Finding& finding = stored.finding;
  const auto& [kind, node, rank, device, part] = finding.subject;
  return {.id = stored.id,
          .run = text(stored.attempt.run),
          .attempt = stored.attempt.epoch,
          .kind = kind,
          .host = stored.host,
          .device = device,
          .rank = rank,
          .since = finding.since,
          .last_seen = finding.last_seen,
          .ended = finding.ended,
          .text = finding.text,
          .act = stored.act};
}

Result<std::vector<insight::UseColumn>> use_columns(const std::string& by) {
  std::vector<insight::UseColumn> columns;
  for (const auto part : std::views::split(by, ',')) {
    auto column = parse_name<insight::UseColumn>(std::string_view(part.begin(), part.end()));
    if (!column) return std::move(column).error().with_context("by");
    columns.push_back(*column);
  }
  return columns;
}

std::optional<double> scaled(std::optional<double> value, double unit) {
  return value ? std::optional(*value / unit) : std::nullopt;
}

api::DeviceUseView use_view(insight::UseSum sum) {
  constexpr double kJoulesPerKwh = 3.6e6, kSecondsPerMinute = 60;
  api::DeviceUseView view{.project = std::move(sum.project),
                          .user = std::move(sum.user),
                          .run = std::move(sum.run),
                          .month = std::move(sum.month),
                          .device_kwh = scaled(sum.use.device_joules, kJoulesPerKwh),
                          .host_kwh = scaled(sum.use.host_joules, kJoulesPerKwh),
                          .device_minutes = scaled(sum.use.device_seconds, kSecondsPerMinute),
                          .idle_minutes = scaled(sum.use.idle_seconds, kSecondsPerMinute),
                          .flops = sum.use.flops};
  if (sum.use.flops_timed && sum.use.flops_possible && *sum.use.flops_possible > 0)
    view.flops_utilization_percent = 100 * *sum.use.flops_timed / *sum.use.flops_possible;
  return view;
}

}  // namespace

Result<api::FindingList> FindingCalls::page(store::FindingFilter filter,
                                            const api::FindingQuery& query) {
  filter.open = query.open;
  filter.before = query.before;
  filter.limit = query.limit + 1;
  const auto found = TRY(watch_.store().list(filter));
  api::FindingList list{.more = found.size() > static_cast<std::size_t>(query.limit)};
  for (const store::StoredFinding& stored :
       found | std::views::take(static_cast<std::size_t>(query.limit)))
    list.findings.push_back(finding_view(stored));
  return list;
}

Result<api::FindingList> FindingCalls::list(const RouteCall<api::kFindings>& call) {
  return page({.projects = context_.readable_projects(call.caller)}, call.query);
}

Result<api::FindingList> FindingCalls::of_run(const RouteCall<api::kRunFindings>& call) {
  const model::RunId id = TRY(run_of(call.path_parameters));
  TRY(context_.find_run(id));
  return page({.run = id}, call.query);
}

Result<api::DeviceUseList> FindingCalls::device_use(const RouteCall<api::kDeviceUse>& call) {
  const api::DeviceUseQuery& query = call.query;
  insight::UseFilter filter{.projects = context_.readable_projects(call.caller),
                            .user = query.user,
                            .month = query.month,
                            .by = TRY(use_columns(query.by))};
  if (query.run) {
    filter.run = TRY(model::parse_run_id(*query.run));
    filter.projects = {filter.run->project};
  }
  if (query.project) filter.projects = {*query.project};
  for (const std::string& project : filter.projects.value_or(std::vector<std::string>()))
    if (!identity::can_read(context_.accounts().directory(), call.caller.bearer, project))
      return identity::no_such_project(project);
  api::DeviceUseList list;
  for (insight::UseSum& sum : TRY(insight::device_use(context_.setup().database, filter)))
    list.rows.push_back(use_view(std::move(sum)));
  return list;
}

}  // namespace lockstep::server
