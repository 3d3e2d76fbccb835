#include "comm/collective/start/pmi_client.h"

#include <array>
#include <chrono>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/os/fd.h"

namespace lockstep::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

// A launcher that answers each line by the text that the test gives for it, or closes.
class PlayedLauncher {
 public:
  using Answers = std::map<std::string, std::string>;

  explicit PlayedLauncher(Answers answers) : answers_(std::move(answers)) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
    own_ = Fd(ends[0]);
    rank_ = Fd(ends[1]);
    thread_ = std::thread([this] { serve(); });
  }
  PlayedLauncher(const PlayedLauncher&) = delete;
  PlayedLauncher& operator=(const PlayedLauncher&) = delete;
  ~PlayedLauncher() {
    rank_ = Fd();
    thread_.join();
  }

  int fd() const { return rank_.get(); }

 private:
  void serve() {
    std::string line;
    char next = 0;
    while (::read(own_.get(), &next, 1) == 1) {
      if (next != '\n') {
        line += next;
        continue;
      }
      const auto found = answers_.find(line);
      if (found == answers_.end()) break;
      line.clear();
      for (const char one : found->second)  // in single bytes, as a slow network would
        if (::send(own_.get(), &one, 1, MSG_NOSIGNAL) != 1) return;
    }
    own_ = Fd();
  }

  Answers answers_;
  Fd own_, rank_;
  std::thread thread_;
};

const PlayedLauncher::Answers kUsual{
    {"cmd=init pmi_version=1 pmi_subversion=1",
     "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n"},
    {"cmd=get_my_kvsname", "cmd=my_kvsname kvsname=7.0\n"},
    {"cmd=put kvsname=7.0 key=place value=10.0.0.1:4000/ab", "cmd=put_result rc=0 msg=success\n"},
    {"cmd=barrier_in", "cmd=barrier_out\n"},
    {"cmd=get kvsname=7.0 key=place", "cmd=get_result rc=0 msg=success value=10.0.0.1:4000/ab\n"},
};

Deadline soon() { return Deadline::after(seconds(10)); }

// The error of the exchange with one answer changed.
std::string refusal(const std::string& line, const std::string& answer,
                    Deadline deadline = soon()) {
  auto answers = kUsual;
  answers[line] = answer;
  PlayedLauncher launcher(std::move(answers));
  auto client = PmiClient::open(launcher.fd(), deadline);
  if (!client) return client.error().message;
  if (auto done = client->put("place", "10.0.0.1:4000/ab", deadline); !done)
    return done.error().message;
  if (auto done = client->barrier(deadline); !done) return done.error().message;
  auto got = client->get("place", deadline);
  return got ? "" : got.error().message;
}

TEST(PmiClient, ARankGetsWhatAnotherHasPut) {
  PlayedLauncher launcher(kUsual);
  auto client = PmiClient::open(launcher.fd(), soon());
  ASSERT_TRUE(client) << client.error().message;
  EXPECT_TRUE(client->put("place", "10.0.0.1:4000/ab", soon()));
  EXPECT_TRUE(client->barrier(soon()));
  EXPECT_EQ(client->get("place", soon()).value_or(""), "10.0.0.1:4000/ab");
}

TEST(PmiClient, ARefusalIsAnErrorWithItsCode) {
  EXPECT_THAT(refusal("cmd=init pmi_version=1 pmi_subversion=1", "cmd=response_to_init rc=-1\n"),
              HasSubstr("code -1"));
  EXPECT_THAT(refusal("cmd=get kvsname=7.0 key=place", "cmd=get_result rc=-1 msg=not_found\n"),
              HasSubstr("code -1"));
}

TEST(PmiClient, AnAnswerThatIsNoPmiIsNamed) {
  EXPECT_THAT(refusal("cmd=get_my_kvsname", "HTTP/1.1 400 Bad Request\n"), HasSubstr("no PMI"));
  EXPECT_THAT(refusal("cmd=get_my_kvsname", "cmd=my_kvsname\n"), HasSubstr("no name"));
  EXPECT_THAT(refusal("cmd=get kvsname=7.0 key=place", "cmd=get_result rc=0\n"),
              HasSubstr("no value"));
  EXPECT_THAT(refusal("cmd=barrier_in", std::string(5000, 'x')), HasSubstr("without an end"));
}

TEST(PmiClient, ALauncherThatClosesOrIsSilentEndsTheWait) {
  PlayedLauncher gone({});
  EXPECT_THAT(PmiClient::open(gone.fd(), soon()).error().message, HasSubstr("closed it"));
  EXPECT_THAT(refusal("cmd=barrier_in", "", Deadline::after(milliseconds(200))),
              HasSubstr("PMI_FD"));
}

TEST(PmiClient, AnErrorDoesNotQuoteTheSecret) {
  EXPECT_THAT(refusal("cmd=put kvsname=7.0 key=place value=10.0.0.1:4000/ab",
                      "cmd=put_result rc=-1 msg=value_10.0.0.1:4000/ab\n"),
              ::testing::Not(HasSubstr("4000/ab")));
}

}  // namespace
}  // namespace lockstep::comm
