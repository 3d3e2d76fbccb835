// MemoryStore: a Store without a disk, for tests; it outlives the controllers that are opened
// on it, as a file would.
#pragma once

#include <algorithm>
#include <optional>
#include <ranges>
#include <string>
#include <vector>

#include "platform/store/budget_store.h"
#include "platform/store/identity_store.h"
#include "platform/store/store.h"

namespace lockstep::store {

class MemoryStore : public Store, public IdentityStore, public BudgetStore {
 public:
  Result<model::State> load() override {
    model::drop_unstored_orphans(state_);
    model::State state = state_;
    model::drop_ended_runs(state, Time::max());
    return state;
  }
  Result<std::optional<model::RunRows>> find_run(const model::RunId& run) override {
    if (!state_.runs.contains(run)) return std::optional<model::RunRows>();
    return std::optional(model::rows_of(state_, run));
  }
  Result<std::optional<model::RunId>> find_request(const std::string& request_id) override {
    const auto found = state_.requests.find(request_id);
    return found == state_.requests.end() ? std::nullopt : std::optional(found->second);
  }
  Result<std::vector<model::Run>> list_runs(const model::RunFilter& filter) override {
    return model::list_runs(state_, filter);
  }
  Result<void> commit(std::span<const model::Change> changes) override {
    if (failure_) return *failure_;
    put(changes);
    ++commits_;
    return {};
  }
  Result<void> remove_run(const model::RunRows& run, std::span<const model::Change> also) override {
    if (failure_) return *failure_;
    model::drop_ended_run(state_, run.run.id);
    put(also);
    return {};
  }
  Result<void> check_writable() override {
    if (failure_) return *failure_;
    return {};
  }

  Result<identity::Directory> load_directory() override { return directory_; }
  Result<void> commit(const identity::Changes& changes,
                      const std::optional<model::AuditRecord>& record) override {
    if (failure_) return *failure_;
    identity::apply(directory_, changes);
    if (record) add(*record);
    return {};
  }
  Result<std::optional<identity::Secret>> find_secret(const identity::SecretId& id) override {
    const auto found = directory_.secrets.find(id);
    return found == directory_.secrets.end() ? std::nullopt : std::optional(found->second);
  }
  // By the filter's user, projects and limit.
  Result<std::vector<model::AuditRecord>> list_audit(const model::AuditFilter& filter) override {
    std::vector<model::AuditRecord> found;
    for (const model::AuditRecord& record : std::views::reverse(audit_))
      if ((!filter.user || record.user == *filter.user) &&
          (!filter.projects || std::ranges::count(*filter.projects, record.project) > 0))
        found.push_back(record);
    if (found.size() > static_cast<std::size_t>(filter.limit))
      found.resize(static_cast<std::size_t>(filter.limit));
    return found;
  }

  // Budgets have tests of their own on SqlBudgetStore.
  Result<std::vector<StoredPosting>> list_postings(const PostingFilter&) override {
    return std::vector<StoredPosting>();
  }
  Result<std::vector<UsageSum>> usage(const UsageFilter&) override {
    return std::vector<UsageSum>();
  }

  // From now on commit() and check_writable() fail with this; nullopt: they work again.
  void fail_with(std::optional<Error> failure) { failure_ = std::move(failure); }
  int commits() const { return commits_; }
  const std::vector<model::Notice>& notices() const { return notices_; }

 private:
  void put(std::span<const model::Change> changes) {
    for (const model::Change& change : changes) {
      model::apply(state_, change);
      if (const auto* record = std::get_if<model::AuditRecord>(&change)) add(*record);
      if (const auto* notice = std::get_if<model::Notice>(&change)) notices_.push_back(*notice);
    }
  }
  void add(model::AuditRecord record) {
    record.id = static_cast<std::int64_t>(audit_.size()) + 1;
    audit_.push_back(std::move(record));
  }

  model::State state_;
  identity::Directory directory_;
  std::vector<model::AuditRecord> audit_;
  std::vector<model::Notice> notices_;
  std::optional<Error> failure_;
  int commits_ = 0;
};

}  // namespace lockstep::store
