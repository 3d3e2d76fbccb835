#include "platform/server/people/reader.h"

#include <algorithm>

namespace lockstep::server {
namespace {

bool is_of_id(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || c == '-' || c == '/';
}

// The project of a run, an attempt or a node; none: the word is the name of none.
std::optional<std::string> project_in(std::string_view word) {
  if (const auto run = model::parse_run_id(word)) return run->project;
  if (const auto attempt = model::parse_attempt_id(word)) return attempt->run.project;
  if (const auto node = model::parse_node_id(word)) return node->attempt.run.project;
  return std::nullopt;
}

}  // namespace

Reader::Reader(const identity::Directory& directory, const identity::Bearer& bearer,
               const model::State& state)
    : directory_(directory),
      bearer_(bearer),
      state_(state),
      reads_all_(bearer.project.empty() && identity::is_admin(directory, {.user = bearer.user})) {}

std::optional<std::vector<std::string>> Reader::projects() const {
  if (reads_all_) return std::nullopt;
  std::vector<std::string> names;
  for (const auto& [name, project] : directory_.projects)
    if (can_read(name)) names.push_back(name);
  return names;
}

bool Reader::can_read(std::string_view project) const {
  return reads_all_ || identity::can_read(directory_, bearer_, project);
}

// A word such as 10.0.0.1/24 looks like a run, and is none of a project that exists.
bool Reader::is_hidden(std::string_view word) const {
  const auto project = project_in(word);
  if (!project || can_read(*project)) return false;
  const auto is_of_orphan = [&](const auto& entry) {
    return entry.first.id.attempt.run.project == *project;
  };
  return directory_.projects.contains(*project) || state_.numbers.contains(*project) ||
         std::ranges::any_of(state_.orphans, is_of_orphan);
}

std::string Reader::without_names(std::string_view text) const {
  if (reads_all_ || text.find('/') == std::string_view::npos) return std::string(text);
  std::string shown;
  while (!text.empty()) {
    std::string_view word = text.substr(
        0, static_cast<std::size_t>(std::ranges::find_if_not(text, is_of_id) - text.begin()));
    while (word.ends_with('.')) word.remove_suffix(1);
    if (word.empty()) {
      shown += text.front();
      text.remove_prefix(1);
      continue;
    }
    shown += is_hidden(word) ? kOtherRun : word;
    text.remove_prefix(word.size());
  }
  return shown;
}

void Reader::limit(std::optional<std::string>& text) const {
  if (text) limit(*text);
}

void Reader::limit(std::vector<std::string>& lines) const {
  for (std::string& line : lines) limit(line);
}

void Reader::limit(api::RunView& view) const {
  if (reads_all_) return;
  limit(view.reason);
  limit(view.blocker);
  limit(view.origin.forked_from);
  limit(view.problems);
  for (model::AuditEntry& event : view.events) limit(event.what);
  for (api::AttemptView& attempt : view.attempts) limit(attempt.reason);
}

void Reader::limit(api::RunList& list) const {
  if (reads_all_) return;
  for (api::RunView& view : list.runs) limit(view);
  limit(list.problems);
  limit(list.notices);
}

// Its reason may name its user.
void Reader::limit(api::WaitingView& view) const {
  if (!is_hidden(view.run)) {
    limit(view.reason);
    limit(view.blocker);
    return;
  }
  view.run = kOtherRun;
  view.name.clear();
  view.user.clear();
  view.reason.clear();
  view.blocker.reset();
  view.priority = 0;
}

// The devices of orphans have words before the run's name.
void Reader::limit(api::AllocationView& view) const {
  limit(view.leaves);
  if (without_names(view.run) == view.run) return;
  view.run = kOtherRun;
  view.name.clear();
}

void Reader::limit(api::QueueView& view) const {
  if (reads_all_) return;
  for (api::WaitingView& waiting : view.waiting) limit(waiting);
  for (api::AllocationView& allocation : view.allocations) limit(allocation);
  limit(view.problems);
  limit(view.notices);
}

void Reader::limit(api::PlanView& view) const {
  if (reads_all_) return;
  limit(view.reason);
  limit(view.blocker);
  for (api::PreemptedView& preempted : view.preempted) limit(preempted.run);
}

// The history of a host is for admins.
void Reader::limit(api::HostList& list) const {
  if (reads_all_) return;
  for (api::HostView& host : list.hosts) {
    std::erase_if(host.runs, [&](const std::string& run) { return without_names(run) != run; });
    limit(host.reason);
    limit(host.unavailable);
    host.events.clear();
  }
}

void Reader::limit(api::LimitList& list) const {
  if (reads_all_) return;
  std::erase_if(list.limits, [&](const api::LimitView& limit) {
    return limit.scope == model::LimitScope::project ? !can_read(limit.name)
                                                     : limit.name != bearer_.user;
  });
}

void Reader::limit(api::OrphanList& list) const {
  if (reads_all_) return;
  std::erase_if(list.orphans, [&](const api::OrphanView& orphan) { return is_hidden(orphan.run); });
}

void Reader::limit(api::Version& version) const {
  if (reads_all_) return;
  limit(version.problems);
  limit(version.notices);
}

}  // namespace lockstep::server
