#include "platform/server/run_filter.h"

#include <string>

namespace lockstep::server {
namespace {

// "KEY" or "KEY=VALUE".
model::TagFilter tag_filter(const std::string& words) {
  const auto equals = words.find('=');
  if (equals == std::string::npos) return {.key = words};
  return {.key = words.substr(0, equals), .value = words.substr(equals + 1)};
}

}  // namespace

std::optional<model::RunFilter> readable_runs(const CallContext& context, const Principal& caller,
                                              const api::RunsQuery& query) {
  const identity::Directory& directory = context.accounts().directory();
  model::RunFilter filter{.project = query.project,
                          .projects = context.readable_projects(caller),
                          .state = query.state,
                          .tag = query.tag ? std::optional(tag_filter(*query.tag)) : std::nullopt,
                          .user = query.user,
                          .since = query.since,
                          .until = query.until,
                          .limit = query.limit + 1};
  if (!filter.project) return filter;
  filter.project = identity::readable_project(directory, caller.bearer, *filter.project);
  if (!identity::can_read(directory, caller.bearer, *filter.project)) return std::nullopt;
  return filter;
}

}  // namespace lockstep::server
