#include "platform/engine/local/local_engine.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <sys/random.h>

#include "base/environment.h"
#include "base/fd.h"
#include "base/file_lock.h"
#include "base/files.h"
#include "base/processes.h"
#include "base/spawn.h"
#include "platform/host/home.h"
#include "platform/host/node_files.h"
#include "text/convert.h"

namespace lockstep {
namespace {

using std::filesystem::path;

constexpr int kStopRounds = 10;  // against what forks while it is stopped

std::string random_name() {
  std::uint64_t number = 0;
  LS_CHECK(::getrandom(&number, sizeof number, 0) == sizeof number);
  return format("{:016x}", number);
}

Result<std::string> installation_of(const path& home) {
  TRY(make_folders(home));
  const path file = Home{home}.installation_file();
  auto name = read_file(file);
  if (name && !name->empty()) return name;
  if (!name && name.error().code != Code::not_found) return name;
  std::string fresh = random_name();
  TRY(write_file(file, fresh));
  return fresh;
}

// Those with the mark and all below them, ancestors first.
std::vector<pid_t> processes_of(const std::string& token) {
  const std::vector<Process> all = processes_of_user();
  std::vector<std::pair<std::size_t, pid_t>> found;  // larger families come first
  for (const auto& [pid, mark] : processes_with(kNodeToken)) {
    if (mark != token) continue;
    const std::vector<Process> family = descendants(all, pid);
    found.emplace_back(family.size(), pid);
    for (const Process& child : family) found.emplace_back(0, child.pid);
  }
  std::ranges::stable_sort(found, std::greater(), &std::pair<std::size_t, pid_t>::first);
  std::vector<pid_t> pids;
  for (const auto& [size, pid] : found)
    if (std::ranges::find(pids, pid) == pids.end()) pids.push_back(pid);
  return pids;
}

}  // namespace

Result<LocalEngine> LocalEngine::open(path program, const path& home) {
  std::string installation = TRY(installation_of(home));
  return LocalEngine(std::move(program), std::move(installation));
}

std::string LocalEngine::token(const NodeId& node) const {
  return installation_ + ":" + text(node);
}

Result<void> LocalEngine::launch(const Launch& launch) {
  const NodeId node = TRY(parse_node_id(launch.node));
  const NodeFiles files{launch.node_folder};
  TRY(make_folders(files.folder));
  if (is_locked(files.lock())) return {};
  const path file = files.launch_file();
  TRY(write_file(file, dump_json(to_json(launch), Indent::two)));
  const Fd log = TRY(open_file(files.agent_log(), O_WRONLY | O_CREAT | O_APPEND));
  Program agent{.command = {program_.string(), "agent", file.string()},
                .environment = own_environment(),
                .folder = "/",
                .output = log.get()};
  agent.environment[std::string(kNodeToken)] = token(node);
  TRY(spawn_detached(agent));
  last_seen_.insert(node);
  return {};
}

// First all are stopped, until a look finds no other: what is stopped starts nothing, and what has
// cleared its environment is found below its ancestors for as long as they are there. The agent is
// the first, so that it reports nothing of this. Then all are killed.
Result<void> LocalEngine::kill(const NodeId& node) {
  std::set<pid_t> stopped;
  for (int round = 0; round < kStopRounds; ++round) {
    const std::size_t before = stopped.size();
    for (pid_t pid : processes_of(token(node)))
      if (stopped.insert(pid).second) ::kill(pid, SIGSTOP);
    if (stopped.size() == before) break;
  }
  for (pid_t pid : stopped) ::kill(pid, SIGKILL);
  return {};
}

std::set<NodeId> LocalEngine::marked_nodes() const {
  std::set<NodeId> nodes;
  const std::string prefix = installation_ + ":";
  for (const auto& [pid, mark] : processes_with(kNodeToken)) {
    if (!mark.starts_with(prefix)) continue;
    if (auto node = parse_node_id(std::string_view(mark).substr(prefix.size())))
      nodes.insert(*node);
  }
  return nodes;
}

Result<std::vector<NodeId>> LocalEngine::list() {
  std::set<NodeId> seen = marked_nodes();
  std::set<NodeId> present = seen;
  present.merge(last_seen_);
  last_seen_ = std::move(seen);
  return std::vector<NodeId>(present.begin(), present.end());
}

}  // namespace lockstep
