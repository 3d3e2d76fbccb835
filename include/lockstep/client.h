// Runs on a Lockstep daemon: submit, watch, stop. The same calls as the lockstep command, typed.
// Link Lockstep::client.
//
//   auto client = lockstep::Client::connect().value();
//   auto run = client.submit("name: first\nnodes: 2\ncommand: [python, train.py]").value();
//   run = client.wait(run.id, std::chrono::hours(2)).value();
//   std::puts(run.state.c_str());
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/export.h"
#include "lockstep/result.h"

namespace lockstep {

struct Run {
  std::string id;  // project/number
  std::string name;
  std::string state;  // queued, starting, running, succeeded, failed, timed_out or cancelled
  bool ended = false;
  bool succeeded = false;
  std::string reason;                               // why it waits, or why it ended
  std::optional<std::int64_t> step = std::nullopt;  // the last that its ranks reported
  std::map<std::string, double> metrics;            // the last value of each
  std::string json;                                 // all fields: RunView of docs/api/openapi.json
};

struct LogLine {
  int rank = 0;
  std::string text;
};

struct LogPage {
  std::vector<LogLine> lines;  // oldest first
  std::int64_t next = 0;       // `after` of the next page
};

// Every call has a bound and blocks until it is answered. For one thread at a time.
class LOCKSTEP_EXPORT Client {
 public:
  // To the daemon that `lockstep` commands would call: that of LOCKSTEP_PROFILE, LOCKSTEP_URL or
  // LOCKSTEP_HOME, the one to which the user has logged in, or the user's own on this machine.
  // unavailable: no daemon answers; start one with lockstep serve, or by any lockstep run.
  static Result<Client> connect();
  Client(Client&&) noexcept;
  Client& operator=(Client&&) noexcept;
  ~Client();

  // Submits what a run file describes, as YAML or JSON (docs/guide/run-file.md). A folder that the
  // text does not name is the current one. invalid: the message names the line. A connection that
  // is lost on the way makes no second run.
  Result<Run> submit(std::string_view run_file);
  // not_found: there is no such run.
  Result<Run> run(std::string_view id);
  // The newest `limit` runs, at most 1,000, of one project or of all.
  Result<std::vector<Run>> runs(std::string_view project = "", int limit = 50);
  // Returns when the run has ended. timeout: it has not within this time.
  Result<Run> wait(std::string_view id, std::chrono::microseconds timeout);
  // The reason shows with the run.
  Result<Run> stop(std::string_view id, std::string_view reason);
  // At most 1,000 lines of its ranks' output after a page; empty lines at the end.
  Result<LogPage> logs(std::string_view id, std::int64_t after = 0);

 private:
  struct Impl;
  explicit Client(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep
