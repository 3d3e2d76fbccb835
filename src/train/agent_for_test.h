// For tests: receives the reports of this process to its agent.
#pragma once

#include <cstdlib>
#include <cstring>
#include <string>

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/os/fd.h"
#include "base/temporary_folder_for_test.h"

namespace lockstep::train::agent_for_test {

// Replaces the agent; the process reports to it from then on.
class Agent {
 public:
  Agent() {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, path_.c_str());
    EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::listen(listener_.get(), 8), 0);
    ::setenv("LOCKSTEP_REPORT", path_.c_str(), 1);
  }
  // The reports received so far; a report call returns when it is delivered.
  std::string heard() {
    pollfd calls{listener_.get(), POLLIN, 0};
    if (::poll(&calls, 1, 0) == 1) caller_ = Fd(::accept(listener_.get(), nullptr, nullptr));
    char buffer[4096];
    const auto got = caller_ ? ::recv(caller_.get(), buffer, sizeof buffer, MSG_DONTWAIT) : -1;
    return got > 0 ? std::string(buffer, static_cast<std::size_t>(got)) : "";
  }

 private:
  const TemporaryFolder folder_;
  const std::string path_ = (folder_ / "report").string();
  const Fd listener_ = Fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  Fd caller_;
};

}  // namespace lockstep::train::agent_for_test
