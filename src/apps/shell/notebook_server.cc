#include "apps/shell/notebook_server.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <random>

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "apps/run/follow.h"
#include "base/clock.h"
#include "base/format.h"
#include "base/os/environment.h"
#include "base/os/spawn.h"
#include "net/crypto.h"
#include "net/http/http_client.h"

namespace lockstep::cli {
namespace {

constexpr Duration kServerStart = std::chrono::minutes(1);
constexpr Duration kCallLimit = std::chrono::seconds(5);
constexpr Duration kEndLimit = std::chrono::seconds(10);
constexpr int kPollMilliseconds = 100;
constexpr int kTokenBytes = 24;
constexpr int kNoJupyter = 127;
// Above the ports that the kernel gives away, and below none of a usual service.
constexpr int kFirstPort = 61000, kLastPort = 65000;

// The token comes by standard input, because each process of the host can read command lines. The
// end of standard input ends the server: a session without a terminal gets no other sign of it.
constexpr std::string_view kScript = R"(IFS= read -r JUPYTER_TOKEN || exit 1
export JUPYTER_TOKEN
command -v jupyter-lab >/dev/null 2>&1 || exit 127
exec 3<&0
jupyter-lab --no-browser --ServerApp.ip=127.0.0.1 --ServerApp.port={0} --ServerApp.port_retries=0 \
  --ServerApp.allow_root=True --ServerApp.log_level=ERROR </dev/null &
server=$!
{{ cat <&3; kill $server; }} >/dev/null 2>&1 &
wait $server
)";

int random_port() {
  std::random_device random;
  return std::uniform_int_distribution<int>(kFirstPort, kLastPort)(random);
}

// It is free now; ssh says so if it is not any more.
Result<int> free_port() {
  const Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* any = reinterpret_cast<sockaddr*>(&address);
  if (!socket || ::bind(socket.get(), any, size) != 0 ||
      ::getsockname(socket.get(), any, &size) != 0)
    return os_error("looking for a free port", errno);
  return ntohs(address.sin_port);
}

std::vector<std::string> session_command(const SshAccess& access, int local, int remote) {
  return ssh_command("ssh", access,
                     {"-T", "-o", "ExitOnForwardFailure=yes", "-o", "LogLevel=ERROR", "-L",
                      format("127.0.0.1:{}:127.0.0.1:{}", local, remote), access.alias,
                      "exec sh -c " + shell_quoted(fmt::format(fmt::runtime(kScript), remote))});
}

Error ended_early(int status) {
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNoJupyter)
    return {Code::not_found,
            "the run has no JupyterLab: `pip install jupyterlab` in its environment, which --venv "
            "or --conda names"};
  return {Code::internal, "JupyterLab has ended before it answered; its message is above"};
}

}  // namespace

Result<std::unique_ptr<NotebookServer>> NotebookServer::start(const SshAccess& access, int port) {
  if (port == 0) port = TRY(free_port());
  std::string token = net::random_hex(kTokenBytes);
  Pipe input = TRY(make_pipe());
  const pid_t session = TRY(spawn({.command = session_command(access, port, random_port()),
                                   .environment = own_environment(),
                                   .folder = "/",
                                   .input = input.read.get(),
                                   .output = STDERR_FILENO},
                                  ProcessLifetime::ends_with_thread));
  input.read.reset();
  std::unique_ptr<NotebookServer> server(
      new NotebookServer(session, std::move(input.write), port, token));
  TRY(write_all(server->input_.get(), token + "\n"));
  for (const auto limit = Deadline::after(kServerStart); !limit.passed();) {
    if (InterruptHandler::requested()) return Error{Code::cancelled, "interrupted"};
    if (!server->is_running()) return ended_early(server->status_);
    if (server->answers()) return server;
    ::poll(nullptr, 0, kPollMilliseconds);
  }
  return Error{Code::timeout, format("JupyterLab does not answer within {}", text(kServerStart))};
}

bool NotebookServer::answers() const {
  const net::Url url{.host = "127.0.0.1", .port = port_};
  const auto answer =
      net::HttpClient(url).call({.method = "GET", .target = "/api"}, Deadline::after(kCallLimit));
  return answer && answer->status == 200;
}

std::string NotebookServer::url() const {
  return format("http://127.0.0.1:{}/lab?token={}", port_, token_);
}

bool NotebookServer::is_running() {
  if (status_ >= 0) return false;
  int status = 0;
  if (::waitpid(session_, &status, WNOHANG) == 0) return true;
  status_ = status;
  return false;
}

NotebookServer::~NotebookServer() {
  input_.reset();
  for (const auto limit = Deadline::after(kEndLimit); is_running() && !limit.passed();)
    ::poll(nullptr, 0, kPollMilliseconds);
  if (!is_running()) return;
  ::kill(session_, SIGKILL);
  ::waitpid(session_, nullptr, 0);
}

}  // namespace lockstep::cli
