#include "platform/agent/shell/sshd_files.h"

#include <cerrno>

#include <sys/stat.h>
#include <unistd.h>

#include "base/format.h"
#include "base/os/files.h"

namespace lockstep::agent {
namespace {

using std::filesystem::path;

// A file in a configuration of OpenSSH.
std::string quoted_path(const path& file) { return "\"" + file.string() + "\""; }

// The same where % begins a variable.
std::string escaped_path(const path& file) {
  std::string text;
  for (const char each : quoted_path(file)) text += each == '%' ? "%%" : std::string(1, each);
  return text;
}

std::string shell_quoted(const std::string& word) {
  std::string text = "'";
  for (const char each : word) text += each == '\'' ? "'\\''" : std::string(1, each);
  return text + "'";
}

// Without PAM, which only root can use. StrictModes would also refuse folders that others may write
// to, such as a home on a shared file system; the files themselves are private.
constexpr std::string_view kFixedSettings = R"(AuthenticationMethods publickey
AuthorizedKeysFile none
PasswordAuthentication no
KbdInteractiveAuthentication no
HostbasedAuthentication no
PermitRootLogin prohibit-password
UsePAM no
StrictModes no
PermitUserRC no
PermitUserEnvironment no
AcceptEnv LANG LC_*
X11Forwarding no
AllowTcpForwarding yes
GatewayPorts no
MaxSessions 100
UseDNS no
PrintMotd no
PrintLastLog no
PidFile none
LogLevel INFO
Subsystem sftp internal-sftp
)";

// An sshd of root changes to it before it knows the user.
constexpr const char* kSshdFolder = "/run/sshd";

}  // namespace

Result<void> make_sshd_folder() {
  if (::getuid() != 0 || ::mkdir(kSshdFolder, 0755) == 0 || errno == EEXIST) return {};
  return os_error(format("making {}, which sshd needs", kSshdFolder), errno);
}

std::string sshd_config(const SshdFiles& files, const path& program) {
  return format(
      "HostKey {}\nHostCertificate {}\nTrustedUserCAKeys {}\nAuthorizedPrincipalsFile {}\n"
      "{}ForceCommand exec {} shell-session {}\n",
      quoted_path(files.host_key()), quoted_path(files.host_certificate()),
      quoted_path(files.user_authority()), escaped_path(files.principals()), kFixedSettings,
      shell_quoted(program.string()), shell_quoted(files.session().string()));
}

Result<void> write_sshd_files(const SshdFiles& files, const api::NodeShellAnswer& keys,
                              const path& program) {
  TRY(write_file(files.host_certificate(), keys.certificate + "\n"));
  TRY(write_file(files.user_authority(), keys.user_authority + "\n"));
  TRY(write_file(files.principals(), keys.principal + "\n"));
  TRY(write_file(files.config(), sshd_config(files, program)));
  return {};
}

}  // namespace lockstep::agent
