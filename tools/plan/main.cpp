// SPDX-License-Identifier: Apache-2.0
// ostraka-plan: reads its command line, makes the dry runs, writes what was asked for, turns errors into exit statuses.
#include "file.hpp"
#include "render.hpp"
#include "text.hpp"
#include <ostraka/base/error.hpp>
#include <ostraka/base/version.hpp>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <span>
#include <string>
#include <string_view>

namespace {

using namespace ostraka::tool;

constexpr const char* description =
    "What training a network would hold, send and take, before anything is allocated: bytes per rank and node, "
    "collectives,\n"
    "the time line of a step, for every recipe, by the rules that a run follows. Serial; needs no MPI and no GPU.\n"
    "MODEL is a JSON file with shapes by unit:\n"
    R"(  {"model": "two layers", "units": [{"unit": "layer", "count": 2, "tensors": [["weight", [512, 512]], ["bias", [512]]]}]})";
constexpr const char* footer = R"(
SIZES
  80GiB is 80 x 1024^3 bytes, 80GB is 80 x 1000^3, 4096 is bytes.

EXIT STATUS
  0   something fits; without a limit: the dry runs were made
  1   nothing fits --memory or --node-memory on any number of ranks
  2   wrong usage, a file that cannot be read or written or is not as expected, a mesh that no recipe allows

EXAMPLES
  ostraka-plan llama-3-8b.json --mesh node=8,gpu=8 --recipe all --memory 80GiB --storage bf16
  ostraka-plan llama-3-8b.json --mesh node=*,gpu=8 --ranks 8..16384 --html plan.html
  ostraka-plan steam.json --ranks 64 --ranks-per-node 16 --storage f64 --recipe zero_2,zero_3 --json
  ostraka-plan llama-3-70b.json --mesh node=16,gpu=8 --storage bf16 --memory 80GiB --largest --recipe zero_3

The guide's page dry_run has the members of model files, machine files and of --json.)";

void add_mesh(CLI::App& app, Options& options) {
  const char* group = "Mesh";
  app.add_option("--mesh", options.mesh, "Axes and their ranks, the last one fastest; one size may be *, for --ranks")
      ->type_name("NAME=SIZE,...")
      ->group(group);
  app.add_option(
         "--ranks", options.ranks,
         "Numbers of ranks: 64, or 8,16,24, or 8..1024 (doubling); they change the axis of size *, else the first")
      ->type_name("N")
      ->group(group);
  app.add_option("--ranks-per-node", options.ranks_per_node,
                 "Consecutive ranks of a node (default: those behind an axis called node, else all)")
      ->type_name("N")
      ->group(group);
  app.add_option("--backend", options.backend,
                 "node, mpi or nccl (default: nccl where an axis is called gpu, else node)")
      ->type_name("NAME")
      ->group(group);
}

void add_recipe(CLI::App& app, Options& options) {
  const char* group = "Training";
  app.add_option("--recipe", options.recipes,
                 "all (default), or no_shard, zero_1, zero_2, zero_3, hsdp, hfsdp, zero_1_zero_2; several by commas")
      ->type_name("NAME,...")
      ->expected(1)
      ->take_all()
      ->group(group);
  app.add_option("--placements", options.placements,
                 "By hand, a letter per axis: parameter=RS,gradient=PS,optimizer=SS (Replicate, Shard, Partial)")
      ->type_name("LISTS")
      ->group(group);
  app.add_option("--storage", options.storage, "Type of weights at rest: f64, f32 or bf16 (units may say their own)")
      ->type_name("TYPE")
      ->capture_default_str()
      ->group(group);
  app.add_option("--main", options.main, "Type of main weights and moments: f64 or f32")
      ->type_name("TYPE")
      ->group(group);
  app.add_option("--compute", options.compute, "Type in which weights are handed out")->type_name("TYPE")->group(group);
  app.add_option("--reduction", options.reduction, "Type in which gradients are taken and reduced")
      ->type_name("TYPE")
      ->group(group);
  app.add_option("--optimizer", options.optimizer, "none, sgd, sgd_momentum or adamw")
      ->type_name("NAME")
      ->capture_default_str()
      ->group(group);
  app.add_flag("--fuse", options.fuse, "Updates run while gradients are reduced (fuse_with_reduction)")->group(group);
  app.add_option("--micro-batches", options.micro_batches, "Of a step")
      ->type_name("N")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str()
      ->group(group);
}

void add_schedule(CLI::App& app, Options& options) {
  const char* group = "Schedule";
  app.add_option("--prefetch", options.prefetch, "Elements of weights gathered ahead (default: one module; 0: none)")
      ->type_name("N")
      ->check(CLI::NonNegativeNumber)
      ->group(group);
  app.add_option("--slots", options.slots, "Reductions in flight")
      ->type_name("N")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str()
      ->group(group);
  app.add_option("--slot-bytes", options.slot_bytes, "What the slots of a node may hold together")
      ->type_name("SIZE")
      ->group(group);
  app.add_option("--cache", options.cache, "Last-level caches of a node, which bound the slots where there is one node")
      ->type_name("SIZE")
      ->group(group);
  app.add_flag("--unified", options.unified, "Gathers and reductions take turns in one queue")->group(group);
  app.add_option("--machine", options.machine, "JSON file with latencies, bandwidths, operations per second")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--samples", options.samples, "Of a micro-batch on a rank (tokens), for \"flops\" of the machine file")
      ->type_name("N")
      ->check(CLI::PositiveNumber)
      ->capture_default_str()
      ->group(group);
}

void add_output(CLI::App& app, Options& options) {
  const char* group = "Questions and output";
  app.add_option("--memory", options.memory, "What a rank may hold")->type_name("SIZE")->group(group);
  app.add_option("--node-memory", options.node_memory, "What the ranks of a node may hold together")
      ->type_name("SIZE")
      ->group(group);
  app.add_flag("--largest", options.largest, "The largest count of a unit with which the model fits")->group(group);
  app.add_option("--largest-unit", options.largest_unit, "That unit (default: the one with most elements)")
      ->type_name("NAME")
      ->group(group);
  app.add_flag("--layouts", options.layouts, "Padding of every unit under every layout policy")->group(group);
  app.add_flag("--json", options.json, "JSON for programs instead of the table")->group(group);
  app.add_option("--svg", options.svg, "Write a picture: bars of memory and the time line")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--html", options.html, "Write a page with both and a slider over --ranks")
      ->type_name("FILE")
      ->group(group);
  app.add_flag("--force", options.force, "Replace files that exist")->group(group);
}

int report(const std::exception& error) {
  std::fflush(stdout);
  // Lists of reasons have lines.
  for (std::string_view text = error.what(), prefix = "ostraka-plan: "; !text.empty(); prefix = "") {
    const std::string_view line = text.substr(0, text.find('\n'));
    std::fprintf(stderr, "%s%s\n", std::string(prefix).c_str(), printable(line).c_str());
    text.remove_prefix(std::min(text.size(), line.size() + 1));
  }
  return trouble;
}

void save(const std::string& path, bool force, const std::string& text) {
  Replacement file(path, force);
  File(file.path(), File::Access::write).write(0, std::as_bytes(std::span(text)));
  file.commit();
}

/// Before the work: a place that cannot be written is known at once.
void check_places(const Options& options) {
  ostraka::expect(options.svg.empty() || options.svg != options.html, ostraka::Status::INVALID_ARGUMENT,
                  "--svg and --html: expected two files, found '", options.svg, "' twice");
  for (const std::string& path : {options.svg, options.html})
    if (!path.empty())
      Replacement(path, options.force);
}

int run(const Options& options) {
  check_places(options);
  const Study study = make_study(options, [](const std::string& text) {
    std::fprintf(stderr, "ostraka-plan: warning: %s\n", printable(text).c_str());
  });
  study.expect_results();
  if (!options.svg.empty())
    save(options.svg, options.force, to_svg(study));
  if (!options.html.empty())
    save(options.html, options.force, to_html(study));
  const std::string text = options.json ? to_json(study) : to_table(study);
  if (std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0)
    return study.fits_anywhere() ? success : nothing_fits;
  std::perror("ostraka-plan: standard output");
  return trouble;
}

} // namespace

int main(int argc, char** argv) {
  CLI::App app(description, "ostraka-plan");
  app.set_version_flag("--version",
                       "ostraka-plan " OSTRAKA_VERSION_STRING " (JSON " + std::to_string(json_version) + ")");
  app.footer(footer);
  Options options;
  app.add_option("MODEL", options.model, "A network's shapes by unit")->required();
  add_mesh(app, options);
  add_recipe(app, options);
  add_schedule(app, options);
  add_output(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? success : trouble;
  }
  try {
    return run(options);
  } catch (const std::exception& error) {
    return report(error);
  }
}
