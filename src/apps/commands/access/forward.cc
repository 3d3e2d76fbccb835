#include <algorithm>
#include <charconv>
#include <chrono>
#include <future>
#include <list>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "apps/access/node_argument.h"
#include "apps/cli/exit_codes.h"
#include "apps/cli/subcommand.h"
#include "apps/cli/terminal.h"
#include "apps/daemon/own_daemon.h"
#include "apps/run/follow.h"
#include "base/os/environment.h"
#include "net/socket.h"
#include "net/stream/relay.h"
#include "platform/client/chosen_daemon.h"

namespace lockstep::cli {
namespace {

constexpr Duration kAcceptSlice = std::chrono::milliseconds(200);
constexpr std::size_t kForwardedMax = 64;  // the daemon's limit for a run

struct ForwardFlags {
  std::string node;
  std::vector<std::string> ports;
  bool json = false;
};

struct Forward {
  int local = 0;
  int port = 0;
  net::Listener listener{};
};

Result<int> port_of(std::string_view words, int least) {
  int port = -1;
  const auto [end, error] = std::from_chars(words.data(), words.data() + words.size(), port);
  if (error != std::errc() || end != words.data() + words.size() || port < least || port > 65'535)
    return Error{Code::invalid, format("'{}' is not a port; expected PORT or LOCAL:PORT, such as "
                                       "8888 or 9000:8888",
                                       words)};
  return port;
}

Result<Forward> listen_for(const std::string& words) {
  const auto colon = words.find(':');
  Forward forward;
  forward.port =
      TRY(port_of(colon == std::string::npos ? words : std::string_view(words).substr(colon + 1),
                  /*least=*/1));
  forward.local = colon == std::string::npos
                      ? forward.port
                      : TRY(port_of(std::string_view(words).substr(0, colon), /*least=*/0));
  auto listener = net::Listener::tcp("127.0.0.1", static_cast<std::uint16_t>(forward.local));
  if (!listener)
    return Error{listener.error().code,
                 format("{}; take another local port, such as 0:{} for any free one",
                        listener.error().message, forward.port)};
  forward.listener = *std::move(listener);
  forward.local = forward.listener.port();
  return forward;
}

struct ForwardView {
  std::string address;
  std::string node;
  int port = 0;

  static constexpr auto fields() {
    return record<ForwardView>(
        field("address", &ForwardView::address, "where this machine's programs connect"),
        field("node", &ForwardView::node, "the node"),
        field("port", &ForwardView::port, "its port"));
  }
};

void print_forwards(const NodeOfRun& node, const std::vector<Forward>& forwards, bool json) {
  for (const Forward& forward : forwards) {
    const ForwardView view{format("127.0.0.1:{}", forward.local), node.name(), forward.port};
    print(json ? dump_json(to_json(view))
               : format("{} is port {} of {}; Ctrl-C ends it", view.address, view.port, view.node));
  }
}

// Accepts connections and opens a stream for each, on threads of its own.
class Forwarder {
 public:
  Forwarder(NodeOfRun node, std::vector<Forward> forwards)
      : node_(std::move(node)), forwards_(std::move(forwards)) {
    thread_ = std::jthread([this](const std::stop_token& stop) { accept_all(stop); });
  }

 private:
  void accept_all(const std::stop_token& stop) {
    std::vector<int> fds;
    for (const Forward& forward : forwards_) fds.push_back(forward.listener.fd());
    std::list<std::future<void>> streams;
    while (!stop.stop_requested()) {
      std::erase_if(streams, [](const auto& stream) {
        return stream.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
      });
      const auto ready = net::wait_readable(fds, Deadline::after(kAcceptSlice));
      if (!ready || !*ready) continue;
      Forward& forward = forwards_[**ready];
      auto accepted = forward.listener.try_accept();
      if (!accepted || !*accepted) continue;
      if (streams.size() >= kForwardedMax) {
        print_to_stderr(
            format("lockstep: {} connections are open, the most; one is refused", kForwardedMax));
        continue;
      }
      streams.push_back(std::async(std::launch::async, [this, port = forward.port, stop,
                                                        socket = **std::move(accepted)]() mutable {
        serve(port, std::move(socket), stop);
      }));
    }
  }

  // A client for each: the daemon may have been restarted at another address.
  void serve(int port, net::Socket socket, const std::stop_token& stop) const {
    const auto copied = [&]() -> Result<void> {
      client::Client client = TRY(client::open_chosen(own_environment()));
      auto connection = TRY(client.open_stream(node_.run, node_.index, {.port = port}));
      return net::relay(std::move(connection), std::move(socket).release(), stop);
    }();
    if (!copied && copied.error().code != Code::cancelled)
      print_to_stderr(format("lockstep: port {}: {}", port, copied.error().message));
  }

  const NodeOfRun node_;
  std::vector<Forward> forwards_;
  std::jthread thread_;  // the last member: it uses the others
};

Result<int> forward_ports(const ForwardFlags& flags) {
  const NodeOfRun node = TRY(node_argument(flags.node));
  std::vector<Forward> forwards;
  for (const std::string& words : flags.ports) forwards.push_back(TRY(listen_for(words)));
  client::Client client = TRY(connect_to_daemon());
  const api::RunView run = TRY(client.call(api::kRun, {.path = node.run}));
  if (model::is_final(run.state)) return Error{Code::invalid, format("{} has ended", run.id)};
  if (node.index >= run.spec.nodes)
    return Error{Code::not_found, format("{} has no node {}; its nodes are 0 to {}", run.id,
                                         node.index, run.spec.nodes - 1)};
  const InterruptHandler interrupt("");
  print_forwards(node, forwards, flags.json);
  const Forwarder forwarder(node, std::move(forwards));
  const auto end = TRY(wait_for_end(client, node.run));
  if (end) print_to_stderr(state_line(*end));
  return kDone;
}

}  // namespace

// `lockstep forward RUN[/NODE] [LOCAL:]PORT...`: ports of a node as ports of this machine.
void add_forward(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("forward", "Make ports of a node reachable on this machine");
  auto flags = std::make_shared<ForwardFlags>();
  add_node_argument(*command, flags->node);
  command
      ->add_option(
          "port", flags->ports,
          "ports of the node; with LOCAL: in front, the port here is another (0: any free)")
      ->required()
      ->type_name("[LOCAL:]PORT");
  command->add_flag("--json", flags->json, "one JSON object for each port");
  command->footer(
      "Connections go through the daemon, so the node needs no open port. A program of the run "
      "must\nlisten at the port, at localhost or at all addresses. The command ends with the run, "
      "or by Ctrl-C.\nIf the daemon restarts, open connections end; new ones work again.\n\n"
      "Examples:\n"
      "  lockstep forward demo/42 8888\n"
      "  lockstep forward demo/42/1 9000:6006");
  command->callback([&action, flags] { action = [flags] { return forward_ports(*flags); }; });
}

}  // namespace lockstep::cli
