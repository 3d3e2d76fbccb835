#include "platform/agent/ranks/stand_in.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "base/format.h"
#include "base/os/files.h"
#include "platform/core/model/stand_in.h"

namespace lockstep::agent {
namespace {

// A package whose calls one of Lockstep's has.
struct StandIn {
  std::string_view variable;  // of the run, by which it asks for this one
  std::string_view name, version, option;
};

constexpr StandIn kStandIns[] = {{model::kWandb, "wandb", "0.21.0", "--wandb"},
                                 {model::kHorovod, "horovod", "0.28.1", "--horovod"}};

bool wants(const host::LaunchSpec& launch, const StandIn& one) {
  const auto set = launch.env.find(std::string(one.variable));
  return set != launch.env.end() && set->second == "1";
}

std::string module_text(const StandIn& one) {
  return format(R"python(try:
    from lockstep.{0} import take_place
except ModuleNotFoundError as error:
    raise ImportError(
        "lockstep run {1} needs the Python package lockstep in the environment of the ranks: "
        f"install its wheel there ({{error}})"
    ) from None
take_place()
)python",
                one.name, one.option);
}

Result<void> write_stand_in(const StandIn& one, const std::filesystem::path& folder) {
  const auto metadata = folder / format("{}-{}.dist-info", one.name, one.version);
  TRY(make_folders(metadata));
  TRY(write_file(folder / format("{}.py", one.name), module_text(one), 0644));
  return write_file(metadata / "METADATA",
                    format("Metadata-Version: 2.1\nName: {}\nVersion: {}\n", one.name, one.version),
                    0644);
}

}  // namespace

bool wants_stand_in(const host::LaunchSpec& launch) {
  return std::ranges::any_of(kStandIns, [&](const StandIn& one) { return wants(launch, one); });
}

Result<void> write_stand_ins(const host::LaunchSpec& launch, const std::filesystem::path& folder) {
  for (const StandIn& one : kStandIns)
    if (wants(launch, one)) TRY(write_stand_in(one, folder));
  return {};
}

}  // namespace lockstep::agent
