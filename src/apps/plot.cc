#include "text/plot.h"

#include <algorithm>
#include <memory>

#include <unistd.h>

#include "apps/command.h"

namespace lockstep {
namespace {

struct PlotFlags {
  std::string run;
  std::vector<std::string> names;
  std::optional<int> rank;
  bool log = false;
  int height = 16;
};

// Only the lowest rank that logged a metric is drawn, unless one is asked for: four equal curves
// hide each other.
Result<std::vector<PlotSeries>> fetch(Client& client, const RunId& id, const PlotFlags& flags) {
  std::vector<PlotSeries> plots;
  for (const std::string& name : flags.names) {
    api::SeriesList list = TRY(client.metrics(id, {.name = name, .rank = flags.rank}));
    if (list.series.empty())
      return Error{Code::not_found,
                   format("{} has logged no metric '{}'; see `lockstep metrics {}`", flags.run,
                          name, flags.run)};
    const auto& series = *std::ranges::min_element(list.series, {}, &api::Series::rank);
    PlotSeries plot{.name = name};
    for (const api::Point& point : series.points)
      plot.points.push_back({static_cast<double>(point.step), point.value});
    plots.push_back(std::move(plot));
  }
  return plots;
}

}  // namespace

// `lockstep plot RUN [METRIC...]`: curves over steps, drawn in the terminal.
void add_plot(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("plot", "Draw metrics over steps in the terminal");
  auto flags = std::make_shared<PlotFlags>();
  command->add_option("run", flags->run, "the run, such as demo/42")->required();
  command->add_option("metric", flags->names, "metrics to draw (default: loss)");
  command->add_option("--rank", flags->rank, "what this rank logged");
  command->add_flag("--log", flags->log, "logarithmic y axis");
  command->add_option("--height", flags->height, "lines")
      ->capture_default_str()
      ->check(CLI::Range(4, 200));
  command->callback([&action, flags] {
    action = [flags]() -> Result<int> {
      if (flags->names.empty()) flags->names = {"loss"};
      Client client = TRY(connect());
      auto series = TRY(fetch(client, TRY(run_argument(flags->run)), *flags));
      print(plot(series, {.width = std::min(terminal_width(), 100),
                          .height = flags->height,
                          .log_y = flags->log,
                          .colour = is_terminal(STDOUT_FILENO),
                          .x_label = "step"}));
      return kDone;
    };
  });
}

}  // namespace lockstep
