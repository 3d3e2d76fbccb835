#include <gtest/gtest.h>

#include "base/os/environment.h"
#include "base/os/files.h"
#include "base/os/run_program.h"
#include "base/temporary_folder_for_test.h"
#include "platform/agent/shell/shell_session.h"
#include "platform/agent/shell/sshd_files.h"
#include "platform/host/ssh_keys.h"

namespace lockstep::agent {
namespace {

TEST(ShellSession, HasTheVariablesOfTheRanksWithoutThoseThatMakeARank) {
  const ProcessSpec rank{.command = {"python", "train.py"},
                         .environment = {{"PATH", "/venv/bin:/bin"},
                                         {"RANK", "0"},
                                         {"MASTER_PORT", "1"},
                                         {"LOCKSTEP_REPORT", "/r"},
                                         {"LOCKSTEP_RUN", "demo/1"},
                                         {"HF_TOKEN", "secret"},
                                         {"ODD", "\xff"}},
                         .folder = "/work"};
  const ShellSession session = shell_session(rank, {"apptainer", "exec", "image.sif"});
  EXPECT_EQ(session.folder, "/work");
  EXPECT_EQ(session.prefix.front(), "apptainer");
  EXPECT_EQ(session.environment,
            (std::map<std::string, std::string>{
                {"PATH", "/venv/bin:/bin"}, {"LOCKSTEP_RUN", "demo/1"}, {"HF_TOKEN", "secret"}}));
}

// sshd itself reads the file, with names that its syntax could take for something else.
TEST(SshdFiles, SshdAcceptsTheConfiguration) {
  const TemporaryFolder folder;
  const SshdFiles files{folder / "a folder's 100%d"};
  const std::string key = [&] { return host::open_ssh_key(files.host_key()).value(); }();
  const auto certificate = host::sign_ssh_key({.authority = files.host_key(),
                                               .public_key = key,
                                               .id = "n",
                                               .principal = "p",
                                               .is_host = true,
                                               .lifetime = std::chrono::hours(1)})
                               .value();
  ASSERT_TRUE(write_sshd_files(files, {certificate, key, "g:demo/1.1"}, "/opt/lock step/lockstep"));
  ASSERT_TRUE(make_sshd_folder());
  const auto shown = run_program({"/usr/sbin/sshd", "-T", "-f", files.config().string(), "-C",
                                  "user=root,host=h,addr=127.0.0.1"},
                                 std::chrono::seconds(10))
                         .value();
  EXPECT_EQ(shown.status, 0) << shown.output;
  for (const char* line :
       {"passwordauthentication no", "kbdinteractiveauthentication no", "authorizedkeysfile none",
        "usepam no", "authenticationmethods publickey",
        "forcecommand exec '/opt/lock step/lockstep' shell-session"})
    EXPECT_NE(shown.output.find(line), std::string::npos) << line << "\n" << shown.output;
}

}  // namespace
}  // namespace lockstep::agent
