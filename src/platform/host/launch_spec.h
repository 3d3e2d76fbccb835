// LaunchSpec: all data of a node for its agent, in a file (0600) in the node's folder.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "platform/core/model/ids.h"
#include "platform/core/model/orphan.h"
#include "platform/core/model/run.h"
#include "platform/core/model/software_environment.h"
#include "text/record.h"

namespace lockstep::host {

struct LaunchSpec {
  std::string node;        // demo/42.2/0
  std::string generation;  // of its attempt: LOCKSTEP_STORE
  // Record with which another store may adopt it; absent: launched by an older Lockstep.
  std::optional<model::AttemptRecord> attempt;
  std::string host;     // the map's host id: LOCKSTEP_HOST_ID
  std::string address;  // where other nodes reach this host
  std::vector<int>
      devices;        // their numbers on the machine, in CUDA_VISIBLE_DEVICES order; one rank each
  bool gpus = false;  // the devices are GPUs: set CUDA_VISIBLE_DEVICES
  // The GPUs' UUIDs in the order of `devices`, for CUDA_VISIBLE_DEVICES. Empty if one is unknown.
  std::vector<std::string> device_uuids;
  // For each device all devices of its island; empty if the host has only one island, or if devices
  // share a core.
  std::vector<std::vector<int>> islands;
  int first_rank = 0;
  int world_size = 1;
  int nodes = 1;
  std::vector<std::string> command;
  std::map<std::string, std::string> env;
  std::vector<std::string> secret_variables{};  // of `env`; the agent masks their values
  std::string user;  // its submitter, as which a host service of root starts the agent
  std::optional<model::SoftwareEnvironment> software;  // none: that of the host
  std::string working_folder;
  std::string checkpoint_folder;
  std::string node_folder;  // logs, spool, launch file
  std::string daemon_file;  // has the daemon's address; read again when it does not answer
  std::string token;        // for the agent's calls
  std::string secret;       // the attempt's, 64 hex digits
  Duration hang_after{};    // without progress of a rank that has reported; zero: never
  Duration time_left{};     // running time that is left; the agent enforces it, too
  std::optional<std::string> signal{};  // to the ranks before that ends: model::LimitSignal
  // Without a call that reaches the daemon for so long, the agent ends its ranks and itself; zero:
  // never.
  Duration lease{};
  model::OnFailure on_failure = model::OnFailure::restart;  // when a rank is killed
  Duration start_limit{};  // time after the first `start` by which the ranks of all nodes run, or
                           // never will
  Duration straggler_check_interval = std::chrono::seconds(30);  // between scans for stragglers
  Duration telemetry_interval{};  // between readings of the host and its devices; zero: none
  // How long its agent continues although each call is refused.
  Duration refusal_limit = std::chrono::minutes(10);
  // The id of the uploaded folder whose files the agent gets; ranks start there.
  std::optional<std::string> upload;
  // Each host has a checkpoint folder of its own: the agent gets what the next attempt needs.
  bool host_checkpoints = false;

  static constexpr auto fields() {
    return record<LaunchSpec>(
        required(field("node", &LaunchSpec::node, "project/number.epoch/index")),
        field("generation", &LaunchSpec::generation, "of the store that made its attempt"),
        field("attempt", &LaunchSpec::attempt, "what another store needs to adopt it"),
        required(field("host", &LaunchSpec::host, "host id in the map")),
        field("address", &LaunchSpec::address, "where other nodes reach it"),
        field("devices", &LaunchSpec::devices, "device numbers on the machine"),
        field("gpus", &LaunchSpec::gpus, "the devices are GPUs"),
        field("device_uuids", &LaunchSpec::device_uuids, "UUIDs of the GPUs, if all are known"),
        field("islands", &LaunchSpec::islands,
              "of each device all of its island, if there are several"),
        field("first_rank", &LaunchSpec::first_rank, "global rank of local rank 0"),
        field("world_size", &LaunchSpec::world_size, "ranks in all"),
        field("nodes", &LaunchSpec::nodes, "nodes in all"),
        required(field("command", &LaunchSpec::command, "program and arguments")),
        field("env", &LaunchSpec::env, "environment of the ranks"),
        field("secret_variables", &LaunchSpec::secret_variables, "variables of secrets"),
        field("user", &LaunchSpec::user, "who submitted the run"),
        field("software", &LaunchSpec::software, "what the agent prepares for the ranks"),
        field("working_folder", &LaunchSpec::working_folder, "where ranks start"),
        field("checkpoint_folder", &LaunchSpec::checkpoint_folder, "for checkpoints"),
        required(field("node_folder", &LaunchSpec::node_folder, "logs and spool")),
        required(field("daemon_file", &LaunchSpec::daemon_file, "address of the daemon")),
        required(field("token", &LaunchSpec::token, "for the agent's calls")),
        required(field("secret", &LaunchSpec::secret, "the attempt's secret")),
        field("hang_after", &LaunchSpec::hang_after, "a rank without progress is hung; 0s: never"),
        field("time_left", &LaunchSpec::time_left, "running time left"),
        field("signal", &LaunchSpec::signal, "for the ranks before their time limit"),
        field("lease", &LaunchSpec::lease, "without reaching the daemon, until its end; 0s: never"),
        field("on_failure", &LaunchSpec::on_failure, "what follows when a rank is killed"),
        field("start_limit", &LaunchSpec::start_limit, "for the ranks of all nodes to start"),
        field("flight_look", &LaunchSpec::straggler_check_interval,
              "time between looks for stragglers"),
        field("telemetry_interval", &LaunchSpec::telemetry_interval,
              "time between readings of the host and its devices; 0s: none"),
        field("refusal_limit", &LaunchSpec::refusal_limit, "for an agent that is refused"),
        field("upload", &LaunchSpec::upload, "folder that the agent gets from the daemon"),
        field("host_checkpoints", &LaunchSpec::host_checkpoints,
              "the checkpoint folder is another one on each host"));
  }
};

}  // namespace lockstep::host
