// Server: the daemon's HTTP API. It runs on the loop's thread, as the controller does: a call is
// handled to its end or parked in Waiting (long polls), so that nothing needs a lock.
//
// Every route but those for anyone wants `Authorization: Bearer TOKEN`, and is judged before the
// body is taken in: by the user's token, or by that of the attempt that the path names.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "net/loop.h"
#include "platform/controller/controller.h"
#include "platform/host/home.h"
#include "platform/host/keys.h"
#include "platform/insight/insight.h"

namespace lockstep {

struct ServerSetup {
  Controller& controller;  // these four outlive the server
  insight::Insight& insight;
  const Keys& keys;
  const Clock& clock;
  Home home;
  std::string version;
  std::string host = "127.0.0.1";         // the address to listen on
  std::vector<std::string> host_names{};  // further names by which callers reach it
  int port = 0;                           // 0: any free one
  // What goes wrong in the daemon just now, a line for each cause; empty: nobody knows.
  std::function<std::vector<std::string>()> troubles{};
};

class Server {
 public:
  // Listens at once, answers when the loop runs. The loop outlives the server.
  static Result<std::unique_ptr<Server>> start(Loop& loop, ServerSetup setup);
  ~Server();

  std::string url() const;
  int port() const;
  // Answers what waits, finishes what runs within a second or two, then calls.
  void stop(std::function<void()> stopped);

 private:
  struct Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep
