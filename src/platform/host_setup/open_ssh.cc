#include "platform/host_setup/open_ssh.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/format.h"
#include "base/os/fd.h"
#include "base/os/files.h"
#include "base/os/spawn.h"
#include "platform/host_setup/ssh_error.h"
#include "text/shell_words.h"

namespace lockstep::host_setup {
namespace {

namespace fs = std::filesystem;

constexpr auto kMarker = "lockstep-output-begins";
constexpr std::size_t kOutputMax = 16u << 20;

// A folder for the output of one call.
class ScratchFolder {
 public:
  static Result<ScratchFolder> create() {
    std::string name = (fs::temp_directory_path() / "lockstep-ssh-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) return os_error(format("making {}", name), errno);
    return ScratchFolder(std::move(name));
  }
  ~ScratchFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  ScratchFolder(ScratchFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  ScratchFolder& operator=(ScratchFolder&&) = delete;

  fs::path input() const { return path_ / "input"; }
  fs::path output() const { return path_ / "output"; }
  fs::path errors() const { return path_ / "errors"; }

 private:
  explicit ScratchFolder(fs::path path) : path_(std::move(path)) {}
  fs::path path_;
};

// ssh's output and errors go to different files, so a shell starts it.
ProcessSpec ssh_process(const RemoteScript& call, const ScratchFolder& scratch, int output) {
  const std::string script = format("echo {}; {}", kMarker, call.script);
  const std::string input = !call.secret.empty() ? scratch.input().string()
                            : call.input         ? call.input->string()
                                                 : "/dev/null";
  return {
      .command = {"/bin/sh", "-c",
                  R"(in=$1 out=$2 err=$3; shift 3; exec "$@" <"$in" >"$out" 2>"$err")", "sh", input,
                  scratch.output().string(), scratch.errors().string(), "ssh", "-T", "-o",
                  "BatchMode=yes", "-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=4",
                  "--", call.target, "exec " + shell_words({"/bin/sh", "-c", script})},
      .environment = own_environment(),
      .folder = fs::current_path(),
      .output = output};
}

// Its status as a shell shows it; nullopt if it was killed at the deadline.
Result<std::optional<int>> wait_for(pid_t process, const Deadline& deadline) {
  const Fd handle(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
  if (!handle) return os_error("waiting for ssh", errno);
  bool ended = false;
  while (!ended && !deadline.passed()) {
    pollfd ready{.fd = handle.get(), .events = POLLIN, .revents = 0};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.remaining());
    ended = ::poll(&ready, 1, static_cast<int>(left.count())) > 0;
  }
  if (!ended) ::kill(-process, SIGKILL);  // its group has the jump hosts' ssh, too
  int status = 0;
  while (::waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  if (!ended) return std::optional<int>();
  return std::optional(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

std::string after_marker(std::string output) {
  const std::string line = format("{}\n", kMarker);
  const std::size_t at = output.find(line);
  return at == std::string::npos ? "" : output.substr(at + line.size());
}

}  // namespace

Result<std::string> OpenSsh::run(const RemoteScript& call) {
  const ScratchFolder scratch = TRY(ScratchFolder::create());
  if (!call.secret.empty()) TRY(write_file(scratch.input(), call.secret, 0600));
  const Fd nothing = TRY(open_file("/dev/null", O_WRONLY));  // the shell sends the output elsewhere
  const pid_t process =
      TRY(spawn(ssh_process(call, scratch, nothing.get()), ProcessLifetime::ends_with_thread));
  const auto status = TRY(wait_for(process, Deadline::after(call.limit)));
  const std::string errors = read_file(scratch.errors(), kOutputMax).value_or(std::string());
  if (!status) return timeout_error(call.limit);
  if (*status == kSshFailed) return connection_error(call.target, errors);
  if (*status != 0) return script_error(*status, errors);
  return after_marker(TRY(read_file(scratch.output(), kOutputMax)));
}

}  // namespace lockstep::host_setup
