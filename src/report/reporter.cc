#include "report/reporter.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/format.h"
#include "base/log.h"
#include "report/attachment.h"
#include "text/convert.h"
#include "text/json.h"

namespace lockstep::report {
namespace {

// How soon the background thread detects, during a wait, that the reporter is to stop.
constexpr int kSliceMilliseconds = 20;

Json message(std::string_view kind, std::int64_t step) {
  Json json;
  json["kind"] = kind;
  json["step"] = step;
  return json;
}

std::string line_of(const Json& json) { return dump_json(json) + "\n"; }

std::string words_of(std::int64_t step, const std::vector<Metric>& values) {
  std::string line = format("step {}:", step);
  for (const auto& [name, value] : values) line += format(" {} {:.6g}", name, value);
  return line + "\n";
}

}  // namespace

std::unique_ptr<Reporter> Reporter::from_environment(WithoutAgent without_agent) {
  const auto value_of = [](const char* name) -> std::string {
    const char* const value = std::getenv(name);
    return value ? value : "";
  };
  const auto socket = value_of("LOCKSTEP_REPORT");
  return std::make_unique<Reporter>(
      ReporterOptions{.socket = socket,
                      .attaches = socket.empty() && !value_of("LOCKSTEP_URL").empty(),
                      .without_agent = without_agent});
}

Reporter::Reporter(ReporterOptions options)
    : options_(std::move(options)),
      agent_(options_.socket),
      has_agent_(!options_.socket.empty() || options_.attaches),
      thread_([this] { run(); }) {}

Reporter::~Reporter() {
  {
    const Lock lock(mutex_);
    stopping_ = true;
    end_ = Deadline::after(options_.delivery_timeout);
  }
  changed_.notify_all();
  thread_.join();
  if (const auto lost = dropped())
    LS_LOG(warning, "{} reports did not reach the agent at {}", lost, agent_.string());
}

void Reporter::metrics(std::int64_t step, const std::vector<Metric>& values) {
  if (!has_agent()) {
    if (options_.without_agent == WithoutAgent::print) enqueue(words_of(step, values));
    return;
  }
  const auto now = SystemClock().now().time_since_epoch();
  auto json = message("metrics", step);
  json["time_us"] = now.count();
  json["values"] = Json::object();
  for (const auto& [name, value] : values) json["values"][name] = to_json(value);
  enqueue(line_of(json));
}

void Reporter::progress(std::int64_t step, std::int64_t steps) {
  if (!has_agent()) return;
  auto json = message("progress", step);
  json["steps"] = steps;
  enqueue(line_of(json));
}

void Reporter::checkpoint(std::int64_t step, const std::filesystem::path& path) {
  if (!has_agent()) return;
  auto json = message("checkpoint", step);
  json["path"] = path.string();
  enqueue_always(line_of(json));
}

void Reporter::event(std::int64_t step, std::string_view what) {
  if (!has_agent()) {
    if (options_.without_agent == WithoutAgent::print) enqueue(format("step {}: {}\n", step, what));
    return;
  }
  auto json = message("event", step);
  json["time_us"] = SystemClock().now().time_since_epoch().count();
  json["text"] = what;
  enqueue_always(line_of(json));
}

void Reporter::fault(Fault fault, int rank, std::string_view text) {
  if (!has_agent()) return;
  Json json;
  json["kind"] = "fault";
  json["fault"] = name_of(fault);
  json["rank"] = rank;
  json["text"] = text;
  enqueue_always(line_of(json));
  flush();
}

void Reporter::flush() {
  const auto end = Deadline::after(options_.delivery_timeout);
  const Lock lock(mutex_);
  while ((!queue_.empty() || delivering_) && !end.passed()) changed_.wait_until(mutex_, end);
}

bool Reporter::has_agent() const {
  const Lock lock(mutex_);
  return has_agent_;
}

std::int64_t Reporter::dropped() const {
  const Lock lock(mutex_);
  return dropped_;
}

void Reporter::enqueue(std::string line) {
  {
    const Lock lock(mutex_);
    if (queue_.size() < options_.queue_limit) {
      queue_.push_back(std::move(line));
      changed_.notify_all();
      return;
    }
  }
  drop();
}

void Reporter::enqueue_always(std::string line) {
  const Lock lock(mutex_);
  queue_.push_back(std::move(line));
  changed_.notify_all();
}

void Reporter::run() {
  while (true) {
    std::string line;
    {
      const Lock lock(mutex_);
      while (queue_.empty() && !stopping_)
        changed_.wait_until(mutex_, Deadline::after(std::chrono::seconds(10)));
      if (queue_.empty()) return;
      line = std::move(queue_.front());
      queue_.pop_front();
      delivering_ = true;
    }
    if (options_.attaches && agent_.empty() && has_agent()) attach();
    if (!deliver(line)) drop();
    print_notes();
    const Lock lock(mutex_);
    delivering_ = false;
    changed_.notify_all();
  }
}

// Lines that wait for the agent are lost if there is none: they are written for the agent.
void Reporter::attach() {
  auto agent = attach_process();
  if (agent) {
    agent_ = *std::move(agent);
    return;
  }
  if (is_first_rank())
    LS_LOG(warning, "{}; training goes on without a daemon", agent.error().message);
  const Lock lock(mutex_);
  has_agent_ = false;
}

void Reporter::print_notes() {
  if (!options_.attaches || !next_notes_.passed()) return;
  next_notes_ = Deadline::after(std::chrono::seconds(1));
  for (const std::string& note : attachment_notes()) LS_LOG(info, "{}", note);
}

bool Reporter::deliver(std::string_view line) {
  const bool is_lost = options_.attaches && line.starts_with('{');
  if (agent_.empty() && is_lost) return true;  // attach() has told of it
  if (agent_.empty()) return write_all(STDOUT_FILENO, line).has_value();
  if (!socket_ && !connect()) return false;
  if (send(line)) return true;
  // Half a line may be sent: the next one starts on a fresh stream.
  socket_.reset();
  return false;
}

bool Reporter::connect() {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = agent_.string();
  if (path.size() >= sizeof address.sun_path) return false;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return false;
  const auto end = Deadline::after(options_.line_timeout);
  while (::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    // EAGAIN: callers wait that the agent has not accepted.
    if ((errno != EAGAIN && errno != EINTR) || is_overdue(end)) return false;
    ::poll(nullptr, 0, kSliceMilliseconds);
  }
  socket_ = std::move(socket);
  return true;
}

bool Reporter::send(std::string_view line) {
  const auto end = Deadline::after(options_.line_timeout);
  while (!line.empty()) {
    const auto sent = ::send(socket_.get(), line.data(), line.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      line.remove_prefix(static_cast<std::size_t>(sent));
      continue;
    }
    if (errno != EAGAIN && errno != EINTR) return false;
    if (is_overdue(end)) return false;
    pollfd waiting{socket_.get(), POLLOUT, 0};
    ::poll(&waiting, 1, kSliceMilliseconds);
  }
  return true;
}

// While stopping, all lines together have one deadline.
bool Reporter::is_overdue(const Deadline& line) const {
  if (line.passed()) return true;
  const Lock lock(mutex_);
  return stopping_ && end_.passed();
}

void Reporter::drop() {
  bool first = false;
  {
    const Lock lock(mutex_);
    first = dropped_++ == 0;
  }
  if (first)
    LS_LOG(warning, "the agent at {} does not take reports: they are dropped; training continues",
           agent_.string());
}

}  // namespace lockstep::report
