#include "platform/agent/network_words.h"

#include <algorithm>
#include <array>

namespace lockstep {
namespace {

struct Entry {
  std::string_view library;  // names it
  std::string_view failure;
  Fault fault;
};

constexpr std::array kEntries = {
    // Gloo, transport/tcp/pair.cc: "[.../gloo/transport/tcp/pair.cc:598] Connection closed by peer
    // [10.0.0.2]:16786", "... Read error [...]: Connection reset by peer".
    Entry{"gloo/transport/", "Connection closed by peer", Fault::connection_lost},
    Entry{"gloo/transport/", "Connection reset by peer", Fault::connection_lost},
    Entry{"gloo/transport/", "Broken pipe", Fault::connection_lost},
    Entry{"gloo/transport/", "Connection timed out", Fault::connection_lost},
    Entry{"gloo/transport/", "No route to host", Fault::connection_lost},
    // Gloo, transport/tcp/unbound_buffer.cc: "Timed out waiting 1800000ms for recv operation".
    Entry{"gloo/transport/", "Timed out waiting", Fault::timed_out},
    // NCCL, misc/socket.cc: "NCCL WARN socketProgress: Connection closed by remote peer",
    // "NCCL WARN Net : Call to recv from 10.0.0.2<58355> failed : Broken pipe". torch prints the
    // same after "Last error:", without "NCCL WARN".
    Entry{"NCCL WARN", "Connection closed by remote peer", Fault::connection_lost},
    Entry{"NCCL WARN", "Connection reset by peer", Fault::connection_lost},
    Entry{"NCCL WARN", "Broken pipe", Fault::connection_lost},
    Entry{"Net : ", "Connection closed by remote peer", Fault::connection_lost},
    Entry{"socketProgress", "Connection closed by remote peer", Fault::connection_lost},
    Entry{"socketProgress", "Connection reset by peer", Fault::connection_lost},
    Entry{"socketProgress", "Broken pipe", Fault::connection_lost},
    // "socketPollConnect: connect returned Connection refused, exceeded error retry count (35)".
    Entry{"socketPollConnect", "exceeded error retry count", Fault::connection_lost},
    // NCCL, transport/net_ib: "NET/IB: Got completion from peer 10.0.0.2<49189> with
    // status=IBV_WC_RETRY_EXC_ERR(12)", earlier "NET/IB : ...".
    Entry{"NET/IB", "Got completion from peer", Fault::connection_lost},
    // torch, NCCLUtils: "NCCL error in: ..., remote process exited or there was a network error,
    // NCCL version 2.26.2", then "ncclRemoteError: A call failed possibly due to a network error
    // or a remote process exiting prematurely."
    Entry{"NCCL error", "remote process exited or there was a network error",
          Fault::connection_lost},
    Entry{"ncclRemoteError", "network error", Fault::connection_lost},
    // torch, ProcessGroupNCCL: "Watchdog caught collective operation timeout: WorkNCCL(...)".
    Entry{"WorkNCCL", "Watchdog caught collective operation timeout", Fault::timed_out},
    // torch, TCPStore: "recvValue failed on SocketImpl(...): Failed to recv, got 0 bytes.
    // Connection was likely closed. Did the remote server shutdown or crash?"
    Entry{"DistNetworkError", "Connection was likely closed", Fault::connection_lost},
    Entry{"DistNetworkError", "Connection reset by peer", Fault::connection_lost},
    Entry{"DistNetworkError", "Broken pipe", Fault::connection_lost},
};

}  // namespace

Fault fault_in(std::string_view line) {
  const auto found = std::ranges::find_if(kEntries, [&](const Entry& entry) {
    return line.find(entry.library) != line.npos && line.find(entry.failure) != line.npos;
  });
  return found == kEntries.end() ? Fault::none : found->fault;
}

}  // namespace lockstep
