// Launch: all that an agent needs to know of its node. It travels as a file (0600) in the node's
// folder.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "platform/core/model/ids.h"
#include "platform/core/model/orphan.h"
#include "platform/core/model/run.h"
#include "text/record.h"

namespace lockstep {

struct Launch {
  std::string node;        // demo/42.2/0
  std::string generation;  // of its attempt: LOCKSTEP_STORE
  // By which another store may adopt it; absent: launched by a Lockstep that had none.
  std::optional<AttemptRecord> attempt;
  std::string host;     // the map's host id: LOCKSTEP_HOST_ID
  std::string address;  // where other nodes reach this host
  std::vector<int>
      devices;        // their numbers on the machine, as CUDA_VISIBLE_DEVICES counts; one rank each
  bool gpus = false;  // the devices are GPUs: set CUDA_VISIBLE_DEVICES
  // Of each device all of its island; empty where the host has one island only, or devices that
  // share a core.
  std::vector<std::vector<int>> islands;
  int first_rank = 0;
  int world_size = 1;
  int nodes = 1;
  std::vector<std::string> command;
  std::map<std::string, std::string> env;
  std::string working_folder;
  std::string checkpoint_folder;
  std::string node_folder;  // logs, spool, launch file
  std::string daemon_file;  // says where the daemon is now; read again when it does not answer
  std::string token;        // for the agent's calls
  std::string secret;       // the attempt's, 64 hex digits
  Duration hang_after{};    // without progress of a rank that has reported some; zero: never
  Duration time_left{};     // running time that is left; the agent enforces it on its own too
  OnFailure on_failure = OnFailure::restart;  // when a rank is killed
  Duration start_limit{};  // after the first `start` the ranks of all nodes run, or never will
  Duration flight_look = std::chrono::seconds(30);  // between looks for stragglers
  // How long its agent goes on though each call is refused.
  Duration refusal_limit = std::chrono::minutes(10);

  static constexpr auto fields() {
    return record<Launch>(
        required(field("node", &Launch::node, "project/number.epoch/index")),
        field("generation", &Launch::generation, "of the store that made its attempt"),
        field("attempt", &Launch::attempt, "what another store needs to adopt it"),
        required(field("host", &Launch::host, "host id in the map")),
        field("address", &Launch::address, "where other nodes reach it"),
        field("devices", &Launch::devices, "device numbers on the machine"),
        field("gpus", &Launch::gpus, "the devices are GPUs"),
        field("islands", &Launch::islands,
              "of each device all of its island, if there are several"),
        field("first_rank", &Launch::first_rank, "global rank of local rank 0"),
        field("world_size", &Launch::world_size, "ranks in all"),
        field("nodes", &Launch::nodes, "nodes in all"),
        required(field("command", &Launch::command, "program and arguments")),
        field("env", &Launch::env, "environment of the ranks"),
        field("working_folder", &Launch::working_folder, "where ranks start"),
        field("checkpoint_folder", &Launch::checkpoint_folder, "for checkpoints"),
        required(field("node_folder", &Launch::node_folder, "logs and spool")),
        required(field("daemon_file", &Launch::daemon_file, "address of the daemon")),
        required(field("token", &Launch::token, "for the agent's calls")),
        required(field("secret", &Launch::secret, "the attempt's secret")),
        field("hang_after", &Launch::hang_after, "a rank without progress is hung; 0s: never"),
        field("time_left", &Launch::time_left, "running time left"),
        field("on_failure", &Launch::on_failure, "what follows when a rank is killed"),
        field("start_limit", &Launch::start_limit, "for the ranks of all nodes to start"),
        field("flight_look", &Launch::flight_look, "time between looks for stragglers"),
        field("refusal_limit", &Launch::refusal_limit, "for an agent that is refused"));
  }
};

}  // namespace lockstep
