#include "platform/agent/ranks/rank_streams.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include <unistd.h>

#include "base/log.h"

namespace lockstep::agent {
namespace {

constexpr Duration kFlushInterval = std::chrono::milliseconds(100);
constexpr Duration kUnfinishedInterval = std::chrono::seconds(1);
constexpr int kReadsAtOnce = 4;  // of 64 KiB; then the other ranks are read

}  // namespace

Result<void> RankStreams::add(int rank, const std::filesystem::path& log,
                              const std::filesystem::path& socket) {
  const int local = static_cast<int>(streams_.size());
  auto lines = [this, local](std::string text) { sinks_.lines(local, std::move(text)); };
  auto report = [this, local](RankReport any) {
    if (auto* fault = std::get_if<FaultReport>(&any)) fault->text = mask_.masked(fault->text);
    if (auto* item = std::get_if<spool::TelemetryItem>(&any);
        item && item->kind == spool::TelemetryKind::event)
      item->text = mask_.masked(item->text);
    sinks_.report(local, std::move(any));
  };
  streams_.push_back({.rank = rank,
                      .pipe = Fd(),
                      .mask = mask_,
                      .output = TRY(RankOutput::open(log, std::move(lines))),
                      .reports = TRY(ReportSocket::open(socket, rank, std::move(report)))});
  return {};
}

std::vector<std::pair<int, int>> RankStreams::fds() const {
  std::vector<std::pair<int, int>> all;
  for (int local = 0; local < static_cast<int>(streams_.size()); ++local) {
    const Stream& stream = streams_[static_cast<std::size_t>(local)];
    for (int fd : stream.reports.fds()) all.emplace_back(fd, local);
    if (stream.pipe) all.emplace_back(stream.pipe.get(), local);
  }
  return all;
}

void RankStreams::read(Stream& stream) {
  stream.reports.read();
  const auto now = std::chrono::steady_clock::now();
  stream.output.allow_lines(
      std::chrono::duration_cast<Duration>(now - std::exchange(stream.last_read, now)));
  char buffer[1 << 16];
  for (int i = 0; stream.pipe && i < kReadsAtOnce; ++i) {
    const ssize_t n = ::read(stream.pipe.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) break;
    if (n <= 0) {
      stream.pipe.reset();
      stream.output.add_bytes(stream.mask.pass_rest());
    } else {
      stream.output.add_bytes(stream.mask.pass({buffer, static_cast<std::size_t>(n)}));
    }
  }
  if (!next_flush_ && stream.output.has_lines()) next_flush_ = Deadline::after(kFlushInterval);
  if (!next_unfinished_ && !stream.output.unfinished_line().empty())
    next_unfinished_ = Deadline::after(kUnfinishedInterval);
}

void RankStreams::read_all() {
  for (Stream& stream : streams_) {
    read(stream);
    stream.output.flush();
  }
}

void RankStreams::finish() {
  for (Stream& stream : streams_) {
    stream.reports.read();  // connections that closed at once
    stream.pipe.reset();
    stream.output.add_bytes(stream.mask.pass_rest());
    stream.output.finish();
    if (stream.reports.broken_lines() > 0)
      LS_LOG(warning, "rank {} reported {} lines that could not be read", stream.rank,
             stream.reports.broken_lines());
  }
  unfinished_.clear();
  next_unfinished_.reset();
}

bool RankStreams::all_closed() const {
  return std::ranges::none_of(streams_, [](const Stream& stream) {
    return stream.pipe || !stream.reports.has_no_connections();
  });
}

// True if an unfinished line has ended.
bool RankStreams::flush() {
  bool ended = false;
  for (Stream& stream : streams_) {
    if (!stream.output.has_lines()) continue;
    stream.output.flush();
    ended |=
        std::erase_if(unfinished_, [&](const auto& line) { return line.rank == stream.rank; }) > 0;
  }
  return ended;
}

bool RankStreams::pass_on_due_lines() {
  bool changed = false;
  if (next_flush_ && next_flush_->passed()) {
    next_flush_.reset();
    changed = flush();
  }
  if (next_unfinished_ && next_unfinished_->passed()) {
    next_unfinished_.reset();
    unfinished_ = unfinished_lines();
    changed = true;
  }
  return changed;
}

std::optional<Duration> RankStreams::time_until_due() const {
  std::optional<Duration> least;
  for (const auto& deadline : {next_flush_, next_unfinished_})
    if (deadline) least = std::min(deadline->remaining(), least.value_or(deadline->remaining()));
  return least;
}

std::vector<api::UnfinishedLine> RankStreams::unfinished_lines() const {
  std::vector<api::UnfinishedLine> lines;
  for (const Stream& stream : streams_)
    if (const auto line = stream.output.unfinished_line(); !line.empty())
      lines.push_back({.rank = stream.rank, .text = std::string(line)});
  return lines;
}

}  // namespace lockstep::agent
