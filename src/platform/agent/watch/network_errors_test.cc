#include "platform/agent/watch/network_errors.h"

#include <gtest/gtest.h>

namespace lockstep::agent {
namespace {

// Lines as the libraries printed them.
TEST(NetworkWords, BrokenConnectionsOfGlooNcclAndTorchsStoreAreKnown) {
  for (std::string_view line :
       {"RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:598] Connection closed by "
        "peer [172.28.0.12]:14004",
        "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:589] Read error "
        "[192.168.70.92]:25266: Connection reset by peer",
        "node2:2200689:2200706 [3] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed "
        "by remote peer node2<42830>",
        "a22:183006:183220 [1] misc/socket.cc:518 NCCL WARN Net : Call to recv from "
        "10.200.84.247<58355> failed : Broken pipe",
        "Net : Connection closed by remote peer node1<50260>",
        "socketProgressOpt: Call to recv from 172.16.0.4<33759> failed : Connection reset by peer",
        "socketPollConnect: connect returned Connection refused, exceeded error retry count (35)",
        "transport/net_ib.cc:1296 NCCL WARN NET/IB : Got completion from peer 10.2.0.5<33092> with "
        "error 12, opcode 0, len 0, vendor err 129 (Recv)",
        "NET/IB: Got completion from peer 10.2.0.5<40554> with status=IBV_WC_RETRY_EXC_ERR(12)",
        "torch.distributed.DistBackendError: NCCL error in: /pytorch/torch/csrc/distributed/c10d/"
        "NCCLUtils.cpp:77, remote process exited or there was a network error, NCCL version 2.26.2",
        "ncclRemoteError: A call failed possibly due to a network error or a remote process "
        "exiting prematurely.",
        "torch.distributed.DistNetworkError: Failed to recv, got 0 bytes. Connection was likely "
        "closed. Did the remote server shutdown or crash?"})
    EXPECT_EQ(network_fault_in(line), report::Fault::connection_lost) << line;
}

TEST(NetworkWords, TheirTimeOutsAreKnown) {
  for (std::string_view line :
       {"RuntimeError: [../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed out "
        "waiting 1800000ms for recv operation to complete",
        "[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=5, "
        "OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600211 milliseconds before timing out."})
    EXPECT_EQ(network_fault_in(line), report::Fault::timed_out) << line;
}

TEST(NetworkWords, OtherPeoplesConnectionsSayNothing) {
  for (std::string_view line :
       {"requests.exceptions.ConnectionError: ('Connection aborted.', ConnectionResetError(104, "
        "'Connection reset by peer'))",
        "BrokenPipeError: [Errno 32] Broken pipe", "ValueError: loss is nan",
        "NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0", "",
        "torch.distributed.DistBackendError: NCCL error in: /pytorch/torch/csrc/distributed/c10d/"
        "NCCLUtils.cpp:77, unhandled cuda error, NCCL version 2.26.2",
        "urllib.error.URLError: <urlopen error timed out>"})
    EXPECT_EQ(network_fault_in(line), report::Fault::none) << line;
}

}  // namespace
}  // namespace lockstep::agent
