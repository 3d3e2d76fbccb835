#include "platform/engine/composite_engine.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "base/format.h"
#include "base/log.h"
#include "map/grown_map.h"
#include "map/join_maps.h"
#include "map/query.h"

namespace lockstep::engine {
namespace {

void add_common_fields(EngineList&& part, std::string_view engine, EngineList& all) {
  for (ListedNode& node : part.nodes) node.engine = engine;
  std::ranges::move(part.nodes, std::back_inserter(all.nodes));
  all.unknown_projects.merge(part.unknown_projects);
  all.silent.merge(part.silent);
  all.unfit.merge(part.unfit);
}

void add_part(EngineList&& part, std::string_view engine, const std::set<std::string>& hosts,
              EngineList& all) {
  for (const std::string& host : hosts)
    if (std::string reason = part.why_unavailable(host); !reason.empty())
      all.unavailable.emplace(host, std::move(reason));
  add_common_fields(std::move(part), engine, all);
}

// Only its list tells which hosts it has: those that have called.
void add_joined_hosts(EngineList&& part, std::string_view engine, EngineList& all) {
  all.unavailable.merge(part.unavailable);
  if (!all.answered) all.answered.emplace();
  if (part.answered) all.answered->merge(*part.answered);
  add_common_fields(std::move(part), engine, all);
}
}  // namespace

Result<std::unique_ptr<CompositeEngine>> CompositeEngine::create(std::vector<Part> parts) {
  LS_CHECK(!parts.empty());
  std::unique_ptr<CompositeEngine> engine(new CompositeEngine(std::move(parts)));
  TRY(engine->join_maps());
  return engine;
}

CompositeEngine::CompositeEngine(std::vector<Part> parts) {
  for (Part& part : parts) {
    if (!name_.empty()) name_ += ',';
    name_ += part.engine.name();
    members_.push_back({std::move(part), {}, nullptr});
  }
}

Result<void> CompositeEngine::join_maps() {
  std::vector<map::EngineMap> maps;
  for (Member& member : members_) {
    maps.push_back({std::string(member.part.engine.name()), member.part.map});
    member.hosts.clear();
    for (const map::Host* host : map::hosts(member.part.map)) member.hosts.insert(host->id);
  }
  map_ = std::make_shared<const map::ClusterMap>(TRY(map::join_maps(std::move(maps))));
  return {};
}

// Its map is the same object until it changes.
void CompositeEngine::update_map(Member& member,
                                 const std::shared_ptr<const map::ClusterMap>& seen) {
  if (!seen || seen == member.seen) return;
  member.seen = seen;
  // The controller decides which devices count.
  member.part.map =
      map::grown_map(member.part.map, *seen, [](const std::string&) { return false; });
  drop_hosts_of_others(member);
  const auto joint = join_maps();
  LS_CHECK(joint);
}

void CompositeEngine::drop_hosts_of_others(Member& member) const {
  const auto is_of_another = [&](const map::Host& host) {
    return std::ranges::any_of(members_, [&](const Member& other) {
      if (&other == &member || !other.hosts.contains(host.id)) return false;
      LS_LOG(warning, "the host {} of the engine {} is ignored: the engine {} has one of this name",
             host.id, member.part.engine.name(), other.part.engine.name());
      return true;
    });
  };
  for (map::Pod& pod : member.part.map.pods)
    for (map::Leaf& leaf : pod.leaves) std::erase_if(leaf.hosts, is_of_another);
}

void CompositeEngine::submit(Gang gang) {
  LS_CHECK(!gang.nodes.empty());
  const std::string& host = gang.nodes.front().host;
  for (const Member& member : members_) {
    const bool is_named = gang.engine == member.part.engine.name();
    const bool has_no_list = member.part.hosts_join || host.empty();
    if (has_no_list ? is_named : member.hosts.contains(host))
      return member.part.engine.submit(std::move(gang));
  }
  LS_LOG(warning, "{} does not start: no engine has the host {} any more", text(gang.attempt.id),
         host);
}

void CompositeEngine::kill(const model::NodeName& node) {
  for (const Member& member : members_) member.part.engine.kill(node);
}

Result<EngineList> CompositeEngine::list() {
  EngineList all;
  std::vector<std::string> failures;
  for (Member& member : members_) {
    const Engine& engine = member.part.engine;
    auto listed = member.part.engine.list();
    if (listed && member.part.hosts_join) {
      add_joined_hosts(*std::move(listed), engine.name(), all);
      continue;
    }
    if (listed) {
      update_map(member, listed->map);
      add_part(*std::move(listed), engine.name(), member.hosts, all);
      continue;
    }
    failures.push_back(format("the engine {}: {}", engine.name(), listed.error().message));
    all.unlisted.emplace(engine.name(), failures.back());
    for (const std::string& host : member.hosts) all.unavailable.emplace(host, failures.back());
  }
  if (failures.size() == members_.size()) return Error{Code::unavailable, joined(failures, "; ")};
  std::ranges::sort(all.nodes, {}, &ListedNode::node);
  if (all.answered)
    for (const Member& member : members_)
      all.answered->insert(member.hosts.begin(), member.hosts.end());
  all.map = map_;
  return all;
}

}  // namespace lockstep::engine
