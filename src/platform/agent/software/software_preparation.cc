#include "platform/agent/software/software_preparation.h"

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/os/environment.h"
#include "base/os/files.h"
#include "base/os/spawn.h"

namespace lockstep::agent {
namespace {

constexpr std::size_t kOutputMax = 4 << 20;
constexpr const char* kRemovalSecondsMax = "120";

bool has_container(const host::LaunchSpec& launch) {
  return launch.software->kind == model::SoftwareKind::image &&
         launch.software->runtime == model::ImageRuntime::podman;
}

}  // namespace

std::unique_ptr<SoftwarePreparation> SoftwarePreparation::start(const host::LaunchSpec& launch,
                                                                PreparationSetting setting,
                                                                Environment user) {
  std::unique_ptr<SoftwarePreparation> preparation(
      new SoftwarePreparation(launch, std::move(setting), std::move(user)));
  LS_LOG(info, "prepares {}", text(*launch.software));
  if (auto opened = preparation->open(); !opened)
    preparation->failure_ = std::move(opened).error().with_context(text(*launch.software));
  return preparation;
}

SoftwarePreparation::SoftwarePreparation(const host::LaunchSpec& launch, PreparationSetting setting,
                                         Environment user)
    : launch_(launch), setting_(std::move(setting)), user_(std::move(user)) {}

Result<void> SoftwarePreparation::open() {
  if (has_container(launch_)) TRY(open_hold());
  Pipe output = TRY(make_pipe());
  ::fcntl(output.read.get(), F_SETFL, O_NONBLOCK);
  const ProcessSpec program{.command = preparation_command(launch_, setting_),
                            .environment = preparation_variables(launch_, own_environment(), user_),
                            .folder = "/",
                            .output = output.write.get()};
  TRY(spawn(program, ProcessLifetime::ends_with_thread));
  output_ = std::move(output.read);
  return {};
}

// For both ends: so that it opens at once, and the container's end opens as long as this lives.
Result<void> SoftwarePreparation::open_hold() {
  const std::string path = hold_file(setting_);
  if (::mkfifo(path.c_str(), 0600) != 0) return os_error("making the pipe " + path, errno);
  hold_ = TRY(open_file(path, O_RDWR | O_NONBLOCK));
  return {};
}

std::optional<Result<PreparedSoftware>> SoftwarePreparation::take_result() {
  if (failure_) {
    Error failure = *std::move(failure_);
    failure_.reset();
    return Result<PreparedSoftware>(std::move(failure));
  }
  if (!output_ || !read_output()) return std::nullopt;
  output_.reset();
  return prepared_software(std::exchange(text_, {}), launch_, setting_, user_);
}

// True if nothing follows. A program that a login shell leaves behind may keep the pipe open.
bool SoftwarePreparation::read_output() {
  char buffer[1 << 14];
  while (true) {
    const ssize_t n = ::read(output_.get(), buffer, sizeof buffer);
    if (n > 0) {
      text_.append(buffer, static_cast<std::size_t>(n));
      if (text_.size() > kOutputMax) return true;
    } else if (n == 0) {
      return true;
    } else if (errno != EINTR) {
      return errno != EAGAIN || is_preparation_complete(text_);
    }
  }
}

// The end of the pipe ends the container, and conmon removes it. But the agent may have killed
// conmon, if the preparation was broken off.
SoftwarePreparation::~SoftwarePreparation() {
  if (!has_container(launch_)) return;
  hold_.reset();
  ::unlink(hold_file(setting_).c_str());
  auto null = open_file("/dev/null", O_RDWR);
  if (!null) return;
  const auto removed =
      spawn_detached({.command = {"timeout", kRemovalSecondsMax, "podman", "rm", "--force",
                                  "--ignore", container_name(setting_)},
                      .environment = preparation_variables(launch_, own_environment(), user_),
                      .folder = "/",
                      .output = null->get()});
  if (!removed) LS_LOG(debug, "removing the container: {}", removed.error().message);
}

}  // namespace lockstep::agent
