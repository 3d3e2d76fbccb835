// A rank of another launcher: its process finds the agent of its job, and tells it of its end. The
// test plays the agent and the program that finds it.
#include "report/attachment.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/format.h"
#include "base/os/fd.h"
#include "base/os/files.h"
#include "base/temporary_folder_for_test.h"
#include "report/reporter.h"

namespace lockstep::report {
namespace {

class ListeningSocket {
 public:
  explicit ListeningSocket(std::filesystem::path path) : path_(std::move(path)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::ranges::copy(path_.native(), address.sun_path);
    EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::listen(listener_.get(), 8), 0);
  }
  void accept() {
    pollfd polled{listener_.get(), POLLIN, 0};
    EXPECT_EQ(::poll(&polled, 1, 30'000), 1);
    peer_ = Fd(::accept(listener_.get(), nullptr, nullptr));
  }
  void send(const std::string& line) { EXPECT_TRUE(write_all(peer_.get(), line + "\n")); }
  // Up to the end of the line, or of the connection.
  std::string next() {
    std::string line;
    pollfd polled{peer_.get(), POLLIN, 0};
    for (char byte = 0; ::poll(&polled, 1, 30'000) == 1 && ::read(peer_.get(), &byte, 1) == 1;) {
      if (byte == '\n') break;
      line += byte;
    }
    return line;
  }
  std::string path() const { return path_.string(); }

 private:
  const std::filesystem::path path_;
  Fd listener_{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  Fd peer_;
};

class AttachmentTest : public ::testing::Test {
 protected:
  // `lockstep agent --attach` prints this.
  void answer(const std::string& line) {
    ASSERT_TRUE(write_file(program_, format("#!/bin/sh\necho '{}'\n", line), 0700));
  }
  // A process that reports one step and ends with this code.
  pid_t start_rank(int code) {
    const pid_t child = ::fork();
    if (child > 0) return child;
    ::unsetenv("LOCKSTEP_REPORT");
    ::setenv("LOCKSTEP_URL", "http://head:7070", 1);
    ::setenv("LOCKSTEP_PROGRAM", program_.c_str(), 1);
    ::setenv("RANK", "0", 1);
    {
      Reporter::from_environment(WithoutAgent::print)->metrics(1, {{"loss", 0.5}});
    }
    std::exit(code);
  }
  static int code_of(pid_t child) {
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  const TemporaryFolder folder_;
  const std::filesystem::path program_ = folder_ / "lockstep";
};

TEST_F(AttachmentTest, ARankNamesItselfReportsAndSendsItsExitCode) {
  ListeningSocket presence(folder_ / "ranks");
  ListeningSocket reports(folder_ / "rank-5");
  answer(format(R"({{"socket":"{}","rank":5,"local_rank":1}})", presence.path()));
  const pid_t rank = start_rank(7);
  presence.accept();
  EXPECT_EQ(presence.next(), R"({"rank":5,"local_rank":1})");
  presence.send(format(R"({{"report":"{}"}})", reports.path()));
  reports.accept();
  EXPECT_NE(reports.next().find(R"("values":{"loss":0.5})"), std::string::npos);
  EXPECT_EQ(presence.next(), R"({"leaving":""})");
  presence.send(R"({"delivered":true})");
  EXPECT_EQ(presence.next(), "\x07");
  EXPECT_EQ(code_of(rank), 7);
}

TEST_F(AttachmentTest, WithoutAnAgentTheProgramGoesOn) {
  answer(R"({"error":"LOCKSTEP_URL: no such host","rank":0})");
  EXPECT_EQ(code_of(start_rank(0)), 0);
}

TEST_F(AttachmentTest, AProgramThatIsTooOldIsNamed) {
  ASSERT_TRUE(write_file(program_, "#!/bin/sh\necho usage >&2\nexit 2\n", 0700));
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv("LOCKSTEP_PROGRAM", program_.c_str(), 1);
    const auto attached = attach_process();
    const auto expected = program_.string() + " starts no agent (`lockstep agent --attach`)";
    std::_Exit(!attached && attached.error().message.starts_with(expected) ? 0 : 1);
  }
  EXPECT_EQ(code_of(child), 0);
}

}  // namespace
}  // namespace lockstep::report
