// Home: the daemon's folder on this machine, the files in it by name, and the one that says where
// the daemon is. What its nodes leave: node_files.h.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/result.h"
#include "text/record.h"

namespace lockstep {

struct Home {
  std::filesystem::path folder;

  // $LOCKSTEP_HOME, else $XDG_STATE_HOME/lockstep, else ~/.local/state/lockstep; absolute.
  static Result<Home> find();

  std::filesystem::path store() const { return folder / "lockstep.db"; }
  std::filesystem::path daemon_file() const { return folder / "daemon.json"; }
  std::filesystem::path token_file() const { return folder / "token"; }
  std::filesystem::path log_file() const { return folder / "daemon.log"; }
  std::filesystem::path lock_file() const { return folder / "lock"; }  // the daemon's, signed
  std::filesystem::path key_file() const { return folder / "key"; }
  std::filesystem::path installation_file() const { return folder / "installation"; }
  std::filesystem::path served_file() const { return folder / "served.json"; }
};

// A daemon holds the folder, though it may not answer yet.
bool is_served(const Home& home);

struct DaemonFile {
  std::string url;  // http://127.0.0.1:41234
  std::int64_t pid = 0;
  std::string version;

  static constexpr auto fields() {
    return record<DaemonFile>(required(field("url", &DaemonFile::url, "where it listens")),
                              field("pid", &DaemonFile::pid, "its process id"),
                              field("version", &DaemonFile::version, "its version"));
  }
};

// Code::not_found when there is no such file: no daemon was started with this home.
Result<DaemonFile> read_daemon_file(const std::filesystem::path& path);
Result<void> write_daemon_file(const std::filesystem::path& path, const DaemonFile& file);

}  // namespace lockstep
