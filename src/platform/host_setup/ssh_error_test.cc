#include "platform/host_setup/ssh_error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::host_setup {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string told(std::string_view printed) { return connection_error("ann@gpu1", printed).message; }

TEST(SshError, NamesTheNextStepForEachFailureOfAConnection) {
  EXPECT_THAT(told("@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nIt is possible ...\n"
                   "Host key verification failed.\n"),
              HasSubstr("ssh-keygen -R"));
  EXPECT_THAT(told("No ED25519 host key is known for gpu1 and you have requested strict "
                   "checking.\nHost key verification failed.\n"),
              AllOf(HasSubstr("not known here"), HasSubstr("ssh ann@gpu1")));
  EXPECT_THAT(told("ann@gpu1: Permission denied (publickey,password).\n"),
              HasSubstr("ssh-copy-id ann@gpu1"));
  EXPECT_THAT(told("ssh: Could not resolve hostname gpu1: Name or service not known\n"),
              HasSubstr("its name is unknown"));
  EXPECT_THAT(told("ssh: connect to host gpu1 port 22: Connection refused\n"),
              HasSubstr("start sshd"));
  EXPECT_THAT(told("ssh: connect to host gpu1 port 22: No route to host\n"),
              HasSubstr("it is down"));
  EXPECT_THAT(told("ssh: connect to host gpu1 port 22: Connection timed out\n"),
              HasSubstr("does not answer"));
}

TEST(SshError, QuotesWhatItDoesNotKnowAndSaysHowToTryIt) {
  EXPECT_THAT(told("first\r\nkex_exchange_identification: banner exchange\r\n"),
              AllOf(HasSubstr("kex_exchange_identification"), HasSubstr("ssh ann@gpu1 true")));
  EXPECT_THAT(told(""), HasSubstr("no message"));
}

TEST(SshError, IsOneLineWhateverTheHostPrints) {
  EXPECT_EQ(told("\x1b[31mbad\n").find('\x1b'), std::string::npos);
  EXPECT_EQ(script_error(1, "one\ntwo\n").message, "a command on it failed: two");
  EXPECT_EQ(script_error(7, "").message, "a command on it ended with 7");
}

TEST(SshError, OfAScriptNamesAFullDiskAndAnOldCLibrary) {
  EXPECT_EQ(script_error(2, "tar: x: Cannot write: No space left on device\ntar: Exiting").code,
            Code::exhausted);
  EXPECT_THAT(script_error(1, "/lib/libc.so.6: version `GLIBC_2.34' not found").message,
              HasSubstr("glibc 2.34"));
}

}  // namespace
}  // namespace lockstep::host_setup
