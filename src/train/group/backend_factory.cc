#include "train/group/backend_factory.h"

#include <map>
#include <utility>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "base/mutex.h"

namespace lockstep::train {
namespace {

struct Factories {
  Mutex mutex;  // guards what follows
  std::map<std::string, BackendFactory> by_name LS_GUARDED_BY(mutex);
};

// Never destroyed: a factory may hold objects of an interpreter that has ended.
Factories& factories() {
  static auto* all = new Factories;
  return *all;
}

}  // namespace

void register_backend_factory(const std::string& backend_name, BackendFactory factory) {
  const Lock lock(factories().mutex);
  factories().by_name[backend_name] = std::move(factory);
}

BackendFactory find_backend_factory(const std::string& backend_name) {
  const Lock lock(factories().mutex);
  const auto found = factories().by_name.find(backend_name);
  return found == factories().by_name.end() ? nullptr : found->second;
}

}  // namespace lockstep::train
