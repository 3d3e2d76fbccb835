#include <algorithm>
#include <array>
#include <charconv>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include <sys/socket.h>
#include <unistd.h>

#include "apps/access/node_argument.h"
#include "apps/cli/exit_codes.h"
#include "apps/cli/subcommand.h"
#include "apps/daemon/own_daemon.h"
#include "net/stream/relay.h"

namespace lockstep::cli {
namespace {

struct StreamFlags {
  std::string node;
  std::string to;
};

Result<api::StreamQuery> target_of_stream(const std::string& words) {
  if (words == "shell") return api::StreamQuery{.shell = true};
  int port = 0;
  const auto [end, error] = std::from_chars(words.data(), words.data() + words.size(), port);
  if (error != std::errc() || end != words.data() + words.size() || port < 1 || port > 65'535)
    return Error{Code::invalid, format("--to: expected `shell` or a port, got '{}'", words)};
  return api::StreamQuery{.port = port};
}

// Blocking, on a thread of its own: standard input may be a file or a terminal, which the loop
// cannot wait for.
void pump(int from, int to) {
  std::array<char, 64 << 10> buffer{};
  for (ssize_t size; (size = ::read(from, buffer.data(), buffer.size())) > 0;)
    if (!write_all(to, {buffer.data(), static_cast<std::size_t>(size)})) break;
}

Result<int> run_stream(const StreamFlags& flags) {
  const NodeOfRun node = TRY(node_argument(flags.node));
  const api::StreamQuery target = TRY(target_of_stream(flags.to));
  client::Client client = TRY(connect_to_daemon());
  auto connection = TRY(client.open_stream(node.run, node.index, target));
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    return os_error("making a socket pair", errno);
  const int own = ends[0];
  // Both use only this descriptor, which stays open; the reader may wait until the program ends.
  std::thread([own] {
    pump(STDIN_FILENO, own);
    ::shutdown(own, SHUT_WR);
  }).detach();
  std::thread writer([own] {
    pump(own, STDOUT_FILENO);
    ::shutdown(own, SHUT_RDWR);
  });
  const auto ended = net::relay(std::move(connection), Fd(ends[1]));
  writer.join();
  if (!ended) return ended.error();
  return kDone;
}

}  // namespace

// `lockstep stream RUN[/NODE] --to shell|PORT`: standard input and output as a stream to a node,
// for the option ProxyCommand of ssh.
void add_stream(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("stream", "Connect standard input and output to a node");
  command->group("");
  auto flags = std::make_shared<StreamFlags>();
  add_node_argument(*command, flags->node);
  command->add_option("--to", flags->to, "a TCP port of the node, or `shell`")
      ->required()
      ->type_name("PORT");
  command->callback([&action, flags] { action = [flags] { return run_stream(*flags); }; });
}

}  // namespace lockstep::cli
