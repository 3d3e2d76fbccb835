// For tests: a server on a separate thread, and a caller that sends raw bytes.
#pragma once

#include <future>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "base/os/fd.h"
#include "net/http/http_server.h"
#include "net/loop.h"

namespace lockstep::net {

// Its Loop runs until the end of the test.
class ServerThread {
 public:
  explicit ServerThread(HttpHandler handler, const HttpServerOptions& options = {},
                        HttpFilter gate = {})
      : server_(HttpServer::start(loop_, options, std::move(handler), std::move(gate)).value()),
        thread_([this] { loop_.run(); }) {}
  ~ServerThread() {
    loop_.stop();
    thread_.join();
  }

  Loop& loop() { return loop_; }
  HttpServer& server() { return server_; }
  int port() const { return server_.port(); }
  // Runs the call on the loop's thread, the only one that may access the server; returns its
  // result.
  template <class Call>
  auto on_loop(Call call) {
    std::promise<decltype(call())> result;
    loop_.post([&] { result.set_value(call()); });
    return result.get_future().get();
  }
  int connections() {
    return on_loop([&] { return server_.connections(); });
  }

 private:
  Loop loop_;
  HttpServer server_;
  std::thread thread_;
};

// Reads give up after ten seconds, as if the other side had closed.
class RawCaller {
 public:
  explicit RawCaller(int port) : RawCaller(Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0))) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  explicit RawCaller(Fd fd) : fd_(std::move(fd)) {
    timeval bound{.tv_sec = 10, .tv_usec = 0};
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &bound, sizeof bound);
  }

  void send(std::string_view bytes) {
    // The other side may have closed already, as in tests of refusals.
    while (!bytes.empty()) {
      const ssize_t size = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (size <= 0) return;
      bytes.remove_prefix(static_cast<std::size_t>(size));
    }
  }
  // Bytes up to and including `end`; fewer if the connection ends before.
  std::string read_until(std::string_view end) {
    std::string bytes;
    char byte = 0;
    while (!bytes.ends_with(end) && ::recv(fd_.get(), &byte, 1, 0) == 1) bytes += byte;
    return bytes;
  }
  std::string read_to_end() {
    std::string bytes;
    char block[4096];
    for (ssize_t size; (size = ::recv(fd_.get(), block, sizeof block, 0)) > 0;)
      bytes.append(block, static_cast<std::size_t>(size));
    return bytes;
  }
  void hang_up() { fd_.reset(); }
  int fd() const { return fd_.get(); }

 private:
  Fd fd_;
};

}  // namespace lockstep::net
