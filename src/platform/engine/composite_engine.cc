#include "platform/engine/composite_engine.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "base/format.h"
#include "base/log.h"

namespace lockstep::engine {
namespace {

void add_part(EngineList&& part, const std::set<std::string>& hosts, EngineList& all) {
  for (const std::string& host : hosts)
    if (std::string reason = part.why_unavailable(host); !reason.empty())
      all.unavailable.emplace(host, std::move(reason));
  std::ranges::move(part.nodes, std::back_inserter(all.nodes));
  all.silent.merge(part.silent);
  all.unfit.merge(part.unfit);
}

}  // namespace

CompositeEngine::CompositeEngine(std::vector<Part> parts) : parts_(std::move(parts)) {
  LS_CHECK(!parts_.empty());
  for (const Part& part : parts_) {
    if (!name_.empty()) name_ += ',';
    name_ += part.engine.name();
  }
}

void CompositeEngine::submit(Gang gang) {
  LS_CHECK(!gang.nodes.empty());
  const std::string& host = gang.nodes.front().host;
  for (const Part& part : parts_)
    if (part.hosts.contains(host)) return part.engine.submit(std::move(gang));
  LS_LOG(warning, "{} does not start: no engine has the host {} any more", text(gang.attempt.id),
         host);
}

void CompositeEngine::kill(const model::NodeName& node) {
  for (const Part& part : parts_) part.engine.kill(node);
}

Result<EngineList> CompositeEngine::list() {
  EngineList all;
  std::vector<std::string> failures;
  for (const Part& part : parts_) {
    auto listed = part.engine.list();
    if (listed) {
      add_part(*std::move(listed), part.hosts, all);
      continue;
    }
    failures.push_back(format("the engine {}: {}", part.engine.name(), listed.error().message));
    for (const std::string& host : part.hosts) all.unavailable.emplace(host, failures.back());
  }
  if (failures.size() == parts_.size()) return Error{Code::unavailable, joined(failures, "; ")};
  std::ranges::sort(all.nodes, {}, &ListedNode::node);
  return all;
}

}  // namespace lockstep::engine
