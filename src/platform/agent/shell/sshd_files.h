// SshdFiles: the names and contents of what the sshd of a node reads. They are in the folder
// `shell` of the node's folder.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"
#include "platform/api/shell_messages.h"

namespace lockstep::agent {

struct SshdFiles {
  std::filesystem::path folder;

  std::filesystem::path config() const { return folder / "sshd_config"; }
  std::filesystem::path host_key() const { return folder / "host_key"; }
  std::filesystem::path host_certificate() const { return folder / "host_key-cert.pub"; }
  std::filesystem::path user_authority() const { return folder / "user_authority.pub"; }
  std::filesystem::path principals() const { return folder / "principals"; }
  std::filesystem::path session() const { return folder / "session.json"; }
  std::filesystem::path log() const { return folder / "sshd.log"; }
};

// Its sessions start `program` shell-session. Only certificates of the authority are accepted, and
// only with the attempt's principal.
std::string sshd_config(const SshdFiles& files, const std::filesystem::path& program);

// Writes what the daemon has signed; the configuration last.
Result<void> write_sshd_files(const SshdFiles& files, const api::NodeShellAnswer& keys,
                              const std::filesystem::path& program);

// The folder that an sshd of root needs; the service of the host makes it, if it runs.
Result<void> make_sshd_folder();

}  // namespace lockstep::agent
