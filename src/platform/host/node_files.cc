#include "platform/host/node_files.h"

#include <cstdlib>
#include <string>

#include <sys/stat.h>
#include <unistd.h>

#include "base/format.h"
#include "net/crypto.h"

namespace lockstep::host {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kSocketPathMax = 107;  // sun_path of sockaddr_un has 108 bytes, with the NUL
constexpr std::size_t kDigestDigits = 16;
constexpr int kLongestRank = 2'000'000'000;

std::vector<std::string> bases(uid_t owner) {
  if (owner != ::geteuid()) return {format("/run/user/{}", owner), "/tmp"};
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  if (runtime && *runtime == '/') return {runtime, "/tmp"};
  return {"/tmp"};
}

}  // namespace

fs::path run_folder(const fs::path& home, const std::string& generation, const model::RunId& run) {
  return home / "runs" / generation / run.project / format("{}", run.number);
}

fs::path default_checkpoint_folder(const fs::path& home, const std::string& generation,
                                   const model::RunId& run) {
  return run_folder(home, generation, run) / "checkpoints";
}

fs::path upload_manifest_file(const fs::path& home, const std::string& generation,
                              const model::RunId& run) {
  return run_folder(home, generation, run) / "upload.json";
}

fs::path node_folder(const fs::path& home, const model::NodeName& node) {
  const auto& [attempt, index] = node.id;
  return run_folder(home, node.generation, attempt.run) / format("attempt-{}", attempt.epoch) /
         node_folder_name(index);
}

std::string node_folder_name(int index) { return format("node-{}", index); }

OwnersAccess::OwnersAccess(const fs::path& node_folder) {
  struct stat info{};
  if (::geteuid() == 0 && ::lstat(node_folder.c_str(), &info) == 0 && info.st_uid != 0)
    access_.emplace(info.st_uid, info.st_gid);
}

fs::path NodeFiles::rank_log(int rank) const { return folder / format("rank-{}.log", rank); }

fs::path NodeFiles::delivered_trace(int rank) const {
  return delivered_traces() / format("rank-{}.gz", rank);
}

uid_t owner_of(const fs::path& node_folder) {
  struct stat info{};
  return ::lstat(node_folder.c_str(), &info) == 0 ? info.st_uid : ::geteuid();
}

std::vector<fs::path> socket_folders(std::string_view token, uid_t owner) {
  const std::string name =
      format("lockstep-{}-{}", owner, net::sha256_hex(token).substr(0, kDigestDigits));
  std::vector<fs::path> folders;
  for (const std::string& base : bases(owner)) {
    fs::path folder = fs::path(base) / name;
    if (report_socket(folder, kLongestRank).native().size() <= kSocketPathMax)
      folders.push_back(std::move(folder));
  }
  return folders;
}

fs::path report_socket(const fs::path& folder, int rank) {
  return folder / format("rank-{}", rank);
}

}  // namespace lockstep::host
