// The stream of changes over HTTP, read from a socket as a browser does.
#include <string>
#include <string_view>
#include <utility>

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "base/format.h"
#include "base/os/fd.h"
#include "base/os/files.h"
#include "platform/server/server_for_test.h"

namespace lockstep::server {
namespace {

using testing::HasSubstr;
using testing::Not;

// A reader of the stream. Each read is bounded.
class EventReader {
 public:
  EventReader(int port, const std::string& headers) {
    socket_ = Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const timeval most{.tv_sec = 20, .tv_usec = 0};
    EXPECT_EQ(::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most), 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
              0);
    EXPECT_TRUE(write_all(socket_.get(),
                          "GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n" + headers + "\r\n"));
  }
  // Up to the empty line.
  std::string part() {
    const bool is_head = !std::exchange(has_head_, true);
    const std::string_view end = is_head ? "\r\n\r\n" : "\n\n";
    for (;;) {
      const std::size_t found = text_.find(end);
      if (found != std::string::npos) {
        std::string part = text_.substr(0, found);
        text_.erase(0, found + end.size());
        return part;
      }
      char bytes[4096];
      const ssize_t size = ::recv(socket_.get(), bytes, sizeof bytes, 0);
      if (size <= 0) return "closed";
      text_.append(bytes, static_cast<std::size_t>(size));
    }
  }
  // The first event that has the word; pings and others before it are skipped.
  std::string event_with(std::string_view word) {
    for (;;) {
      std::string event = part();
      if (event == "closed" || event.find(word) != std::string::npos) return event;
    }
  }
  static std::string id_of(const std::string& event) {
    const std::size_t begin = event.find("id: ") + 4;
    return event.substr(begin, event.find('\n', begin) - begin);
  }

 private:
  Fd socket_;
  bool has_head_ = false;
  std::string text_;
};

class EventHubTest : public ServerTest {
 protected:
  std::string headers(const std::string& token) {
    return format("Authorization: Bearer {}\r\nAccept: text/event-stream\r\n", token);
  }
  EventReader listen(const std::string& more = "") {
    return {server_->port(), headers(user_token_) + more};
  }
};

TEST_F(EventHubTest, ARunThatIsSubmittedIsTold) {
  EventReader reader = listen();
  EXPECT_THAT(reader.part(), HasSubstr("text/event-stream"));
  EXPECT_THAT(reader.part(), HasSubstr(R"("runs":[])"));
  submit();
  const std::string event = reader.event_with("demo/1");
  EXPECT_THAT(event, HasSubstr(R"("runs":["demo/1"])"));
  EXPECT_THAT(event, HasSubstr(R"("queue":true)"));
}

TEST_F(EventHubTest, LinesAndMetricsOfARunAreToldAndAHeartbeatWithoutThemIsNot) {
  submit();
  heartbeat("ready");
  heartbeat_of_ranks("running");
  EventReader reader = listen();
  reader.part();
  reader.part();
  heartbeat_of_ranks("running");
  heartbeat_of_ranks("running", {{"items", {log(1, 0, "hello")}}});
  const std::string event = reader.event_with("data");
  EXPECT_THAT(event, HasSubstr(R"("lines":["demo/1"])"));
  EXPECT_THAT(event, HasSubstr(R"("runs":[])"));
}

TEST_F(EventHubTest, AReaderThatConnectsAgainGetsWhatItMissed) {
  EventReader first = listen();
  first.part();
  const std::string id = EventReader::id_of(first.part());
  submit();
  first.event_with("demo/1");
  EventReader second = listen(format("Last-Event-ID: {}\r\n", id));
  second.part();
  EXPECT_THAT(second.part(), HasSubstr(R"("runs":["demo/1"])"));
}

TEST_F(EventHubTest, AnIdOfAnotherDaemonOrOneThatIsTooOldMeansToReadAll) {
  for (const char* id : {"0123456789abcdef-1", "nonsense", "-1"}) {
    EventReader reader = listen(format("Last-Event-ID: {}\r\n", id));
    reader.part();
    EXPECT_THAT(reader.part(), HasSubstr(R"("all":true)")) << id;
  }
}

TEST_F(EventHubTest, AChangeOfAHostIsTold) {
  EventReader reader = listen();
  reader.part();
  reader.part();
  const auto answer = call_as_user("POST", "/api/v1/hosts", R"({"host":"a","state":"closed"})");
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_THAT(reader.event_with("\"hosts\":true"), Not(HasSubstr("closed")));
}

TEST_F(EventHubTest, ACallThatTakesNoEventsIsRefused) {
  const auto answer = call_as_user("GET", "/api/v1/events");
  EXPECT_EQ(answer.status, 400);
  EXPECT_THAT(answer.body, HasSubstr("text/event-stream"));
}

TEST_F(EventHubTest, AReaderHearsNothingOfProjectsThatItMayNotRead) {
  ASSERT_EQ(call_as_user("POST", "/api/v1/users", R"({"name":"bob"})").status, 200);
  const auto made = call_as_user("POST", "/api/v1/tokens", R"({"user":"bob","name":"t"})");
  ASSERT_EQ(made.status, 200) << made.body;
  const std::string token = parse_json(made.body).value()["token"];
  EventReader bob{server_->port(), headers(token)};
  bob.part();
  bob.part();
  submit();
  const std::string event = bob.event_with("\"queue\":true");
  EXPECT_THAT(event, Not(HasSubstr("demo/1")));
  EXPECT_THAT(event, Not(HasSubstr("closed")));
}

}  // namespace
}  // namespace lockstep::server
