// Messages of agents that attach to the daemon: their ranks were started by another launcher
// (docs/design/external-runs.md).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "platform/core/model/attempt.h"
#include "platform/core/model/run.h"
#include "text/record.h"

namespace lockstep::api {

struct ExternalNodeRequest {
  std::string job;          // the same on all hosts of the job
  std::string incarnation;  // random, of each start of the agent
  std::string machine;
  std::optional<Time> agent_started{};
  std::string launcher;
  std::vector<model::Rank> ranks;  // that the agent has; a job has each rank once
  model::RunSpec spec;
  model::Origin origin{};

  static constexpr auto fields() {
    return record<ExternalNodeRequest>(
        required(field("job", &ExternalNodeRequest::job,
                       "names the launcher's job, the same on all its hosts; at most 64 letters, "
                       "digits, '-', '_' and '.'")),
        required(field("incarnation", &ExternalNodeRequest::incarnation,
                       "random, of each start of an agent: a repeated call has the same answer")),
        required(field("machine", &ExternalNodeRequest::machine, "the name of the agent's host")),
        field("agent_started", &ExternalNodeRequest::agent_started, "when the agent started"),
        required(field("launcher", &ExternalNodeRequest::launcher,
                       "the program that started the ranks, such as torchrun")),
        required(field("ranks", &ExternalNodeRequest::ranks,
                       "the ranks that the agent knows; in a job each is at one agent")),
        required(field("spec", &ExternalNodeRequest::spec,
                       "its project, name, command, nodes, devices and working folder count; the "
                       "launcher has decided the rest")),
        field("origin", &ExternalNodeRequest::origin, "where the program came from"));
  }
};

struct ExternalNode {
  std::string run;   // demo/42
  std::string node;  // demo/42.1/0
  std::string generation;
  std::string token;  // of the attempt, for the agent's calls

  static constexpr auto fields() {
    return record<ExternalNode>(
        required(field("run", &ExternalNode::run, "the run of the job")),
        required(field("node", &ExternalNode::node, "project/number.epoch/index")),
        required(field("generation", &ExternalNode::generation, "of the store that has it")),
        required(field("token", &ExternalNode::token, "for the agent's heartbeats")));
  }
};

}  // namespace lockstep::api
