// This version against the messages of the last one, in tests/golden/messages
// (docs/design/upgrade.md).
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "base/format.h"
#include "base/os/files.h"
#include "platform/api/heartbeat_version.h"
#include "platform/api/messages.h"
#include "platform/api/queue_messages.h"
#include "platform/core/model/command.h"
#include "platform/host/home.h"
#include "platform/host/launch_spec.h"
#include "platform/spool/telemetry_item.h"
#include "text/convert.h"
#include "text/message_change_for_test.h"

namespace lockstep::agent {
namespace {

namespace fs = std::filesystem;

// The names of all enums in messages between agent and daemon.
Json enum_names_of_messages() {
  return {{"node_state", all_names<model::NodeState>()},
          {"rank_state", all_names<model::RankState>()},
          {"activity", all_names<model::Activity>()},
          {"stop_reason", all_names<model::StopReason>()},
          {"command", all_names<model::CommandKind>()},
          {"item", all_names<spool::TelemetryKind>()}};
}

template <class T>
std::vector<std::string> names_in_query(const T& query) {
  std::vector<std::string> names;
  for (const auto& [name, value] : to_query(query)) names.push_back(name);
  return names;
}

// The parameters of each query. `example`: all of them, not only those that a default one has.
template <class T>
Json parameters_of(bool example) {
  return names_in_query(example ? lockstep::example<T>() : T{});
}
Json parameters(bool example) {
  return {{"health", parameters_of<api::HealthQuery>(example)},
          {"heartbeat", parameters_of<api::HeartbeatQuery>(example)},
          {"runs", parameters_of<api::RunsQuery>(example)},
          {"run", parameters_of<api::RunQuery>(example)},
          {"logs", parameters_of<api::LogsQuery>(example)},
          {"flight", parameters_of<api::FlightQuery>(example)},
          {"metrics", parameters_of<api::MetricsQuery>(example)},
          {"queue", parameters_of<api::QueueQuery>(example)}};
}

std::vector<Message> messages() {
  return {
      message<api::Heartbeat>("heartbeat"),     message<api::HeartbeatAnswer>("heartbeat_answer"),
      message<api::Health>("health"),           message<host::LaunchSpec>("launch"),
      message<host::DaemonFile>("daemon_file"), message<spool::TelemetryItem>("item"),
      message<api::SubmitRequest>("submit"),    message<api::RunView>("run")};
}

fs::path folder_of_last_version() {
  auto versions = list_folder(fs::path(LOCKSTEP_GOLDEN) / "messages").value();
  EXPECT_EQ(versions.size(), 1u) << "one last version";
  return versions.back();
}

Json golden(std::string_view name) {
  const fs::path file = folder_of_last_version() / format("{}.json", name);
  return parse_json(read_file(file).value()).value();
}

void write_golden(const fs::path& folder) {
  for (const Message& message : messages())
    ASSERT_TRUE(write_file(folder / format("{}.json", message.name),
                           dump_json(message.example, Indent::two) + "\n", 0644));
  ASSERT_TRUE(write_file(folder / "enums.json",
                         dump_json(enum_names_of_messages(), Indent::two) + "\n", 0644));
  ASSERT_TRUE(
      write_file(folder / "queries.json", dump_json(parameters(true), Indent::two) + "\n", 0644));
}

TEST(MessagesOfTheLastVersion, AreReadWithAllTheirValues) {
  if (const char* folder = std::getenv("LOCKSTEP_WRITE_MESSAGES")) return write_golden(folder);
  for (const Message& message : messages()) {
    const Json before = golden(message.name);
    const auto read = message.read(before);
    ASSERT_TRUE(read) << message.name << ": " << read.error().message;
    EXPECT_EQ(lost_between(before, *read, equal), "") << message.name;
  }
}

TEST(MessagesOfTheLastVersion, HaveNoFieldThatOursLack) {
  for (const Message& message : messages())
    EXPECT_EQ(lost_between(golden(message.name), message.example), "") << message.name;
}

TEST(MessagesOfTheLastVersion, HaveEachParameterOfAQueryThatUsesNothingNew) {
  const Json before = golden("queries"), ours = parameters(false);
  for (const auto& [name, sent] : ours.items())
    for (const Json& parameter : sent)
      EXPECT_NE(std::ranges::find(before[name], parameter), before[name].end())
          << "the last version's daemon rejects " << name << "?" << parameter;
}

TEST(MessagesOfTheLastVersion, UseNoNameOfAnEnumThatIsUnknownHere) {
  const Json ours = enum_names_of_messages(), before = golden("enums");
  for (const auto& [name, words] : before.items())
    for (const Json& word : words)
      EXPECT_NE(std::ranges::find(ours[name], word), ours[name].end()) << name << ": " << word;
}

// A daemon of version 1 rejects fields that it does not know.
TEST(MessagesOfTheLastVersion, AreWhatADaemonOfHeartbeatVersion1Gets) {
  const Json sent = api::heartbeat_json(example<api::Heartbeat>(), 1);
  EXPECT_EQ(lost_between(sent, golden("heartbeat")), "");
  EXPECT_EQ(lost_between(golden("heartbeat"), sent), "");
}

// It rejects kinds that it does not know, and acknowledges by sequence.
TEST(MessagesOfTheLastVersion, TellADaemonOfHeartbeatVersion1NoTelemetry) {
  api::Heartbeat heartbeat;
  heartbeat.items = {{.sequence = 7,
                      .kind = spool::TelemetryKind::telemetry,
                      .rank = 3,
                      .step = 1'790'000'000,
                      .values = {{"cpu/load1", 2}}}};
  const Json sent = api::heartbeat_json(heartbeat, 1)["items"][0];
  EXPECT_EQ(sent["kind"], "metrics");
  EXPECT_EQ(sent["sequence"], 7);
  EXPECT_EQ(sent["step"], 0);
  EXPECT_TRUE(sent["values"].empty());
  EXPECT_EQ(api::heartbeat_json(heartbeat, 2)["items"][0]["kind"], "telemetry");
}

TEST(MessagesOfTheLastVersion, HaveEachFieldOfASubmissionThatUsesNothingNew) {
  EXPECT_EQ(lost_between(without_nulls(to_json(api::SubmitRequest{})), golden("submit")), "");
}

}  // namespace
}  // namespace lockstep::agent
