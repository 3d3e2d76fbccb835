#include "platform/engine/k8s/client/credentials.h"

#include <chrono>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/format.h"
#include "base/os/files.h"
#include "base/temporary_folder_for_test.h"
#include "platform/engine/k8s/client/credential_plugin.h"
#include "text/json.h"

namespace lockstep::engine {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr auto kVersion = "client.authentication.k8s.io/v1";

class ManualClock : public Clock {
 public:
  Time now() const override { return now_; }
  void pass(Duration duration) { now_ += duration; }

 private:
  Time now_ = *parse_time("2030-01-01T00:00:00Z");
};

class CredentialsOfAccess : public testing::Test {
 protected:
  // A plugin that counts its calls in a file, and prints the count as its token.
  ClusterAccess with_plugin(const std::string& status) {
    const auto script = folder_ / "plugin";
    EXPECT_TRUE(
        write_file(script,
                   format("#!/bin/sh\necho a warning >&2\necho x >>{0}/calls\n"
                          "n=$(wc -l <{0}/calls)\necho \"$KUBERNETES_EXEC_INFO\" >{0}/info\n"
                          "echo '{{\"kind\":\"ExecCredential\",\"apiVersion\":\"{1}\",\"status\":{{"
                          "\"token\":\"'$n'\"{2}}}}}'\n",
                          folder_.path().string(), kVersion, status),
                   0700));
    ClusterAccess access;
    access.server = "https://one";
    access.plugin = {.api_version = kVersion,
                     .command = {script.string()},
                     .environment = {},
                     .install_hint = "install it",
                     .wants_cluster = true};
    return access;
  }

  const TemporaryFolder folder_;
  ManualClock clock_;
};

TEST_F(CredentialsOfAccess, AFileIsReadAgainAfterAMinute) {
  ClusterAccess access;
  access.token.file = folder_ / "token";
  ASSERT_TRUE(write_file(access.token.file, "one\n"));
  Credentials credentials(access, clock_);
  EXPECT_EQ(credentials.current()->token, "one");
  ASSERT_TRUE(write_file(access.token.file, "two\n"));
  clock_.pass(59s);
  EXPECT_EQ(credentials.current()->token, "one");
  clock_.pass(1s);
  EXPECT_EQ(credentials.current()->token, "two");
}

TEST_F(CredentialsOfAccess, APluginIsCalledAgainWhenItsTokenExpiresOrIsRefused) {
  Credentials credentials(with_plugin(",\"expirationTimestamp\":\"2030-01-01T01:00:00Z\""), clock_);
  EXPECT_EQ(credentials.current()->token, "1");
  clock_.pass(59min);
  EXPECT_EQ(credentials.current()->token, "1");
  credentials.forget();
  EXPECT_EQ(credentials.current()->token, "2");
  clock_.pass(1min);
  EXPECT_EQ(credentials.current()->token, "3");
}

TEST_F(CredentialsOfAccess, ATokenWithoutAnEndIsKept) {
  Credentials credentials(with_plugin(""), clock_);
  EXPECT_EQ(credentials.current()->token, "1");
  clock_.pass(240h);
  EXPECT_EQ(credentials.current()->token, "1");
}

TEST_F(CredentialsOfAccess, APluginLearnsTheCluster) {
  ASSERT_TRUE(Credentials(with_plugin(""), clock_).current());
  const auto info = parse_json(*read_file(folder_ / "info"));
  EXPECT_EQ((*info)["spec"]["cluster"]["server"], "https://one");
  EXPECT_EQ((*info)["spec"]["interactive"], false);
}

TEST_F(CredentialsOfAccess, APluginThatFailsIsNamedWithItsErrorsAndNotItsOutput) {
  ClusterAccess access = with_plugin("");
  access.plugin->command = {"sh", "-c", "echo secret; echo log in first >&2; exit 3"};
  const auto secrets = Credentials(access, clock_).current();
  ASSERT_FALSE(secrets);
  EXPECT_THAT(secrets.error().message,
              AllOf(HasSubstr("plugin sh ended with 3: log in first"), Not(HasSubstr("secret"))));
}

TEST_F(CredentialsOfAccess, APluginThatIsMissingComesWithItsHint) {
  ClusterAccess access = with_plugin("");
  access.plugin->command = {"no-such-plugin"};
  const auto secrets = Credentials(access, clock_).current();
  EXPECT_EQ(secrets.error().message, "there is no credential plugin no-such-plugin: install it");
}

TEST(Credential, AnOutputOfAnotherFormIsRefusedWithoutItsText) {
  const std::string head =
      format(R"({{"kind":"ExecCredential","apiVersion":"{}","status":)", kVersion);
  for (const std::string& output :
       {std::string("secret"), head + "{}}", head + R"({"clientCertificateData":"secret"}})",
        head + R"({"token":"secret","expirationTimestamp":"soon"}})",
        std::string(R"({"kind":"Secret","apiVersion":"v1","status":{"token":"secret"}})")}) {
    const auto parsed = parse_credential(output, kVersion);
    ASSERT_FALSE(parsed) << output;
    EXPECT_THAT(parsed.error().message, Not(HasSubstr("secret")));
  }
}

}  // namespace
}  // namespace lockstep::engine
