// NotebookServer: a JupyterLab on a node, and the port of this machine that leads to it. It lives
// as long as this: its session watches its standard input.
#pragma once

#include <memory>
#include <string>

#include <sys/types.h>

#include "apps/shell/ssh_access.h"
#include "base/os/fd.h"
#include "base/result.h"

namespace lockstep::cli {

class NotebookServer {
 public:
  // `port`: of this machine; 0: a free one. Returns once the server answers, within a minute. An
  // error says what is missing on the node.
  static Result<std::unique_ptr<NotebookServer>> start(const SshAccess& access, int port);
  ~NotebookServer();
  NotebookServer(const NotebookServer&) = delete;
  NotebookServer& operator=(const NotebookServer&) = delete;

  // For a browser; it has the token.
  std::string url() const;
  // False once the session has ended.
  bool is_running();

 private:
  NotebookServer(pid_t session, Fd input, int port, std::string token)
      : session_(session), input_(std::move(input)), port_(port), token_(std::move(token)) {}
  bool answers() const;

  const pid_t session_;
  Fd input_;
  const int port_;
  const std::string token_;
  int status_ = -1;  // of the session, once it has ended
};

}  // namespace lockstep::cli
