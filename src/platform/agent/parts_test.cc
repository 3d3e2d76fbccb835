// The agent's parts, each on its own.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "platform/agent/output.h"
#include "platform/agent/report_socket.h"
#include "platform/agent/reserved_port.h"

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

  std::filesystem::path folder_;
  std::vector<std::string> texts_;
  int lines_ = 0;
};

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
