#include "platform/engine/local/local_engine.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <sys/random.h>

#include "base/os/environment.h"
#include "base/os/fd.h"
#include "base/os/file_lock.h"
#include "base/os/files.h"
#include "base/os/spawn.h"
#include "platform/host/home.h"
#include "platform/host/node_files.h"
#include "text/convert.h"

namespace lockstep::engine {
namespace {

using std::filesystem::path;

constexpr const char* kOwnFile = "/proc/self/exe";

std::string random_name() {
  std::uint64_t number = 0;
  LS_CHECK(::getrandom(&number, sizeof number, 0) == sizeof number);
  return format("{:016x}", number);
}

// The agent outlives the daemon, and others may read its environment. So it gets the variables of
// the user and of the machine, of paths to sockets, and Lockstep's own settings. It does not get
// other variables of the shell that started the daemon, such as cloud keys.
Environment agent_environment() {
  Environment kept = own_environment();
  std::erase_if(kept, [](const auto& variable) {
    const std::string& name = variable.first;
    const bool is_needed =
        name == "XDG_RUNTIME_DIR" || name == "TMPDIR" || name.ends_with("SAN_OPTIONS");
    return !is_needed && !is_user_variable(name) && !is_node_variable(name) &&
           !name.starts_with("LOCKSTEP_");
  });
  return kept;
}

Result<std::string> installation_of(const path& home) {
  TRY(make_folders(home));
  const path file = host::Home{home}.installation_file();
  auto name = read_file(file);
  if (name && !name->empty()) return name;
  if (!name && name.error().code != Code::not_found) return name;
  std::string fresh = random_name();
  TRY(write_file(file, fresh));
  return fresh;
}

}  // namespace

// The name ends with " (deleted)" if the file was replaced since this program was started.
Result<AgentProgram> AgentProgram::own() {
  std::error_code failure;
  const path name = std::filesystem::read_symlink(kOwnFile, failure);
  if (failure) return Error{Code::internal, format("reading {}: {}", kOwnFile, failure.message())};
  return AgentProgram{.name = name.string(), .file = kOwnFile};
}

LocalEngine::LocalEngine(AgentProgram program, path home, std::string installation)
    : program_(std::move(program)),
      home_(std::move(home)),
      installation_(std::move(installation)),
      watch_(host::kNodeToken) {}

Result<LocalEngine> LocalEngine::open(AgentProgram program, const path& home) {
  std::string installation = TRY(installation_of(home));
  return LocalEngine(std::move(program), home, std::move(installation));
}

std::string LocalEngine::token(const model::NodeName& node) const {
  return installation_ + ":" + text(node);
}

Result<void> LocalEngine::launch(const LaunchSpec& launch) {
  const model::NodeName node{launch.generation, TRY(model::parse_node_id(launch.node))};
  const host::NodeFiles files{launch.node_folder};
  TRY(make_folders(files.folder));
  if (is_locked(files.lock())) return {};
  const path file = files.launch_file();
  TRY(write_file(file, dump_json(to_json(launch), Indent::two)));
  const Fd log = TRY(open_file(files.agent_log(), O_WRONLY | O_CREAT | O_APPEND));
  ProcessSpec agent{.command = {program_.name, "agent", file.string()},
                    .file = program_.file,
                    .environment = agent_environment(),
                    .folder = "/",
                    .output = log.get()};
  agent.environment[std::string(host::kNodeToken)] = token(node);
  TRY(spawn_detached(agent));
  watch_.expect(token(node));
  return {};
}

Result<void> LocalEngine::kill(const model::NodeName& node) {
  watch_.kill(token(node));
  return {};
}

// A newer Lockstep may have written further fields.
Result<LaunchSpec> LocalEngine::read_launch_spec(const model::NodeName& node) {
  const path file = host::NodeFiles{host::node_folder(home_, node)}.launch_file();
  const auto read = [&]() -> Result<LaunchSpec> {
    return from_json<LaunchSpec>(TRY(parse_json(TRY(read_file(file)))), UnknownFields::ignore);
  };
  auto launch = read();
  if (!launch) return std::move(launch).error().with_context(file.string());
  return launch;
}

// The agent creates the lock file before anything else.
bool LocalEngine::has_started(const model::NodeName& node) {
  std::error_code ignored;
  return std::filesystem::exists(host::NodeFiles{host::node_folder(home_, node)}.lock(), ignored);
}

Result<std::vector<RunningNode>> LocalEngine::list() {
  std::vector<RunningNode> present;
  std::set<model::NodeName> agentless;
  const std::string prefix = installation_ + ":";
  for (const std::string& mark : TRY(watch_.marks())) {
    if (!mark.starts_with(prefix)) continue;
    const auto node = model::parse_node_name(std::string_view(mark).substr(prefix.size()));
    if (!node) continue;
    if (!is_locked(host::NodeFiles{host::node_folder(home_, *node)}.lock()))
      agentless.insert(*node);
    present.push_back({*node, !agentless.contains(*node) || !agentless_.contains(*node)});
  }
  agentless_ = std::move(agentless);
  std::ranges::sort(present, {}, &RunningNode::node);
  return present;
}

}  // namespace lockstep::engine
