// The agent's parts, each on its own.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "platform/agent/output.h"
#include "platform/agent/report_socket.h"
#include "platform/agent/reserved_port.h"
#include "platform/agent/spawn.h"
#include "platform/agent/spool.h"

namespace lockstep {
namespace {

class Parts : public testing::Test {
 protected:
  Parts() {
    std::string name = (std::filesystem::temp_directory_path() / "agent-parts-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~Parts() override { std::filesystem::remove_all(folder_); }

  Output output() {
    return *Output::open(folder_ / "rank-0.log", [this](std::string text, int lines) {
      texts_.push_back(std::move(text));
      lines_ += lines;
    });
  }
  Spool spool(Spool::Limits limits = {}) { return *Spool::open(folder_ / "spool", limits); }

  std::filesystem::path folder_;
  std::vector<std::string> texts_;
  int lines_ = 0;
};

api::SpoolItem log_item(int rank, std::string text) {
  api::SpoolItem item;
  item.kind = "log";
  item.rank = rank;
  item.text = std::move(text);
  return item;
}

api::SpoolItem metrics_item(std::int64_t step) {
  api::SpoolItem item;
  item.kind = "metrics";
  item.step = step;
  item.values = {{"loss", 1.5}};
  return item;
}

// --- Output ---

TEST_F(Parts, LinesAreGivenWholeHoweverTheyArrive) {
  Output lines = output();
  for (std::string_view bytes : {"on", "e\ntw", "o\n", "\n", "three"}) lines.take(bytes);
  lines.flush();
  EXPECT_EQ(texts_, std::vector<std::string>{"one\ntwo\n"});
  lines.finish();
  EXPECT_EQ(texts_.back(), "three");
  EXPECT_EQ(lines_, 4);
  EXPECT_EQ(*read_file(folder_ / "rank-0.log"), "one\ntwo\n\nthree");
}

TEST_F(Parts, ALongLineIsCutAndMarkedAndTheFileHasAllOfIt) {
  Output lines = output();
  const std::string euros = [] {  // three bytes each, so that 16 KiB cut one of them
    std::string all;
    for (int i = 0; i < 10'000; ++i) all += "\u20ac";
    return all;
  }();
  lines.take(euros);
  lines.take("\nnext\n");
  lines.finish();
  ASSERT_EQ(texts_.size(), 1u);
  EXPECT_NE(texts_[0].find(" [cut: 13617 bytes more in rank-0.log]\nnext"), std::string::npos);
  EXPECT_EQ(texts_[0].find(" [cut"), 16'383u);
  EXPECT_EQ(read_file(folder_ / "rank-0.log")->size(), 30'006u);
}

TEST_F(Parts, WhatACarriageReturnOverwroteIsLeftOut) {
  Output lines = output();
  for (std::string_view bytes : {"10%\r", "50%\r100%\n", "dos\r", "\nend\r\n"}) lines.take(bytes);
  lines.finish();
  EXPECT_EQ(texts_, std::vector<std::string>{"100%\ndos\nend"});
}

// --- Spool ---

TEST_F(Parts, ItemsAreGivenInOrderUntilTheyAreAcknowledged) {
  Spool items = spool();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(items.add(metrics_item(i)));
  EXPECT_EQ(items.batch(1_B)->size(), 1u);
  auto all = *items.batch(1_MiB);
  ASSERT_EQ(all.size(), 3u);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(all[static_cast<std::size_t>(i)].sequence, i + 1);
    EXPECT_EQ(all[static_cast<std::size_t>(i)].step, i);
  }
  ASSERT_TRUE(items.acknowledge(2));
  EXPECT_EQ(items.batch(1_MiB)->front().sequence, 3);
  ASSERT_TRUE(items.acknowledge(3));
  EXPECT_TRUE(items.empty());
  EXPECT_EQ(std::filesystem::file_size(folder_ / "spool"), 0u);
}

TEST_F(Parts, TheOldestLinesGiveWayAreCountedAndLeaveNoGapInTheNumbers) {
  Spool items = spool({.logs = 64_KiB, .garbage = 16_KiB});
  ASSERT_TRUE(items.add(metrics_item(0)));
  const int total = 1000;
  for (int i = 0; i < total; ++i)
    ASSERT_TRUE(items.add(log_item(1, format("{} {}", i, std::string(200, 'x'))), 1));
  ASSERT_TRUE(items.add(metrics_item(1)));

  auto all = *items.batch(10_MiB);
  ASSERT_GE(all.size(), 4u);
  EXPECT_EQ(all.front().kind, "metrics");
  EXPECT_EQ(all.back().kind, "metrics");
  const int kept = static_cast<int>(all.size()) - 3;
  EXPECT_EQ(all[1].text, format("[lockstep: {} lines were dropped here while the daemon was away; "
                                "rank-1.log has them]",
                                total - kept));
  EXPECT_TRUE(all[2].text.starts_with(format("{} x", total - kept)));
  for (std::size_t i = 0; i < all.size(); ++i)
    EXPECT_EQ(all[i].sequence, static_cast<std::int64_t>(i + 1));
  EXPECT_LT(std::filesystem::file_size(folder_ / "spool"), 200'000u);
}

TEST_F(Parts, WhatWasSentIsNotDropped) {
  Spool items = spool({.logs = 8_KiB, .garbage = 1_KiB});
  ASSERT_TRUE(items.add(log_item(0, "first"), 1));
  ASSERT_EQ(items.batch(1_KiB)->size(), 1u);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(items.add(log_item(0, std::string(500, 'y')), 1));
  EXPECT_EQ(items.batch(1_KiB)->front().text, "first");
}

TEST_F(Parts, BytesThatAreNotUtf8AreReplaced) {
  Spool items = spool();
  ASSERT_TRUE(items.add(log_item(0, std::string("a\xff\0b", 4)), 1));
  EXPECT_EQ(items.batch(1_KiB)->front().text, std::string("a\xef\xbf\xbd\0b", 6));
}

// --- Report lines ---

TEST(ReportLine, ValuesMayBeNotANumberOrInfinite) {
  auto item = parse_report(
      R"({"kind":"metrics","step":12,"time_us":1790000000000001,"values":{"a":"NaN","b":"-Infinity","c":2}})",
      3);
  ASSERT_TRUE(item) << item.error().message;
  EXPECT_EQ(item->rank, 3);
  EXPECT_EQ(item->step, 12);
  EXPECT_EQ(item->time.time_since_epoch().count(), 1'790'000'000'000'001);
  EXPECT_TRUE(std::isnan(item->values["a"]));
  EXPECT_TRUE(std::isinf(item->values["b"]));
  EXPECT_EQ(item->values["c"], 2);
}

TEST(ReportLine, BrokenOnesAreRefused) {
  for (std::string_view line :
       {"", "{", "[]", R"({"kind":"dance"})", R"({"step":1})", R"({"kind":"metrics","step":"x"})",
        R"({"kind":"progress","time_us":-5})", R"({"kind":"progress","time_us":9e18})"})
    EXPECT_FALSE(parse_report(line, 0)) << line;
}

TEST_F(Parts, ASpeakerThatEndsInTheMiddleOfALineHurtsNobody) {
  std::vector<api::SpoolItem> heard;
  auto reports =
      *ReportSocket::open(folder_ / "r", 0, [&](api::SpoolItem item) { heard.push_back(item); });
  for (std::string_view words :
       {R"({"kind":"metr)", "{\"kind\":\"progress\",\"step\":1,\"steps\":2}\nnonsense\n"}) {
    Fd speaker(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::ranges::copy((folder_ / "r").native(), address.sun_path);
    ASSERT_EQ(::connect(speaker.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    ASSERT_TRUE(write_all(speaker.get(), words));
    speaker.reset();
    reports.read();
  }
  ASSERT_EQ(heard.size(), 1u);
  EXPECT_EQ(heard[0].steps, 2);
  EXPECT_EQ(reports.broken_lines(), 2);
  EXPECT_TRUE(reports.idle());
}

TEST_F(Parts, ASocketsPathThatIsTooLongIsRefused) {
  EXPECT_FALSE(ReportSocket::open(folder_ / std::string(120, 'p'), 0, [](auto) {}));
}

// --- The port ---

Fd listener(int family, int port, bool reuse) {
  Fd socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  int on = reuse ? 1 : 0;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in6 address{};
  address.sin6_family = static_cast<sa_family_t>(family);
  address.sin6_port = htons(static_cast<std::uint16_t>(port));
  socklen_t size = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  if (::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(socket.get(), 8) != 0)
    return Fd();
  return socket;
}

TEST(Spawn, AProgramFindsNothingOpenThatTheAgentHas) {
  const Fd leaky(::open("/dev/null", O_RDONLY));  // not close-on-exec, as libraries open theirs
  auto child = spawn({.command = {"sh", "-c", "exec ls /proc/self/fd"},
                      .environment = {{"PATH", "/usr/bin:/bin"}},
                      .folder = "/"})
                   .value();
  ::fcntl(child.output.get(), F_SETFL, 0);
  std::string listed;
  char buffer[256];
  for (ssize_t n = 0; (n = ::read(child.output.get(), buffer, sizeof buffer)) > 0;)
    listed.append(buffer, static_cast<std::size_t>(n));
  ::waitpid(child.pid, nullptr, 0);
  EXPECT_EQ(listed, "0\n1\n2\n3\n");  // 3 is that of ls itself
}

TEST(ReservedPort, AServerThatReusesAddressesMayListenOnIt) {
  auto port = *ReservedPort::open();
  EXPECT_TRUE(listener(AF_INET, port.number(), true));
  EXPECT_FALSE(listener(AF_INET, port.number(), false));
}

TEST(ReservedPort, NobodyIsGivenItByChance) {
  auto port = *ReservedPort::open();
  for (int i = 0; i < 2000; ++i) {
    Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    int on = 1;
    ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in any{};
    any.sin_family = AF_INET;
    ASSERT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&any), sizeof any), 0);
    socklen_t size = sizeof any;
    ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&any), &size);
    ASSERT_NE(ntohs(any.sin_port), port.number());
  }
}

}  // namespace
}  // namespace lockstep
