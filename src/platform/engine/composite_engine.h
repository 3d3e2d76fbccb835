// CompositeEngine: several engines as one. Each has hosts of its own (docs/design/engines.md).
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "platform/engine/engine.h"

namespace lockstep::engine {

class CompositeEngine : public Engine {
 public:
  struct Part {
    Engine& engine;  // outlives this one
    std::set<std::string> hosts;
  };
  // The parts have different names, and each host is in one part.
  explicit CompositeEngine(std::vector<Part> parts);

  // The names of the parts, joined by commas. An attempt has the name of its part.
  std::string_view name() const override { return name_; }
  // All hosts of a gang are in one part. A gang on hosts that no part has, of an earlier map, does
  // not start: its nodes are not listed, and so they are gone.
  void submit(Gang gang) override;
  // Goes to all parts: one that does not have the node ignores it.
  void kill(const model::NodeName& node) override;
  // A part whose list fails makes its hosts unavailable. Code::unavailable: all lists fail.
  Result<EngineList> list() override;

 private:
  const std::vector<Part> parts_;
  std::string name_;
};

}  // namespace lockstep::engine
