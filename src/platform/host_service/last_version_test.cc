// Messages between host services and the daemon, against those of the last version in
// tests/golden/host_messages (docs/design/upgrade.md). Before the first release that has host
// services, the files are those of this version.
#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>

#include "base/os/files.h"
#include "platform/api/host_service_messages.h"
#include "text/message_change_for_test.h"

namespace lockstep {

template <>
map::Island example<map::Island>() {
  return {.between_devices = example<map::LinkSpeed>(),
          .devices = {{map::DeviceKind::gpu, 1, 80_GiB, true, "GPU-6ca3"}}};
}

}  // namespace lockstep

namespace lockstep::host_service {
namespace {

namespace fs = std::filesystem;

std::vector<Message> host_messages() {
  return {
      message<api::ServiceReport>("report"),       message<api::ServiceOrders>("orders"),
      message<api::JoinRequest>("join"),           message<api::JoinAnswer>("join_answer"),
      message<api::CollectRequest>("collect"),     message<api::CollectAnswer>("collect_answer"),
      message<api::RunFolders>("folders"),         message<api::HostFileAnswers>("files"),
      message<api::HostFilesTaken>("files_answer")};
}

Json names_of_host_enums() {
  return {{"phase", all_names<model::NodePhase>()},
          {"blame", all_names<model::EndBlame>()},
          {"problem", all_names<api::HostProblemKind>()},
          {"kept", all_names<api::KeptFiles>()},
          {"device", all_names<map::DeviceKind>()}};
}

fs::path folder_of_host_messages() {
  const auto versions = list_folder(fs::path(LOCKSTEP_GOLDEN) / "host_messages").value();
  EXPECT_EQ(versions.size(), 1u) << "one last version";
  return versions.back();
}

Json host_golden(const std::string& name) {
  return parse_json(read_file(folder_of_host_messages() / (name + ".json")).value()).value();
}

void write_host_golden(const fs::path& folder) {
  const auto write = [&](const std::string& name, const Json& json) {
    ASSERT_TRUE(write_file(folder / (name + ".json"), dump_json(json, Indent::two) + "\n", 0644));
  };
  for (const Message& message : host_messages()) write(message.name, message.example);
  write("enums", names_of_host_enums());
}

TEST(HostMessagesOfTheLastVersion, AreReadWithAllTheirValues) {
  if (const char* folder = std::getenv("LOCKSTEP_WRITE_MESSAGES")) return write_host_golden(folder);
  for (const Message& message : host_messages()) {
    const Json before = host_golden(message.name);
    const auto read = message.read(before);
    ASSERT_TRUE(read) << message.name << ": " << read.error().message;
    EXPECT_EQ(lost_between(before, *read, equal), "") << message.name;
  }
}

TEST(HostMessagesOfTheLastVersion, HaveNoFieldThatOursLack) {
  for (const Message& message : host_messages())
    EXPECT_EQ(lost_between(host_golden(message.name), message.example), "") << message.name;
}

TEST(HostMessagesOfTheLastVersion, UseNoNameOfAnEnumThatIsUnknownHere) {
  const Json ours = names_of_host_enums(), before = host_golden("enums");
  for (const auto& [name, words] : before.items())
    for (const Json& word : words)
      EXPECT_NE(std::ranges::find(ours[name], word), ours[name].end()) << name << ": " << word;
}

// A new name of an enum must not reach a reader that does not know it; a new field may.
TEST(HostMessagesOfTheLastVersion, KnowEachNameOfAnEnumThatOursUse) {
  const Json ours = names_of_host_enums(), before = host_golden("enums");
  for (const auto& [name, words] : ours.items())
    for (const Json& word : words)
      EXPECT_NE(std::ranges::find(before[name], word), before[name].end())
          << name << ": send " << word << " only to a reader that knows it";
}

}  // namespace
}  // namespace lockstep::host_service
