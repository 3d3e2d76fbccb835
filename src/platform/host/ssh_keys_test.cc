#include "platform/host/ssh_keys.h"

#include <filesystem>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/mutex.h"
#include "base/os/files.h"
#include "base/os/run_program.h"
#include "base/temporary_folder_for_test.h"

namespace lockstep::host {
namespace {

std::string described(const std::filesystem::path& folder, const std::string& certificate) {
  const auto file = folder / "shown-cert.pub";
  EXPECT_TRUE(write_file(file, certificate + "\n"));
  return run_program({"ssh-keygen", "-L", "-f", file.string()}, std::chrono::seconds(10))
      .value()
      .output;
}

TEST(SshKeys, AKeyIsMadeOnceAlsoByCallersAtOnce) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "keys" / "key";
  Mutex mutex;
  std::set<std::string> keys;
  {
    std::vector<std::jthread> callers;
    for (int i = 0; i < 4; ++i)
      callers.emplace_back([&] {
        const auto key = open_ssh_key(file).value();
        const Lock lock(mutex);
        keys.insert(key);
      });
  }
  EXPECT_EQ(keys.size(), 1u);
  EXPECT_TRUE(check_ssh_public_key(*keys.begin()));
  EXPECT_EQ(std::filesystem::status(file).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  EXPECT_EQ(list_folder(file.parent_path()).value().size(), 2u) << "nothing else is left";
}

TEST(SshKeys, ALostPublicKeyIsMadeAgain) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "key";
  const auto before = open_ssh_key(file).value();
  std::filesystem::remove(file.string() + ".pub");
  EXPECT_EQ(open_ssh_key(file).value(), before);
}

TEST(SshKeys, ACertificateOfAUserNamesItsPrincipalAndEnd) {
  const TemporaryFolder folder;
  const auto authority = folder.path() / "authority";
  open_ssh_key(authority).value();
  const auto key = open_ssh_key(folder.path() / "key").value();
  const auto certificate = sign_ssh_key({.authority = authority,
                                         .public_key = key,
                                         .id = "ann demo/1.1",
                                         .principal = "g:demo/1.1",
                                         .lifetime = std::chrono::hours(24)})
                               .value();
  const std::string shown = described(folder.path(), certificate);
  EXPECT_NE(shown.find("user certificate"), std::string::npos) << shown;
  EXPECT_NE(shown.find("Key ID: \"ann demo/1.1\""), std::string::npos) << shown;
  EXPECT_NE(shown.find("g:demo/1.1"), std::string::npos) << shown;
  EXPECT_NE(shown.find("permit-pty"), std::string::npos) << shown;
  EXPECT_EQ(shown.find("permit-X11"), std::string::npos) << shown;
  EXPECT_EQ(shown.find("forever"), std::string::npos) << shown;
}

TEST(SshKeys, ACertificateOfAHostIsNoneOfAUser) {
  const TemporaryFolder folder;
  const auto authority = folder.path() / "authority";
  const auto key = open_ssh_key(authority).value();
  const auto certificate = sign_ssh_key({.authority = authority,
                                         .public_key = key,
                                         .id = "node",
                                         .principal = "0.1.1.demo",
                                         .is_host = true,
                                         .lifetime = std::chrono::hours(1)})
                               .value();
  EXPECT_NE(described(folder.path(), certificate).find("host certificate"), std::string::npos);
}

TEST(SshKeys, OnlyAKeyInOneLineIsSigned) {
  for (const char* key : {"", "ssh-ed25519 ", "ssh-rsa AAAA", "ssh-ed25519 AAAA\nssh-ed25519 BBBB",
                          "ssh-ed25519 AAAA comment", "-oProxyCommand=id"})
    EXPECT_EQ(check_ssh_public_key(key).error().code, Code::invalid) << key;
}

}  // namespace
}  // namespace lockstep::host
