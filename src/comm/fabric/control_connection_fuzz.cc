#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/fuzz_for_test.h"
#include "comm/fabric/control_connection.h"
#include "comm/rendezvous/frame.h"

using namespace lockstep;
using namespace lockstep::comm;

namespace {

constexpr int kNoticesMost = 1000;

std::string notice(const std::vector<std::string>& fields) { return framed(join_fields(fields)); }

}  // namespace

LS_FUZZ(lifeline,
        {to_frame(Peer{3, "host-a", 77, 3}), notice({"leaving", "12", "18446744073709551615"}),
         notice({"may leave", "", ""}) + notice({"together", "", ""}),
         notice({"gave up", "3", join_fields({"rank 1 waited", "", "-1", ""})}) +
             notice({"apart", "", ""}),
         notice({"via", join_fields({"1", "2"}), join_fields({"call", "", ""})}),
         notice({"failing", "3",
                 join_fields({"rank 1 waited", std::string(64, '\x07'), "2", "died"})})}) {
  (void)parse_peer(input);
  int ends[2];
  LS_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
  ControlConnection line(net::Socket(Fd(ends[0])), Peer{1, "b", 77, 1});
  {
    const Fd stranger(ends[1]);
    [[maybe_unused]] const auto sent = ::write(stranger.get(), input.data(), input.size());
  }
  for (int i = 0; i < kNoticesMost; ++i) {
    const auto message = line.receive();
    if (!message) break;
    LS_CHECK(message->failure_report.size() <= kFailureReportLimit);
  }
  // Its end is always reported.
  LS_CHECK(line.is_closed());
}
