// The agent's parts, each on its own.
#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/clock.h"
#include "base/os/fd.h"
#include "base/os/files.h"
#include "base/temporary_folder_for_test.h"
#include "platform/agent/ranks/rank_output.h"
#include "platform/agent/ranks/report_socket.h"
#include "platform/agent/ranks/socket_folder.h"
#include "platform/host/node_files.h"

namespace lockstep::agent {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class Parts : public testing::Test {
 protected:
  RankOutput output() {
    return *RankOutput::open(folder_ / "rank-0.log",
                             [this](std::string text) { texts_.push_back(std::move(text)); });
  }

  const TemporaryFolder folder_;
  std::vector<std::string> texts_;
};

Fd connect_to(const std::filesystem::path& path) {
  Fd speaker(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::ranges::copy(path.native(), address.sun_path);
  EXPECT_EQ(::connect(speaker.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  return speaker;
}

// --- Output ---

TEST_F(Parts, LinesAreGivenWholeHoweverTheyArrive) {
  RankOutput lines = output();
  for (std::string_view bytes : {"on", "e\ntw", "o\n", "\n", "three"}) lines.add_bytes(bytes);
  lines.flush();
  EXPECT_EQ(texts_, std::vector<std::string>{"one\ntwo\n"});
  lines.finish();
  EXPECT_EQ(texts_.back(), "three");
  EXPECT_EQ(*read_file(folder_ / "rank-0.log"), "one\ntwo\n\nthree");
}

TEST_F(Parts, ALongLineIsCutAndMarkedAndTheFileHasAllOfIt) {
  RankOutput lines = output();
  const std::string euros = [] {  // three bytes each, so that 16 KiB cut one of them
    std::string all;
    for (int i = 0; i < 10'000; ++i) all += "\u20ac";
    return all;
  }();
  lines.add_bytes(euros);
  lines.add_bytes("\nnext\n");
  lines.finish();
  ASSERT_EQ(texts_.size(), 1u);
  EXPECT_NE(texts_[0].find(" [cut: 13617 bytes more in rank-0.log]\nnext"), std::string::npos);
  EXPECT_EQ(texts_[0].find(" [cut"), 16'383u);
  EXPECT_EQ(read_file(folder_ / "rank-0.log")->size(), 30'006u);
}

TEST_F(Parts, WhatACarriageReturnOverwroteIsLeftOut) {
  RankOutput lines = output();
  for (std::string_view bytes : {"10%\r", "50%\r100%\n", "dos\r", "\nend\r\n"})
    lines.add_bytes(bytes);
  lines.finish();
  EXPECT_EQ(texts_, std::vector<std::string>{"100%\ndos\nend"});
}

// tqdm begins each state of a bar with a carriage return, and ends the last one with a line end.
TEST_F(Parts, AProgressBarIsOneLineWithItsLastState) {
  RankOutput lines = output();
  lines.add_bytes("epoch 1\n");
  for (int i = 0; i <= 100; ++i) {
    lines.add_bytes(format("\r{:3}%|{}{}| {}/100 [00:0{}<00:00, 9.9it/s]", i,
                           std::string(static_cast<std::size_t>(i / 10), '#'),
                           std::string(static_cast<std::size_t>(10 - i / 10), ' '), i, i / 20));
    lines.flush();
  }
  EXPECT_EQ(texts_, std::vector<std::string>{"epoch 1"}) << "no update is a line";
  lines.add_bytes("\nepoch 2\n");
  lines.finish();
  EXPECT_EQ(texts_.back(), "100%|##########| 100/100 [00:05<00:00, 9.9it/s]\nepoch 2");
}

TEST_F(Parts, ALineWithoutAnEndIsShownAsATerminalShowsIt) {
  RankOutput lines = output();
  EXPECT_EQ(lines.unfinished_line(), "");
  lines.add_bytes("10%\r20%");
  EXPECT_EQ(lines.unfinished_line(), "20%");
  lines.add_bytes("\r30%\r");
  EXPECT_EQ(lines.unfinished_line(), "30%") << "nothing has overwritten it yet";
  lines.add_bytes("   \r");
  EXPECT_EQ(lines.unfinished_line(), "") << "a bar that was wiped away";
  lines.add_bytes("100%\nnext");
  EXPECT_EQ(lines.unfinished_line(), "next");
  lines.add_bytes(" one\n");
  EXPECT_EQ(lines.unfinished_line(), "");
  lines.add_bytes(std::string(5000, 'x'));
  EXPECT_EQ(lines.unfinished_line().size(), 1024u);
}

TEST_F(Parts, TheLastLinesOfAFileBeginWithAWholeLineAndAreBounded) {
  EXPECT_EQ(last_lines(folder_ / "rank-0.log"), "");
  RankOutput lines = output();
  lines.add_bytes("one\ntwo\n");
  EXPECT_EQ(last_lines(folder_ / "rank-0.log"), "one\ntwo");
  for (int i = 0; i < 1000; ++i) lines.add_bytes(format("line {}\n", i));
  const std::string end = last_lines(folder_ / "rank-0.log");
  EXPECT_TRUE(end.starts_with("line ")) << end.substr(0, 20);
  EXPECT_TRUE(end.ends_with("\nline 999"));
  EXPECT_LE(end.size(), 4096U);
}

TEST_F(Parts, ALineReportsThoseThatCameTooFastAndTheNewestAreThere) {
  RankOutput lines = output();
  constexpr int kLines = 60'000;  // of 1,000 bytes: more than may come at once
  for (int i = 0; i < kLines; ++i) lines.add_bytes(format("{:0999}\n", i));
  lines.flush();
  std::string all;
  for (const std::string& text : texts_) all += text + '\n';
  EXPECT_LE(std::ssize(all), kLineBurst.count() + kTextMax.count());
  EXPECT_TRUE(all.starts_with(format("{:0999}\n{:0999}\n", 0, 1)));
  EXPECT_TRUE(all.ends_with(format("\n{:0999}\n", kLines - 1)));
  const auto note = all.find("[lockstep: ");
  ASSERT_NE(note, std::string::npos);
  EXPECT_THAT(all.substr(note), HasSubstr(" lines came too fast and are only in rank-0.log]\n"));
  const auto left_out = std::stoi(all.substr(note + 11));
  EXPECT_EQ(std::ranges::count(all, '\n') - 1 + left_out, kLines);
  EXPECT_EQ(read_file(folder_ / "rank-0.log")->size(), 1000u * kLines);
}

TEST_F(Parts, LinesArePassedOnAgainAfterATimeInWhichFewCame) {
  RankOutput lines = output();
  const std::string line = std::string(1023, 'x') + '\n';
  for (int i = 0; i <= kLineBurst.count() / 1024; ++i) lines.add_bytes(line);
  lines.flush();
  texts_.clear();
  lines.add_bytes("one\n");
  lines.allow_lines(std::chrono::milliseconds(1));
  lines.add_bytes("two\nthree\n");
  lines.flush();
  EXPECT_EQ(texts_, std::vector<std::string>{"one\ntwo\nthree"});
}

TEST_F(Parts, ARanksFileIsCutAtItsLimitAndOneOlderIsKept) {
  RankOutput lines = *RankOutput::open(folder_ / "rank-0.log", [](const std::string&) {}, 1_KiB);
  for (int i = 0; i < 100; ++i) lines.add_bytes(format("{:03} {}\n", i, std::string(60, 'x')));
  const auto newest = *read_file(folder_ / "rank-0.log");
  const auto older = *read_file(folder_ / "rank-0.log.1");
  EXPECT_TRUE(newest.starts_with(
      "[lockstep: what came before is in rank-0.log.1; what came before that is gone]\n"));
  EXPECT_LT(newest.size(), 1100u);
  EXPECT_LT(older.size(), 1100u);
  const auto first_new = std::stoi(newest.substr(newest.find('\n') + 1, 3));
  EXPECT_TRUE(older.ends_with(format("{:03} {}\n", first_new - 1, std::string(60, 'x'))));
  EXPECT_TRUE(newest.ends_with(format("099 {}\n", std::string(60, 'x'))));
}

TEST_F(Parts, WhatAFullDiskDoesNotTakeOfARanksFileIsSaidThereOnceThereIsSpace) {
  ::signal(SIGXFSZ, SIG_IGN);
  RankOutput lines = output();
  lines.add_bytes("one\n");
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit full{6, before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &full);
  lines.add_bytes("two, lost\n");
  lines.add_bytes("three\n");
  ::setrlimit(RLIMIT_FSIZE, &before);
  lines.add_bytes("four\n");
  lines.finish();
  EXPECT_THAT(*read_file(folder_ / "rank-0.log"),
              AllOf(StartsWith("one\n[lockstep: 16 bytes"), EndsWith("]\nfour\n")));
  EXPECT_EQ(texts_, std::vector<std::string>{"one\ntwo, lost\nthree\nfour"});
}

// --- The sockets' folder ---

class Sockets : public Parts {
 protected:
  Sockets() { ::setenv("XDG_RUNTIME_DIR", folder_.path().c_str(), 1); }
  ~Sockets() override { ::unsetenv("XDG_RUNTIME_DIR"); }
  std::filesystem::path expected() const { return host::socket_folders("a-token").front(); }
};

TEST_F(Sockets, TheFolderHasTheNameThatFollowsFromTheTokenAndGoesWithItsOwner) {
  {
    auto sockets = *SocketFolder::create("a-token");
    EXPECT_EQ(sockets.path(), expected());
    EXPECT_EQ(std::filesystem::status(expected()).permissions(), std::filesystem::perms(0700));
    ASSERT_TRUE(write_file(expected() / "rank-0", ""));
  }
  EXPECT_FALSE(std::filesystem::exists(expected()));
}

TEST_F(Sockets, WhatAKilledAgentLeftIsEmptiedAndUsedAgain) {
  std::filesystem::create_directory(expected());
  ::chmod(expected().c_str(), 0755);
  ASSERT_TRUE(write_file(expected() / "rank-0", ""));
  auto sockets = *SocketFolder::create("a-token");
  EXPECT_EQ(sockets.path(), expected());
  EXPECT_TRUE(std::filesystem::is_empty(expected()));
  EXPECT_EQ(std::filesystem::status(expected()).permissions(), std::filesystem::perms(0700));
}

TEST_F(Sockets, AFolderOfSomebodyElsesIsNeitherUsedNorTouched) {
  const auto trap = folder_ / "trap";
  std::filesystem::create_directory(trap);
  ASSERT_TRUE(write_file(trap / "precious", ""));
  std::filesystem::create_directory_symlink(trap, expected());
  {
    auto sockets = *SocketFolder::create("a-token");
    EXPECT_NE(sockets.path(), expected());
    EXPECT_TRUE(std::filesystem::is_directory(sockets.path()));
  }
  EXPECT_TRUE(std::filesystem::exists(trap / "precious"));
}

// --- Report lines ---

TEST(ReportLine, ValuesMayBeNotANumberOrInfinite) {
  auto said = parse_report(
      R"({"kind":"metrics","step":12,"time_us":1790000000000001,"values":{"a":"NaN","b":"-Infinity","c":2}})",
      3);
  ASSERT_TRUE(said) << said.error().message;
  auto* item = std::get_if<spool::TelemetryItem>(&*said);
  ASSERT_TRUE(item);
  EXPECT_EQ(item->rank, 3);
  EXPECT_EQ(item->step, 12);
  EXPECT_EQ(item->time.time_since_epoch().count(), 1'790'000'000'000'001);
  EXPECT_TRUE(std::isnan(item->values["a"]));
  EXPECT_TRUE(std::isinf(item->values["b"]));
  EXPECT_EQ(item->values["c"], 2);
}

TEST(ReportLine, BrokenOnesAreRefused) {
  for (std::string_view line :
       {"", "{", "[]", R"({"kind":"dance"})", R"({"kind":"log"})", R"({"step":1})",
        R"({"kind":"metrics","step":"x"})", R"({"kind":"progress","time_us":-5})",
        R"({"kind":"progress","time_us":9e18})", R"({"kind":"event","step":1})",
        R"({"kind":"fault","text":"x"})", R"({"kind":"fault","fault":"bad luck"})"})
    EXPECT_FALSE(parse_report(line, 0)) << line;
}

TEST(ReportLine, AFaultNamesTheRankAtFault) {
  const auto said = parse_report(
      R"({"kind":"fault","fault":"connection_lost","rank":2,"text":"lost rank 2"})", 0);
  ASSERT_TRUE(said) << said.error().message;
  EXPECT_EQ(std::get<FaultReport>(*said),
            (FaultReport{report::Fault::connection_lost, 2, "lost rank 2"}));
}

TEST_F(Parts, ASpeakerThatEndsInTheMiddleOfALineHurtsNobody) {
  std::vector<spool::TelemetryItem> heard;
  auto reports = *ReportSocket::open(folder_ / "r", 0, [&](const RankReport& said) {
    heard.push_back(std::get<spool::TelemetryItem>(said));
  });
  for (std::string_view words :
       {R"({"kind":"metr)", "{\"kind\":\"progress\",\"step\":1,\"steps\":2}\nnonsense\n"}) {
    Fd speaker = connect_to(folder_ / "r");
    ASSERT_TRUE(write_all(speaker.get(), words));
    speaker.reset();
    reports.read();
  }
  ASSERT_EQ(heard.size(), 1u);
  EXPECT_EQ(heard[0].steps, 2);
  EXPECT_EQ(reports.broken_lines(), 2);
  EXPECT_TRUE(reports.has_no_connections());
}

TEST_F(Parts, WithoutAFreeFileDescriptorTheListenerIsLeftAloneForAWhile) {
  std::vector<spool::TelemetryItem> heard;
  auto reports = *ReportSocket::open(folder_ / "r", 0, [&](const RankReport& said) {
    heard.push_back(std::get<spool::TelemetryItem>(said));
  });
  const Fd speaker = connect_to(folder_ / "r");
  ASSERT_TRUE(write_all(speaker.get(), "{\"kind\":\"progress\",\"step\":1,\"steps\":2}\n"));
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const rlimit none{3, before.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &none);
  reports.read();
  const auto polled = reports.fds();
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_TRUE(polled.empty());
  for (auto bound = Deadline::after(std::chrono::seconds(5)); heard.empty() && !bound.passed();)
    if (!reports.fds().empty()) reports.read();
  EXPECT_EQ(heard.size(), 1u);
}

TEST_F(Parts, ASocketsPathThatIsTooLongIsRefused) {
  EXPECT_FALSE(ReportSocket::open(folder_ / std::string(120, 'p'), 0, [](auto) {}));
}

}  // namespace
}  // namespace lockstep::agent
