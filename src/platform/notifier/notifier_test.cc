// Deliveries to servers of this machine, and to programs; and the addresses that are refused.
#include "platform/notifier/notifier.h"

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/format.h"
#include "base/os/files.h"
#include "base/temporary_folder_for_test.h"
#include "net/http/scripted_server_for_test.h"
#include "platform/core/notice/forms.h"
#include "platform/notifier/command.h"
#include "text/json.h"

namespace lockstep::notifier {
namespace {

using net::json_answer;
using net::ScriptedAnswer;
using net::ScriptedServer;
using notice::TargetKind;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

const Network kLoopback = parse_network("127.0.0.0/8").value();

model::Notice a_notice() {
  return {.id = "3f9c.demo/1.run_failed.5",
          .kind = model::NoticeKind::run_failed,
          .time = Time(seconds(5)),
          .project = "demo",
          .run = "demo/1",
          .user = "ann",
          .state = "failed",
          .reason = "rank 0 <exited>"};
}

Delivery to(const std::string& url, TargetKind kind = TargetKind::webhook) {
  return {.kind = kind, .where = url, .notice = a_notice()};
}

// Servers of this machine; a try is short.
NotifierSetup local_setup() {
  return {.allowed = {kLoopback}, .limit = seconds(5), .command_limit = seconds(5)};
}

Duration time_of(const std::function<void()>& work) {
  const auto begun = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now() - begun);
}

TEST(Webhook, GetsTheNoticeAsJson) {
  ScriptedServer server({json_answer(200, "{}")});
  const Answer answer = Notifier(local_setup()).deliver(to(server.url() + "/hook?token=s3cret"));
  EXPECT_TRUE(answer.is_delivered);
  EXPECT_THAT(answer.words, AllOf(StartsWith("answered 200 in "), EndsWith(" ms")));
  const std::string request = server.requests().at(0);
  EXPECT_THAT(request, AllOf(StartsWith("POST /hook?token=s3cret HTTP/1.1\r\n"),
                             HasSubstr("Content-Type: application/json\r\n"),
                             HasSubstr("Lockstep-Notice: 3f9c.demo/1.run_failed.5\r\n")));
  EXPECT_EQ(request.substr(request.find("\r\n\r\n") + 4), notice::json_form(a_notice()));
}

TEST(Webhook, GetsTheMessageOfSlack) {
  ScriptedServer server({json_answer(200, "ok")});
  EXPECT_TRUE(Notifier(local_setup())
                  .deliver(to(server.url() + "/services/T/B/X", TargetKind::slack))
                  .is_delivered);
  EXPECT_THAT(server.requests().at(0),
              EndsWith(R"({"text":"demo/1 failed: rank 0 &lt;exited&gt;"})"));
}

TEST(Webhook, ThatFailsIsDeliveredByTheNextTry) {
  ScriptedServer server({json_answer(500, "{}"), json_answer(204, "")});
  const Notifier notifier(local_setup());
  const Answer first = notifier.deliver(to(server.url()));
  EXPECT_FALSE(first.is_delivered);
  EXPECT_FALSE(first.is_refused);
  EXPECT_THAT(first.words, StartsWith("answered 500 in "));
  EXPECT_TRUE(notifier.deliver(to(server.url())).is_delivered);
}

TEST(Webhook, RefusesANoticeForGoodByItsStatus) {
  ScriptedServer server({json_answer(400, "{}"), json_answer(404, "{}")});
  const Notifier notifier(local_setup());
  EXPECT_TRUE(notifier.deliver(to(server.url())).is_refused);
  EXPECT_FALSE(notifier.deliver(to(server.url())).is_refused);
}

TEST(Webhook, ThatNeverAnswersCostsTheLimitAndNoMore) {
  net::Listener silent = *net::Listener::tcp("127.0.0.1", 0);
  NotifierSetup setup = local_setup();
  setup.limit = milliseconds(200);
  const std::string url = format("http://127.0.0.1:{}/secret", silent.port());
  Answer answer;
  EXPECT_LT(time_of([&] { answer = Notifier(setup).deliver(to(url)); }), Duration(seconds(3)));
  EXPECT_FALSE(answer.is_delivered);
  EXPECT_EQ(answer.words, "no answer within 200ms");
}

TEST(Webhook, ThatNeverSendsItsBodyHasAnswered) {
  ScriptedServer server({ScriptedAnswer{"HTTP/1.1 200 OK\r\nX-Length: none\r\n\r\n", true}});
  NotifierSetup setup = local_setup();
  setup.limit = milliseconds(300);
  EXPECT_TRUE(Notifier(setup).deliver(to(server.url())).is_delivered);
}

TEST(Webhook, WithAHugeBodyIsNotReadToItsEnd) {
  ScriptedServer server({ScriptedAnswer{
      "HTTP/1.1 200 OK\r\nX-Length: none\r\n\r\n" + std::string(1 << 20, 'x'), true}});
  Answer answer;
  EXPECT_LT(time_of([&] { answer = Notifier(local_setup()).deliver(to(server.url())); }),
            Duration(seconds(4)));
  EXPECT_TRUE(answer.is_delivered);
}

TEST(Webhook, IsNotFollowedToAnotherAddress) {
  ScriptedServer secret({json_answer(200, "{}")});
  ScriptedServer server({json_answer(302, "", format("Location: {}/inside\r\n", secret.url()))});
  const Answer answer = Notifier(local_setup()).deliver(to(server.url()));
  EXPECT_FALSE(answer.is_delivered);
  EXPECT_THAT(answer.words, HasSubstr("a redirect, which is not followed"));
  EXPECT_THAT(secret.requests(), IsEmpty());
}

TEST(Webhook, OfAPrivateAddressIsRefusedAfterTheNameIsResolved) {
  ScriptedServer server({json_answer(200, "{}")});
  const std::string port = server.url().substr(server.url().rfind(':'));
  const Notifier notifier(NotifierSetup{.limit = seconds(5)});
  for (const std::string host :
       {"localhost", "127.0.0.1", "0.0.0.0", "[::ffff:127.0.0.1]", "2130706433", "0x7f.1"}) {
    const Answer answer = notifier.deliver(to("http://" + host + port + "/token"));
    EXPECT_FALSE(answer.is_delivered) << host;
    EXPECT_THAT(answer.words, Not(HasSubstr("token"))) << host;
    EXPECT_THAT(answer.words,
                AnyOf(HasSubstr("a webhook is a URL"),
                      HasSubstr("is not a public address; `lockstep serve --notice-network` "
                                "allows others")))
        << host;
  }
  EXPECT_THAT(server.requests(), IsEmpty());
}

TEST(Webhook, IgnoresTheProxyOfTheEnvironment) {
  ScriptedServer proxy({json_answer(200, "{}")});
  ::setenv("http_proxy", proxy.url().c_str(), 1);
  const Answer answer =
      Notifier(NotifierSetup{.limit = seconds(5)}).deliver(to("http://10.255.255.1/x"));
  ::unsetenv("http_proxy");
  EXPECT_FALSE(answer.is_delivered);
  EXPECT_THAT(proxy.requests(), IsEmpty());
}

TEST(Webhook, ThatDoesNotListenIsNamedWithoutItsPath) {
  std::optional<net::Listener> listener = *net::Listener::tcp("127.0.0.1", 0);
  const std::string url = format("http://127.0.0.1:{}/services/T0/SECRET", listener->port());
  listener.reset();
  const Answer answer = Notifier(local_setup()).deliver(to(url));
  EXPECT_FALSE(answer.is_delivered);
  EXPECT_THAT(answer.words, AllOf(HasSubstr("127.0.0.1"), Not(HasSubstr("SECRET"))));
}

TEST(Webhook, EndsSoonWhenTheDaemonEnds) {
  net::Listener silent = *net::Listener::tcp("127.0.0.1", 0);
  NotifierSetup setup = local_setup();
  setup.limit = seconds(60);
  Notifier notifier(setup);
  const std::string url = format("http://127.0.0.1:{}", silent.port());
  Answer answer;
  std::thread delivery;
  EXPECT_LT(time_of([&] {
              delivery = std::thread([&] { answer = notifier.deliver(to(url)); });
              notifier.stop();
              delivery.join();
            }),
            Duration(seconds(10)));
  EXPECT_EQ(answer.words, "the daemon ends");
}

TEST(Webhook, ShowsItsHostOnly) {
  EXPECT_EQ(shown_form(TargetKind::slack, "https://hooks.slack.com/services/T0/B0/SECRET"),
            "https://hooks.slack.com");
  EXPECT_EQ(shown_form(TargetKind::webhook, "http://me:SECRET@a.b:81?x=SECRET"), "http://a.b:81");
  EXPECT_EQ(shown_form(TargetKind::mail, "ann@example.com"), "ann@example.com");
}

TEST(Targets, ThatCannotBeAreRefusedWithoutTheirWords) {
  const Notifier notifier(local_setup());
  for (const std::string url :
       {"", "ftp://a/SECRET", "file:///etc/passwd", "https://", "https:///SECRET",
        "http://a b/SECRET", "https://a/SECRET\r\nX: 1", "a/SECRET"}) {
    const auto checked = notifier.check(TargetKind::webhook, url);
    ASSERT_FALSE(checked) << url;
    EXPECT_THAT(checked.error().message, Not(HasSubstr("SECRET")));
  }
  EXPECT_TRUE(notifier.check(TargetKind::webhook, "https://example.com"));
  EXPECT_THAT(notifier.check(TargetKind::mail, "ann@example.com").error().message,
              HasSubstr("it has no --smtp"));
  EXPECT_THAT(notifier.check(TargetKind::command, "tell").error().message,
              HasSubstr("it has no --notice-commands"));
}

TEST(Mail, AnAddressIsOneWord) {
  for (const char* good : {"ann@example.com", "ann+x.y@a"})
    EXPECT_TRUE(check_mail_address(good)) << good;
  for (const char* bad :
       {"", "ann", "@a", "a@", "a@b@c", "a b@c", "a@b\r\nRCPT TO:<x@y>", "<a@b>", "-x@y", "a,b@c"})
    EXPECT_FALSE(check_mail_address(bad)) << bad;
}

// A server of mail that takes one message.
class SmallMailServer {
 public:
  ~SmallMailServer() { thread_.join(); }
  std::string url() const { return format("smtp://127.0.0.1:{}", listener_.port()); }
  // All that the client said, once it has ended.
  std::string lines() {
    while (!is_done_) std::this_thread::yield();
    return lines_;
  }

 private:
  void serve() {
    const Deadline end = Deadline::after(seconds(20));
    (void)net::wait_ready(listener_.fd(), 1, end, "a call");
    auto socket = listener_.try_accept();
    if (socket && *socket) talk(**socket, end);
    is_done_ = true;
  }
  void talk(net::Socket& socket, const Deadline& end) {
    const auto say = [&](const std::string& line) {
      (void)socket.send_all(std::as_bytes(std::span(line)), end);
    };
    say("220 small\r\n");
    std::size_t handled = 0;
    bool is_data = false;
    while (!end.passed()) {
      (void)net::wait_ready(socket.fd(), 1, end, "a line");
      char part[4096];
      const auto got = socket.try_recv(std::as_writable_bytes(std::span(part)));
      if (!got || (*got && **got == 0)) return;
      if (*got) lines_.append(part, **got);
      for (std::size_t at; (at = lines_.find("\r\n", handled)) != std::string::npos;) {
        const std::string line = lines_.substr(handled, at - handled);
        handled = at + 2;
        if (is_data && line != ".") continue;
        is_data = line == "DATA";
        say(is_data ? "354 go\r\n" : line == "QUIT" ? "221 bye\r\n" : "250 well\r\n");
        if (line == "QUIT") return;
      }
    }
  }

  net::Listener listener_ = *net::Listener::tcp("127.0.0.1", 0);
  std::string lines_;
  std::atomic<bool> is_done_{false};
  std::thread thread_{[this] { serve(); }};
};

TEST(Mail, ReachesTheServerWithItsEndsAndText) {
  SmallMailServer server;
  NotifierSetup setup = local_setup();
  setup.mail = MailServer{.url = server.url(), .from = "lockstep@example.com"};
  const Answer answer = Notifier(setup).deliver(to("ann@example.com", TargetKind::mail));
  EXPECT_TRUE(answer.is_delivered) << answer.words;
  EXPECT_THAT(answer.words, StartsWith("the mail server took it in "));
  EXPECT_THAT(
      server.lines(),
      AllOf(HasSubstr("MAIL FROM:<lockstep@example.com>"), HasSubstr("RCPT TO:<ann@example.com>"),
            HasSubstr("Subject: [lockstep] demo/1 failed\r\n"), HasSubstr("rank 0 <exited>")));
}

TEST(Mail, OfASilentServerCostsTheLimit) {
  net::Listener silent = *net::Listener::tcp("127.0.0.1", 0);
  NotifierSetup setup = local_setup();
  setup.limit = milliseconds(200);
  setup.mail = MailServer{.url = format("smtp://127.0.0.1:{}", silent.port()), .from = "a@b"};
  const Answer answer = Notifier(setup).deliver(to("ann@example.com", TargetKind::mail));
  EXPECT_FALSE(answer.is_delivered);
  EXPECT_EQ(answer.words, "the mail server: no answer within 200ms");
}

class Commands : public ::testing::Test {
 protected:
  void write_command(const std::string& name, const std::string& lines, mode_t mode = 0700) {
    ASSERT_TRUE(write_file(folder_ / name, "#!/bin/sh\n" + lines + "\n"));
    ASSERT_EQ(::chmod((folder_ / name).c_str(), mode), 0);
  }
  Answer run(const std::string& name, Duration limit = seconds(10)) {
    NotifierSetup setup = local_setup();
    setup.commands = folder_ / ".";
    setup.command_limit = limit;
    return Notifier(setup).deliver(to(name, TargetKind::command));
  }
  std::string file(const std::string& name) { return read_file(folder_ / name, 1 << 20).value(); }

  TemporaryFolder folder_;
};

TEST_F(Commands, GetTheNoticeOnStandardInput) {
  write_command("tell", format("cat > {0}/got; env > {0}/variables; pwd > {0}/place",
                               (folder_ / ".").string()));
  ::setenv("LOCKSTEP_TEST_SECRET", "s3cret", 1);
  const Answer answer = run("tell");
  ::unsetenv("LOCKSTEP_TEST_SECRET");
  EXPECT_TRUE(answer.is_delivered) << answer.words;
  EXPECT_EQ(answer.words, "tell ended with exit code 0");
  EXPECT_EQ(file("got"), notice::json_form(a_notice()) + "\n");
  EXPECT_EQ(file("place"), "/\n");
  EXPECT_THAT(file("variables"),
              AllOf(HasSubstr("LOCKSTEP_NOTICE=3f9c.demo/1"), Not(HasSubstr("s3cret"))));
}

TEST_F(Commands, ThatFailAreTriedAgain) {
  write_command("tell", "exit 3");
  const Answer answer = run("tell");
  EXPECT_FALSE(answer.is_delivered || answer.is_refused);
  EXPECT_EQ(answer.words, "tell ended with exit code 3");
}

TEST_F(Commands, ThatHangAreKilledWithTheirGroup) {
  write_command("hang", format("sleep 1000 & echo $! > {}/child; wait", (folder_ / ".").string()));
  const Answer answer = run("hang", milliseconds(500));
  EXPECT_EQ(answer.words, "hang has not ended within 500ms, and was killed");
  const pid_t child = std::stoi(file("child"));
  const Deadline end = Deadline::after(seconds(10));
  while (::kill(child, 0) == 0 && !end.passed()) std::this_thread::yield();
  EXPECT_NE(::kill(child, 0), 0);
}

TEST_F(Commands, AreProgramsOfTheFolderThatOthersCannotChange) {
  write_command("open", "true", 0722);
  write_command("text", "true", 0600);
  for (const std::string name : {"../tell", "/bin/true", ".", "..", "missing", "text", ""})
    EXPECT_EQ(find_command(folder_ / ".", name).error().code, Code::invalid) << name;
  EXPECT_EQ(find_command(folder_ / ".", "open").error().code, Code::denied);
  EXPECT_THAT(run("open").words, HasSubstr("can be changed by others"));
}

}  // namespace
}  // namespace lockstep::notifier
