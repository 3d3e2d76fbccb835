// Home: the daemon's folder on this machine, the names of its files, and the file with the daemon's
// address. For files of nodes see node_files.h.
//
// A user's home may be shared by many machines (NFS, Lustre). The daemon's database, locks and
// process ids belong to one machine. Such a home therefore contains only a pointer: a daemon file
// that names the machine whose daemon serves it. The daemon's folder is local to that machine.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/os/environment.h"
#include "base/result.h"
#include "base/units.h"
#include "platform/host/file_systems.h"
#include "platform/host/machine.h"
#include "text/record.h"

namespace lockstep::host {

// The inputs of Home::find().
struct HomeSearch {
  Environment environment;
  SharedFileSystemLookup file_system_of = shared_file_system_of;
  // Parent of the daemon's folder of a user whose home is shared; it survives a reboot.
  std::filesystem::path local = "/var/tmp";
};

struct Home {
  std::filesystem::path folder;
  // The pointer in the user's home; only if that home is on a shared file system.
  std::optional<std::filesystem::path> pointer{};
  // The name of the shared file system of `folder` itself; empty: it is local.
  std::string shared{};

  // $LOCKSTEP_HOME, else $XDG_STATE_HOME/lockstep, else ~/.local/state/lockstep; absolute. If one
  // of the last two is shared, it becomes a pointer, and the folder is /var/tmp/lockstep-UID.
  static Result<Home> find();
  static Result<Home> find(const HomeSearch& search);

  std::filesystem::path store() const { return folder / "lockstep.db"; }
  std::filesystem::path series() const { return folder / "series"; }  // the points of metrics
  std::filesystem::path stores_file() const { return folder / "stores.json"; }
  std::filesystem::path daemon_file() const { return folder / "daemon.json"; }
  std::filesystem::path token_file() const { return folder / "token"; }
  std::filesystem::path log_file() const { return folder / "daemon.log"; }
  std::filesystem::path lock_file() const { return folder / "lock"; }  // the daemon's, signed
  std::filesystem::path key_file() const { return folder / "key"; }
  std::filesystem::path installation_file() const { return folder / "installation"; }
  std::filesystem::path served_file() const { return folder / "served.json"; }
};

// A daemon holds the folder or its database; it may not answer yet.
bool is_served(const Home& home);
// The process id of that daemon; empty if none of this machine holds it, or it is just starting.
std::optional<std::int64_t> daemon_pid_of(const Home& home);

// Code::denied for a folder that others own or may write to: they could replace its files. A
// missing folder is no error.
Result<void> check_private(const Home& home);
// Creates the folder (0700) if missing. Fails if a daemon cannot keep its database there.
Result<void> make_home_folder(const Home& home);

struct DaemonFile {
  // For this machine: http://127.0.0.1:41234, or https with the fingerprint of the certificate.
  std::string url;
  std::int64_t pid = 0;
  std::string version;
  std::string host{}, machine{}, boot{};  // its machine: Machine
  std::string folder{};                   // on that machine
  Time since{};
  std::string network_url{};  // for other machines; empty: it listens on this machine only
  std::string token{};        // only in a pointer, and only if other machines may call

  static constexpr auto fields() {
    return record<DaemonFile>(
        required(field("url", &DaemonFile::url, "where it listens")),
        field("pid", &DaemonFile::pid, "its process id; 0: it was stopped"),
        field("version", &DaemonFile::version, "its version"),
        field("host", &DaemonFile::host, "the machine's name"),
        field("machine", &DaemonFile::machine, "the machine's id"),
        field("boot", &DaemonFile::boot, "the id of the machine's boot"),
        field("folder", &DaemonFile::folder, "the daemon's folder on that machine"),
        field("since", &DaemonFile::since, "when it began"),
        field("network_url", &DaemonFile::network_url, "where other machines reach it"),
        field("token", &DaemonFile::token, "the user's token, for other machines"));
  }
};

// An address for messages: without "#sha256:...".
std::string without_fingerprint(std::string_view url);

std::string daemon_file_text(const DaemonFile& file);
// Code::not_found without such a file: no daemon was started with this home. Code::corrupt, with
// the file's name, if it cannot be read.
Result<DaemonFile> read_daemon_file(const std::filesystem::path& path);
Result<void> write_daemon_file(const std::filesystem::path& path, const DaemonFile& file);
// Writes the daemon's file into the home's pointer, with the token if other machines may call. Does
// nothing if the home has no pointer.
Result<void> write_pointer(const Home& home, DaemonFile file);

// The daemon of another machine that the home's pointer, or else its daemon file, names.
std::optional<DaemonFile> daemon_elsewhere(const Home& home, const Machine& here = this_machine());
// Error for a command that cannot reach that daemon: where it runs, and what to do.
Error daemon_elsewhere_error(const Home& home, const DaemonFile& there);

}  // namespace lockstep::host
