#include "report/attachment.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/format.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/os/environment.h"
#include "base/os/fd.h"
#include "base/os/run_program.h"
#include "text/convert.h"
#include "text/json.h"

namespace lockstep::report {
namespace {

constexpr Duration kAgentStartMax = std::chrono::seconds(20);
constexpr Duration kAgentAnswerMax = std::chrono::seconds(10);
constexpr Duration kExitWaitMax = std::chrono::seconds(2);

// The line of `lockstep agent --attach`.
struct AgentPlace {
  std::string socket;
  int rank = 0;
  std::optional<int> local_rank;
  std::string error;

  static constexpr auto fields() {
    return record<AgentPlace>(field("socket", &AgentPlace::socket, "on which the agent listens"),
                              field("rank", &AgentPlace::rank, "of this process"),
                              field("local_rank", &AgentPlace::local_rank, "on its host"),
                              field("error", &AgentPlace::error, "why there is no agent"));
  }
};

struct AgentLine {
  std::string report;
  std::string note;
  bool delivered = false;

  static constexpr auto fields() {
    return record<AgentLine>(field("report", &AgentLine::report, "the rank's report socket"),
                             field("note", &AgentLine::note, "a line for the user"),
                             field("delivered", &AgentLine::delivered, "nothing is left to send"));
  }
};

// Never destroyed: other threads may use it while the process ends.
struct ProcessAttachment {
  Mutex mutex;  // guards what follows
  std::optional<Result<std::filesystem::path>> result LS_GUARDED_BY(mutex);
  Fd socket LS_GUARDED_BY(mutex);
  std::string received LS_GUARDED_BY(mutex);
};

ProcessAttachment& of_process() {
  static auto* const one = new ProcessAttachment;
  return *one;
}

Result<AgentPlace> find_agent_of_job() {
  const Environment environment = own_environment();
  const auto named = environment.find("LOCKSTEP_PROGRAM");
  const std::string program = named == environment.end() ? "lockstep" : named->second;
  const auto ended = run_program({program, "agent", "--attach"}, kAgentStartMax, environment,
                                 StandardError::separate);
  if (!ended) return Error{ended.error().code, ended.error().message};
  auto place = [&]() -> Result<AgentPlace> {
    return from_json<AgentPlace>(TRY(parse_json(ended->output)), UnknownFields::ignore);
  }();
  if (!place)
    return Error{Code::invalid, format("{} starts no agent (`lockstep agent --attach`); is it an "
                                       "older version?",
                                       program)};
  if (!place->error.empty()) return Error{Code::unavailable, place->error};
  return place;
}

// Waits for the agent's next line until then.
std::optional<AgentLine> next_line(const Fd& socket, std::string& received, const Deadline& end) {
  while (received.find('\n') == std::string::npos) {
    pollfd polled{socket.get(), POLLIN, 0};
    const auto wait = std::chrono::ceil<std::chrono::milliseconds>(end.remaining());
    if (::poll(&polled, 1, static_cast<int>(wait.count())) <= 0) return std::nullopt;
    char buffer[4096];
    const ssize_t n = ::recv(socket.get(), buffer, sizeof buffer, MSG_DONTWAIT);
    if (n <= 0) return std::nullopt;
    received.append(buffer, static_cast<std::size_t>(n));
  }
  const auto length = received.find('\n');
  const std::string line = received.substr(0, length);
  received.erase(0, length + 1);
  const auto json = parse_json(line);
  if (!json) return std::nullopt;
  const auto read = from_json<AgentLine>(*json, UnknownFields::ignore);
  return read ? std::optional(*read) : std::nullopt;
}

bool send_all(int fd, std::string_view bytes) {
  return ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
}

void say_farewell(ProcessAttachment& one, char code) LS_REQUIRES(one.mutex) {
  if (!send_all(one.socket.get(), "{\"leaving\":\"\"}\n")) return;
  for (const auto end = Deadline::after(kExitWaitMax); !end.passed();) {
    const auto line = next_line(one.socket, one.received, end);
    if (line && !line->note.empty()) LS_LOG(info, "{}", line->note);
    if (!line || line->delivered) break;
  }
  send_all(one.socket.get(), {&code, 1});
}

// By exit(3), after main has returned. A fork of this process is another one.
void leave_agent(int status, void* argument) {
  const auto pid = static_cast<pid_t>(reinterpret_cast<std::intptr_t>(argument));
  ProcessAttachment& one = of_process();
  if (::getpid() != pid || !one.mutex.try_lock()) return;  // another thread still attaches
  say_farewell(one, static_cast<char>(status & 0xff));
  one.mutex.unlock();
}

Result<std::filesystem::path> connect_to_agent(ProcessAttachment& one) LS_REQUIRES(one.mutex) {
  const AgentPlace place = TRY(find_agent_of_job());
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (place.socket.size() >= sizeof address.sun_path)
    return Error{Code::invalid, format("the socket's path {} is too long", place.socket)};
  std::ranges::copy(place.socket, address.sun_path);
  one.socket = Fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::connect(one.socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
    return os_error("connecting to the agent of this job", errno);
  Json hello = {{"rank", place.rank}};
  if (place.local_rank) hello["local_rank"] = *place.local_rank;
  send_all(one.socket.get(), dump_json(hello) + "\n");
  const auto answer = next_line(one.socket, one.received, Deadline::after(kAgentAnswerMax));
  if (!answer || answer->report.empty())
    return Error{Code::unavailable,
                 "the agent of this job does not take this rank; its agent.log may say why"};
  ::on_exit(leave_agent, reinterpret_cast<void*>(static_cast<std::intptr_t>(::getpid())));
  return std::filesystem::path(answer->report);
}

}  // namespace

Result<std::filesystem::path> attach_process() {
  ProcessAttachment& one = of_process();
  const Lock lock(one.mutex);
  if (!one.result) one.result = connect_to_agent(one);
  return *one.result;
}

std::vector<std::string> attachment_notes() {
  ProcessAttachment& one = of_process();
  const Lock lock(one.mutex);
  std::vector<std::string> notes;
  if (!one.result || !*one.result) return notes;
  while (const auto line = next_line(one.socket, one.received, Deadline::after(Duration(0))))
    if (!line->note.empty()) notes.push_back(line->note);
  return notes;
}

bool is_first_rank() {
  for (const char* name : {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"})
    if (const char* const value = std::getenv(name); value != nullptr && *value != '\0')
      return std::string_view(value) == "0";
  return true;
}

}  // namespace lockstep::report
