#include "platform/agent/watch/network_errors.h"

#include <algorithm>
#include <array>

namespace lockstep::agent {
namespace {

struct NetworkErrorPattern {
  std::string_view library;  // identifies the library
  std::string_view failure;
  report::Fault fault;
};

constexpr std::array kNetworkErrorPatterns = {
    // Gloo, transport/tcp/pair.cc: "[.../gloo/transport/tcp/pair.cc:598] Connection closed by peer
    // [10.0.0.2]:16786", "... Read error [...]: Connection reset by peer".
    NetworkErrorPattern{"gloo/transport/", "Connection closed by peer",
                        report::Fault::connection_lost},
    NetworkErrorPattern{"gloo/transport/", "Connection reset by peer",
                        report::Fault::connection_lost},
    NetworkErrorPattern{"gloo/transport/", "Broken pipe", report::Fault::connection_lost},
    NetworkErrorPattern{"gloo/transport/", "Connection timed out", report::Fault::connection_lost},
    NetworkErrorPattern{"gloo/transport/", "No route to host", report::Fault::connection_lost},
    // Gloo, transport/tcp/unbound_buffer.cc: "Timed out waiting 1800000ms for recv operation".
    NetworkErrorPattern{"gloo/transport/", "Timed out waiting", report::Fault::timed_out},
    // NCCL, misc/socket.cc: "NCCL WARN socketProgress: Connection closed by remote peer",
    // "NCCL WARN Net : Call to recv from 10.0.0.2<58355> failed : Broken pipe". torch prints the
    // same after "Last error:", without "NCCL WARN".
    NetworkErrorPattern{"NCCL WARN", "Connection closed by remote peer",
                        report::Fault::connection_lost},
    NetworkErrorPattern{"NCCL WARN", "Connection reset by peer", report::Fault::connection_lost},
    NetworkErrorPattern{"NCCL WARN", "Broken pipe", report::Fault::connection_lost},
    NetworkErrorPattern{"Net : ", "Connection closed by remote peer",
                        report::Fault::connection_lost},
    NetworkErrorPattern{"socketProgress", "Connection closed by remote peer",
                        report::Fault::connection_lost},
    NetworkErrorPattern{"socketProgress", "Connection reset by peer",
                        report::Fault::connection_lost},
    NetworkErrorPattern{"socketProgress", "Broken pipe", report::Fault::connection_lost},
    // "socketPollConnect: connect returned Connection refused, exceeded error retry count (35)".
    NetworkErrorPattern{"socketPollConnect", "exceeded error retry count",
                        report::Fault::connection_lost},
    // NCCL, transport/net_ib: "NET/IB: Got completion from peer 10.0.0.2<49189> with
    // status=IBV_WC_RETRY_EXC_ERR(12)", earlier "NET/IB : ...".
    NetworkErrorPattern{"NET/IB", "Got completion from peer", report::Fault::connection_lost},
    // torch, NCCLUtils: "NCCL error in: ..., remote process exited or there was a network error,
    // NCCL version 2.26.2", then "ncclRemoteError: A call failed possibly due to a network error
    // or a remote process exiting prematurely."
    NetworkErrorPattern{"NCCL error", "remote process exited or there was a network error",
                        report::Fault::connection_lost},
    NetworkErrorPattern{"ncclRemoteError", "network error", report::Fault::connection_lost},
    // torch, ProcessGroupNCCL: "Watchdog caught collective operation timeout: WorkNCCL(...)".
    NetworkErrorPattern{"WorkNCCL", "Watchdog caught collective operation timeout",
                        report::Fault::timed_out},
    // torch, TCPStore: "recvValue failed on SocketImpl(...): Failed to recv, got 0 bytes.
    // Connection was likely closed. Did the remote server shutdown or crash?"
    NetworkErrorPattern{"DistNetworkError", "Connection was likely closed",
                        report::Fault::connection_lost},
    NetworkErrorPattern{"DistNetworkError", "Connection reset by peer",
                        report::Fault::connection_lost},
    NetworkErrorPattern{"DistNetworkError", "Broken pipe", report::Fault::connection_lost},
};

}  // namespace

report::Fault network_fault_in(std::string_view line) {
  const auto found =
      std::ranges::find_if(kNetworkErrorPatterns, [&](const NetworkErrorPattern& entry) {
        return line.find(entry.library) != line.npos && line.find(entry.failure) != line.npos;
      });
  return found == kNetworkErrorPatterns.end() ? report::Fault::none : found->fault;
}

}  // namespace lockstep::agent
