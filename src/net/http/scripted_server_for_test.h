// ScriptedServer: an HTTP server that sends one given answer for each request, byte by byte as
// written, and keeps the heads of the requests. An answer without "Content-Length" or chunks ends
// with its connection.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/format.h"
#include "base/mutex.h"
#include "net/socket.h"

namespace lockstep::net {

struct ScriptedAnswer {
  std::string bytes;
  bool keeps_open = false;  // the connection, after the bytes
};

inline ScriptedAnswer json_answer(int status, const std::string& body,
                                  const std::string& headers = "") {
  return {format("HTTP/1.1 {} Words\r\nContent-Length: {}\r\n{}\r\n{}", status, body.size(),
                 headers, body)};
}

class ScriptedServer {
 public:
  explicit ScriptedServer(std::vector<ScriptedAnswer> answers)
      : answers_(std::move(answers)), thread_([this] { serve(); }) {}
  ~ScriptedServer() {
    is_ending_ = true;
    thread_.join();
  }

  std::string url() const { return format("http://127.0.0.1:{}", listener_.port()); }
  // The heads of the requests so far, each with its body.
  std::vector<std::string> requests() {
    const Lock lock(mutex_);
    return requests_;
  }

 private:
  static Deadline soon() { return Deadline::after(std::chrono::seconds(20)); }

  std::optional<Socket> accept() {
    while (!is_ending_) {
      auto accepted = listener_.try_accept();
      LS_CHECK(accepted.has_value());
      if (*accepted) return *std::move(accepted);
      (void)wait_ready(listener_.fd(), 1, Deadline::after(std::chrono::milliseconds(20)), "a call");
    }
    return std::nullopt;
  }

  // One request with its body; false at the end of the connection or of the test.
  bool take_request(Socket& socket) {
    std::string request;
    std::size_t size = std::string::npos;
    while (request.size() < size) {
      std::array<char, 4096> part{};
      const auto received = socket.try_recv(std::as_writable_bytes(std::span(part)));
      if (is_ending_ || !received || (*received && **received == 0)) return false;
      if (!*received) {
        (void)wait_ready(socket.fd(), 1, Deadline::after(std::chrono::milliseconds(20)),
                         "a request");
        continue;
      }
      request.append(part.data(), **received);
      const std::size_t head = request.find("\r\n\r\n");
      if (head == std::string::npos) continue;
      const std::size_t length = request.find("Content-Length: ");
      size = head + 4 + (length < head ? std::stoul(request.substr(length + 16)) : 0);
    }
    const Lock lock(mutex_);
    requests_.push_back(std::move(request));
    return true;
  }

  void serve() {
    std::size_t next = 0;
    while (next < answers_.size()) {
      auto socket = accept();
      if (!socket) return;
      while (next < answers_.size() && take_request(*socket)) {
        const ScriptedAnswer& answer = answers_[next++];
        if (!socket->send_all(std::as_bytes(std::span(answer.bytes)), soon())) break;
        if (answer.bytes.find("Content-Length") != std::string::npos) continue;
        while (answer.keeps_open && !is_ending_)
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        break;
      }
    }
  }

  const std::vector<ScriptedAnswer> answers_;
  Listener listener_ = *Listener::tcp("127.0.0.1", 0);
  std::atomic<bool> is_ending_{false};
  Mutex mutex_;  // guards what follows
  std::vector<std::string> requests_ LS_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace lockstep::net
