#include "platform/host/home.h"

#include <cerrno>

#include <sys/stat.h>
#include <unistd.h>

#include "base/format.h"
#include "base/os/file_lock.h"
#include "base/os/files.h"
#include "text/convert.h"
#include "text/exact.h"
#include "text/json.h"

namespace lockstep::host {
namespace {

namespace fs = std::filesystem;

// The daemon's folder of a user whose home is shared. Other users may write to its parent.
bool is_stand_in(const Home& home) { return home.pointer.has_value(); }

Home local_stand_in(const fs::path& asked, const HomeSearch& search) {
  const fs::path folder = search.local / format("lockstep-{}", ::geteuid());
  return {
      .folder = folder, .pointer = asked / "daemon.json", .shared = search.file_system_of(folder)};
}

}  // namespace

Result<Home> Home::find() { return find({.environment = own_environment()}); }

Result<Home> Home::find(const HomeSearch& search) {
  auto variable = [&](const char* name) {
    const auto found = search.environment.find(name);
    return fs::path(found == search.environment.end() ? "" : found->second);
  };
  if (auto chosen = variable("LOCKSTEP_HOME"); !chosen.empty()) {
    const fs::path folder = fs::absolute(chosen);
    return Home{.folder = folder, .shared = search.file_system_of(folder)};
  }
  fs::path asked;
  if (auto state = variable("XDG_STATE_HOME"); !state.empty())
    asked = fs::absolute(state / "lockstep");
  else if (auto home = variable("HOME"); !home.empty())
    asked = fs::absolute(home / ".local/state/lockstep");
  else
    return Error{Code::invalid,
                 "neither LOCKSTEP_HOME nor HOME is set; set LOCKSTEP_HOME to a folder"};
  if (!search.file_system_of(asked).empty()) return local_stand_in(asked, search);
  return Home{.folder = asked};
}

bool is_served(const Home& home) { return is_locked(home.store()) || is_locked(home.lock_file()); }

std::optional<std::int64_t> daemon_pid_of(const Home& home) {
  if (const auto pid = lock_owner(home.store())) return *pid;
  if (const auto pid = lock_owner(home.lock_file())) return *pid;
  return std::nullopt;
}

Result<void> check_private(const Home& home) {
  const std::string folder = home.folder.string();
  struct stat info{};
  // In a folder to which others may write, a link may belong to another user; elsewhere it is the
  // user's.
  const int found =
      is_stand_in(home) ? ::lstat(folder.c_str(), &info) : ::stat(folder.c_str(), &info);
  if (found != 0) {
    if (errno == ENOENT) return {};
    return os_error("looking at " + folder, errno);
  }
  const auto refused = [&](std::string_view why, std::string_view remedy) {
    return Error{Code::denied,
                 format("{} cannot be the daemon's folder: {}; {}", folder, why, remedy)};
  };
  constexpr std::string_view kChoose = "choose another folder by LOCKSTEP_HOME";
  if (S_ISLNK(info.st_mode)) return refused("it is a link", kChoose);
  if (info.st_uid != ::geteuid()) return refused("it belongs to another user", kChoose);
  if ((info.st_mode & 022) != 0)
    return refused(
        "other users may write to it",
        format("take that back with `chmod go-w {}`, and see that its files are yours", folder));
  return {};
}

Result<void> make_home_folder(const Home& home) {
  const std::string folder = home.folder.string();
  if (!home.shared.empty())
    return Error{
        Code::invalid,
        format("{} is on {}, which other machines may share, and the daemon's database needs a "
               "file system of this machine alone; {}",
               folder, home.shared,
               is_stand_in(home) ? "set LOCKSTEP_HOME to a folder on one"
                                 : "unset LOCKSTEP_HOME, or set it to a folder on one")};
  TRY(make_folders(home.folder));
  return check_private(home);
}

std::string without_fingerprint(std::string_view url) {
  return std::string(url.substr(0, url.find('#')));
}

std::string daemon_file_text(const DaemonFile& file) { return dump_json(to_json(file)) + "\n"; }

Result<DaemonFile> read_daemon_file(const fs::path& path) {
  std::string content = TRY(read_file(path));
  auto read = [&]() -> Result<DaemonFile> {
    // The daemon may be newer than the reader.
    return from_json<DaemonFile>(TRY(parse_json(content)), UnknownFields::ignore);
  };
  auto file = read();
  if (!file)
    return Error{Code::corrupt, format("{} is damaged ({})", path.string(), file.error().message)};
  return file;
}

Result<void> write_daemon_file(const fs::path& path, const DaemonFile& file) {
  return write_file(path, daemon_file_text(file));
}

Result<void> write_pointer(const Home& home, DaemonFile file) {
  if (!home.pointer) return {};
  if (!file.network_url.empty()) {
    file.token = TRY(read_file(home.token_file(), 4096));
    while (file.token.ends_with('\n')) file.token.pop_back();
  }
  TRY(make_folders(home.pointer->parent_path()));
  return write_daemon_file(*home.pointer, file);
}

std::optional<DaemonFile> daemon_elsewhere(const Home& home, const Machine& here) {
  const auto file = read_daemon_file(home.pointer.value_or(home.daemon_file()));
  if (!file || file->host.empty()) return std::nullopt;
  const bool is_here = file->host == here.host && file->machine == here.id;
  // Containers of this machine see its folder under different host names. The lock decides.
  const bool same_kernel = !home.pointer && home.shared.empty() && file->boot == here.boot;
  if (is_here || same_kernel) return std::nullopt;
  return *file;
}

Error daemon_elsewhere_error(const Home& home, const DaemonFile& there) {
  const fs::path source = home.pointer.value_or(home.daemon_file());
  const std::string state =
      there.pid == 0 ? format("was stopped on {}, where its state is", there.host)
                     : format("runs on {} (since {})", there.host, exact_text(there.since));
  return {
      Code::unavailable,
      format("the daemon of this home {}; type `ssh {} lockstep ...`, or set LOCKSTEP_HOME to a "
             "folder of this machine. If that machine is gone for good, remove {}",
             state, there.host, source.string())};
}

}  // namespace lockstep::host
