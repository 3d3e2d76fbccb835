#include "report/reporter.h"

#include <filesystem>
#include <string>

#include "lockstep/report.h"

namespace lockstep {

struct Reporter::Impl {
  std::unique_ptr<report::Reporter> reporter;
};

Reporter::Reporter(WithoutRun without_run)
    : impl_(std::make_unique<Impl>(Impl{report::Reporter::from_environment(
          without_run == WithoutRun::print ? report::WithoutAgent::print
                                           : report::WithoutAgent::discard)})) {}
Reporter::~Reporter() = default;
Reporter::Reporter(Reporter&&) noexcept = default;
Reporter& Reporter::operator=(Reporter&&) noexcept = default;

void Reporter::metric(std::int64_t step, std::string_view name, double value) {
  impl_->reporter->metrics(step, {{std::string(name), value}});
}

void Reporter::progress(std::int64_t step, std::int64_t steps) {
  impl_->reporter->progress(step, steps);
}

void Reporter::checkpoint(std::int64_t step, std::string_view path) {
  impl_->reporter->checkpoint(step, std::filesystem::path(path));
}

void Reporter::event(std::int64_t step, std::string_view text) {
  impl_->reporter->event(step, text);
}

std::int64_t Reporter::dropped() const { return impl_->reporter->dropped(); }

}  // namespace lockstep
