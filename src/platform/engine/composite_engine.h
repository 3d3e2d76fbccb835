// CompositeEngine: several engines as one. Each has hosts of its own (docs/design/engines.md).
#pragma once

#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "map/map.h"
#include "platform/engine/engine.h"

namespace lockstep::engine {

class CompositeEngine : public Engine {
 public:
  struct Part {
    Engine& engine;  // outlives this one
    map::ClusterMap map;
    bool hosts_join = false;  // it has the hosts that join, and no map of them
  };
  // Fails if two parts have a host of the same id. The parts have different names.
  static Result<std::unique_ptr<CompositeEngine>> create(std::vector<Part> parts);

  // The hosts of all parts but those that join.
  const map::ClusterMap& map() const { return *map_; }

  // The names of the parts, joined by commas. An attempt has the name of its part.
  std::string_view name() const override { return name_; }
  // Goes to the part that has its hosts. A gang on hosts that join, or whose hosts its engine
  // chooses, goes to the part that it names. A gang on hosts that no part has, of an earlier map,
  // does not start: its nodes are not listed, and so they are gone.
  void submit(Gang gang) override;
  // Goes to all parts: one that does not have the node ignores it.
  void kill(const model::NodeName& node) override;
  // A part whose list fails is not listed, and its hosts are unavailable. Code::unavailable: all
  // lists fail.
  Result<EngineList> list() override;

 private:
  struct Member {
    Part part;
    std::set<std::string> hosts;                  // of its map
    std::shared_ptr<const map::ClusterMap> seen;  // in its last list; null: it makes no map
  };
  explicit CompositeEngine(std::vector<Part> parts);
  Result<void> join_maps();
  void update_map(Member& member, const std::shared_ptr<const map::ClusterMap>& seen);
  void drop_hosts_of_others(Member& member) const;

  std::vector<Member> members_;
  std::string name_;
  std::shared_ptr<const map::ClusterMap> map_;
};

}  // namespace lockstep::engine
